"""`torch.cuda.FloatTensor` and its like, which older programs make their tensors with.

A build without CUDA has them, and refuses to use them.
"""

from __future__ import annotations

from typing import Any

import torch

_KINDS = {
    "Float": torch.float32, "Double": torch.float64, "Half": torch.float16,
    "BFloat16": torch.bfloat16, "Byte": torch.uint8, "Char": torch.int8, "Short": torch.int16,
    "Int": torch.int32, "Long": torch.int64, "Bool": torch.bool,
}  # fmt: skip


class _Kind:
    """One of them: called with sizes or with numbers, or named as a type to change to."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype

    def __call__(self, *args: Any) -> Any:
        if len(args) == 1 and not isinstance(args[0], (int, torch.Size)):
            return torch.as_tensor(args[0], dtype=self.dtype, device="cuda")
        sizes = args[0] if args and isinstance(args[0], torch.Size) else args
        return torch.empty(sizes or (0,), dtype=self.dtype, device="cuda")


def take_legacy_kinds() -> None:
    """Has them make tensors of the traced GPU."""
    for name, dtype in _KINDS.items():
        setattr(torch.cuda, f"{name}Tensor", _Kind(dtype))
    plain = torch.Tensor.type

    def change(tensor: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
        if isinstance(dtype, _Kind):
            return tensor.to("cuda", dtype.dtype)
        if isinstance(dtype, str) and dtype.startswith("torch.cuda."):
            return change(tensor, getattr(torch.cuda, dtype.rpartition(".")[2]))
        return plain(tensor, dtype, *args, **kwargs)

    torch.Tensor.type = change
