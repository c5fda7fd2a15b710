"""The largest result of operations whose size depends on numbers that nobody knows.

What is left out of a trace otherwise would be the whole step: memory up to this is enough.
"""

from __future__ import annotations

from typing import Any, Callable, Mapping

import torch

from trainload_worker.frameworks.torch.fake_step.tensors import Form, form_of


def _new(shape: Any, dtype: Any, strides: Any = None) -> Form:
    return form_of(shape, strides, dtype, 0, True)


def _nonzero(source: Any) -> list[Form]:
    # Its kernel writes the indices of each side in a row.
    count = source.numel()
    return [_new((count, source.dim()), torch.int64, (1, max(1, count)))]


def _masked_select(source: Any, mask: Any) -> list[Form]:
    shape = torch.broadcast_shapes(source.shape, mask.shape)
    return [_new((shape.numel(),), source.dtype)]


def _unique(
    source: Any, _sorted: bool = True, inverse: bool = False, counts: bool = False
) -> list[Form]:
    count = source.numel()
    return [
        _new((count,), source.dtype),
        _new(source.shape if inverse else (0,), torch.int64),
        _new((count if counts else 0,), torch.int64),
    ]


def _nms(boxes: Any, *_rest: Any) -> list[Form]:
    return [_new((boxes.shape[0],), torch.int64)]


LARGEST: Mapping[str, Callable[..., list[Form]]] = {
    "nonzero": _nonzero,
    "masked_select": _masked_select,
    "_unique2": _unique,
    "nms": _nms,
}
