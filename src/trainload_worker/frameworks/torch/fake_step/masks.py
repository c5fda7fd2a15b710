"""Says of attention masks without numbers whether they are causal, as torch's encoder asks.

It asks each mask that it is given, and where the answer is yes leaves the mask away and has the
attention's kernel do it. A tensor that was real when the trace began was read then.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.modules import transformer
from torch.utils._python_dispatch import _disable_current_modes

from trainload_worker.frameworks.torch.fake_step.tensors import FakeTensor

LARGEST = 8192
"""Sides of a mask that is read; a larger square is something else, or takes long to compare."""
GUESSED = "an attention mask of unknown numbers was taken for a causal one"


def read_mask(tensor: Any) -> bool | None:
    """Whether a real tensor is a causal mask; None where it is nothing like a mask."""
    square = tensor.dim() == 2 and tensor.shape[0] == tensor.shape[1] <= LARGEST
    if not square or tensor.requires_grad or not tensor.is_floating_point():
        return None
    if tensor.device.type != "cpu" or tensor.layout is not torch.strided:
        return None
    with _disable_current_modes():
        causal = transformer.Transformer.generate_square_subsequent_mask(len(tensor))
        return bool(torch.equal(tensor, causal.to(tensor.dtype)))


def answer_for_masks(notes: list[str]) -> None:
    """Has torch's encoder be answered for the rest of the process; a guess is noted once."""
    plain = getattr(transformer, "_detect_is_causal_mask", None)
    if plain is None:
        return

    def detect(mask: Any, is_causal: bool | None = None, size: int | None = None) -> bool:
        if is_causal is not None or not isinstance(mask, FakeTensor):
            return bool(plain(mask, is_causal, size))
        side = mask.shape[-2] if size is None else size
        if tuple(mask.shape) != (side, side):
            return False
        # What torch makes to compare the mask with takes its place in memory too.
        causal = transformer._generate_square_subsequent_mask(side, mask.device, mask.dtype)
        (mask == causal).all()
        if mask.causal is None and GUESSED not in notes:
            notes.append(GUESSED)
        return mask.causal is not False

    transformer._detect_is_causal_mask = detect
