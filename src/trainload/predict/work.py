"""Work: one operation as a class with sizes, FLOPs and bytes, from a calibration or an op trace.

Values and their shapes as products; knows no device and no time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainload.hardware.calibrations import Point

PRODUCTS = (
    "linear",
    "bmm",
    "conv",
    "conv_grad_input",
    "conv_grad_weight",
    "attention",
    "attention_backward",
    "lstm",
    "lstm_backward",
    "gru",
    "gru_backward",
)
"""Classes that multiply matrices; every other one only moves bytes."""
LEAST_KERNEL_S = 4e-6
"""What a kernel takes at least, from its launch to its end, where nothing else tells."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """What one operation asks of a device."""

    operation: str
    """Its class, as calibrations name it."""
    dtype: str
    sizes: Mapping[str, int]
    flops: float
    bytes: float
    """Least that it moves."""
    layer: str | None = None
    phase: str = "forward"
    channels_last: bool = False
    """Whether its images have the channels innermost."""
    name: str = ""
    """As the framework calls it; empty where only its class is known."""

    @property
    def is_product(self) -> bool:
        """Whether it multiplies matrices."""
        return self.operation in PRODUCTS


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """An operation as products of matrices, or as rows: what its speed depends on."""

    batch: float
    m: float
    n: float
    k: float
    side: float = 1.0
    """Of a convolution's kernel; 1 elsewhere."""
    places: float = 1.0
    """Height of a convolution's input; 1 elsewhere."""


def work_of(point: Point) -> Work:
    """The work of a calibration's point."""
    return Work(
        operation=point.operation,
        dtype=point.dtype,
        sizes=point.sizes,
        flops=point.flops,
        bytes=point.bytes,
        channels_last=bool(point.sizes.get("channels_last")),
    )


def shape_of(work: Work) -> Shape:
    """The shape by the names of the class's sizes; a size that is not told counts as 1."""
    s = work.sizes
    if "out_channels" in s:
        return _convolution(work)
    if "queries" in s:
        return Shape(
            batch=_size(s, "batch") * _size(s, "heads"),
            m=_size(s, "queries"),
            n=_size(s, "keys"),
            k=_size(s, "head_size"),
        )
    if "hidden" in s:
        gates = 4 if work.operation.startswith("lstm") else 3
        hidden = _size(s, "hidden")
        return Shape(batch=_size(s, "steps"), m=_size(s, "batch"), n=gates * hidden, k=hidden)
    if work.is_product:
        return Shape(batch=_size(s, "batch"), m=_size(s, "m"), n=_size(s, "n"), k=_size(s, "k"))
    if "channels" in s:
        rows = _size(s, "batch") * _size(s, "height") * _size(s, "width")
        return Shape(batch=1, m=rows, n=_size(s, "channels"), k=1)
    if "width" in s:
        return Shape(batch=1, m=_size(s, "rows"), n=_size(s, "width"), k=1)
    return Shape(batch=1, m=max(_size(s, "elements"), 1), n=1, k=1)


def _convolution(work: Work) -> Shape:
    """As the implicit product: places × outputs × what one output reads."""
    s = work.sizes
    groups, kernel, stride = _size(s, "groups"), _size(s, "kernel"), _size(s, "stride")
    ins, outs = _size(s, "in_channels") / groups, _size(s, "out_channels") / groups
    inner = _size(s, "batch") * _size(s, "height") * _size(s, "width")
    outer = max(inner / stride**2, 1.0)
    side, places = kernel, _size(s, "height")
    if work.operation == "conv_grad_weight":
        return Shape(batch=groups, m=outs, n=ins * kernel**2, k=outer, side=side, places=places)
    if work.operation == "conv_grad_input":
        return Shape(batch=groups, m=inner, n=ins, k=outs * kernel**2, side=side, places=places)
    return Shape(batch=groups, m=outer, n=outs, k=ins * kernel**2, side=side, places=places)


def _size(sizes: Mapping[str, int], name: str) -> float:
    return max(float(sizes.get(name, 1)), 1.0)


def rounded(count: float, tile: int) -> float:
    """The next multiple of a tile."""
    return math.ceil(count / tile) * tile
