"""The types of a calibration: measured operations of one device, with their provenance.

Values only; the form of the file is `form`'s duty.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Operation = Literal[
    "linear",
    "bmm",
    "conv",
    "conv_grad_input",
    "conv_grad_weight",
    "attention",
    "attention_backward",
    "norm",
    "norm_backward",
    "softmax",
    "softmax_backward",
    "pool",
    "pool_backward",
    "reduction",
    "elementwise",
    "gather",
    "scatter",
    "lstm",
    "lstm_backward",
    "gru",
    "gru_backward",
    "optimizer",
    "copy",
]
OPERATIONS: tuple[str, ...] = Operation.__args__  # type: ignore[attr-defined]
_CONV = ("batch", "in_channels", "out_channels", "height", "width", "kernel", "stride", "groups")
_ATTENTION = ("batch", "heads", "queries", "keys", "head_size", "causal")
_RECURRENT = ("batch", "steps", "input", "hidden", "layers")
_IMAGE = ("batch", "channels", "height", "width")
SIZES: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "linear": (("m", "n", "k"),),
    "bmm": (("batch", "m", "n", "k"),),
    "conv": (_CONV, (*_CONV, "channels_last")),
    "conv_grad_input": (_CONV, (*_CONV, "channels_last")),
    "conv_grad_weight": (_CONV, (*_CONV, "channels_last")),
    "attention": (_ATTENTION,),
    "attention_backward": (_ATTENTION,),
    "norm": (("rows", "width"), _IMAGE, (*_IMAGE, "channels_last")),
    "norm_backward": (("rows", "width"), _IMAGE, (*_IMAGE, "channels_last")),
    "softmax": (("rows", "width"),),
    "softmax_backward": (("rows", "width"),),
    "pool": ((*_IMAGE, "kernel", "stride"),),
    "pool_backward": ((*_IMAGE, "kernel", "stride"),),
    "reduction": (("rows", "width"),),
    "elementwise": (
        ("elements", "operands"),
        ("elements", "operands", "in_place"),
        ("elements", "operands", "random"),
    ),
    "gather": (("rows", "width", "table"),),
    "scatter": (("rows", "width", "table"),),
    "lstm": (_RECURRENT,),
    "lstm_backward": (_RECURRENT,),
    "gru": (_RECURRENT,),
    "gru_backward": (_RECURRENT,),
    "optimizer": (("elements", "tensors", "moments", "fused"),),
    "copy": (("elements", "from_host", "pinned"),),
}
"""Names of the sizes of each class, as the sweep gives them; other tables may have others.

Height and width are those of the input, padded by (kernel - 1) // 2. A norm with rows and width is
a layer norm, one with channels a batch norm in training. `operands` are tensors read and written;
`causal`, `channels_last`, `fused`, `from_host` and `pinned` are 0 or 1; an optimizer has two
`moments` (AdamW), one (SGD with momentum) or none; `table` is the rows of an embedding."""

DType = Literal["float32", "tf32", "bfloat16", "float16"]
DTYPES: tuple[str, ...] = DType.__args__  # type: ignore[attr-defined]


@dataclass(frozen=True, kw_only=True)
class Point:
    """One measured operation: a kernel class at one size and number type."""

    operation: str
    """One of OPERATIONS."""
    dtype: str
    """One of DTYPES; of float32 products on a device that has TF32, tf32 where it was allowed."""
    sizes: Mapping[str, int]
    """By name, e.g. m, n, k of a product; docs/calibration.md names those of each class."""
    flops: float
    """Of one call, a multiplication and an addition as two; 0 where it only moves bytes."""
    bytes: float
    """Least that one call moves: each operand read once, each result written once."""
    seconds: float
    """Device time of one call, median."""
    power_w: float | None = None
    """Of the device while it repeated the call; None where it was not held or has no meter."""
    sustained_s: float | None = None
    """Of one call while it was repeated for its power: above `seconds` where power limits clocks;
    None where it was not held."""
    within_step: bool = False
    """Whether it ran within a training step, among others, and not by itself."""


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """What one device was measured to do."""

    device: str
    """Key of the catalogue; of a CPU that it lacks, a key made of the model's name."""
    points: tuple[Point, ...]
    dispatch_s: Mapping[str, float]
    """Host seconds to dispatch an operation, by class; empty where unknown."""
    idle_w: float | None
    taken_at: str
    """ISO date, with time where it is known."""
    software: Mapping[str, str]
    source: str
    """Who measured and how; licence for public tables."""
    lacks: tuple[str, ...] = ()
    """What it cannot say: "backward", "bfloat16", "power", …"""
    notes: tuple[str, ...] = ()
    """What a reader should know: the device was busy, it throttled, …"""
    host_cpu: str | None = None
    """The host that dispatched; its seconds hold for such a host."""
