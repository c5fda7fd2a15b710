"""Roofline seconds of work on a device, and the features that efficiency is a function of.

Arithmetic on arrays alone; what was measured comes from `curves`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trainload.predict.work import Shape, Work, rounded, shape_of

if TYPE_CHECKING:
    from trainload.predict.limits import Limits

_TILE = (128, 64)
"""Rows and columns of the matrix that one block of threads usually computes."""
_USUAL_S = 2e-5
_PRODUCT = (0.6, 0.6, 0.6, 0.6, 0.2, 0.2, 1.0, 1.5, 0.5, 3.0)
_ROWS = (0.15, 0.15, 0.0, 0.0, 0.0, 0.4, 0.0, 0.0, 0.0, 0.0)
_IMAGES = (0.15, 0.4, 0.0, 0.0, 0.0, 0.4, 0.0, 0.0, 0.0, 0.0)
"""Weights of the features in the distance between two pieces of work: m, n, k, batch, moving over
computing, roofline seconds, what tiles and waves waste, side of a kernel, height of an image, rows
of half precision that do not begin at multiples of 16 bytes.
Kernels of products are chosen by shape; of rows it matters how long they keep the device; norms of
images go by channel, so that few channels leave most of a device idle."""
_POWER_SHARES = {"linear": 1.0, "bmm": 0.8}
_OTHER_POWER_SHARE = 0.6
"""How much of a dense product's power a class draws: transforms and small tiles draw less."""
_NARROW = 16
"""Grouped convolutions with fewer channels than this in a group leave the matrix units idle."""
_LIST_LAUNCH = 130
_LIST_LAUNCH_S = 1e-5
_LIST_SHARE = 0.85
"""An operation on lists of tensors: how many go into one kernel (torch's MultiTensorApply takes 110
in one list, 64 in each of two, 48 of three), what each kernel takes besides moving bytes, as its
blocks have a piece of 65,536 numbers each, and its share of the bandwidth. An H200's plain SGD
takes 33 us with 160 small weights and 431 us with 148 that move 1.5 GB."""
WINOGRAD = 4.0
"""How many times fewer multiplications F(4×4, 3×3) needs (Lavin and Gray, 2016)."""


@dataclass(frozen=True, kw_only=True)
class Placed:
    """Works on one device as arrays: roofline seconds, features, least seconds."""

    roofline_s: Any
    """By the peak that the board's power allows."""
    features: Any
    least_s: Any
    """No prediction is below: the datasheet's roofline, less what Winograd saves."""


def is_narrow(work: Work) -> bool:
    """Whether it is a grouped convolution that matrix units do not serve, as a depthwise one."""
    shape = shape_of(work)
    groups = max(work.sizes.get("groups", 1), 1)
    channels = min(work.sizes.get("in_channels", 1), work.sizes.get("out_channels", 1)) / groups
    return groups > 1 and shape.side > 0 and channels < _NARROW


def _filled(elements: float, multiprocessors: float) -> float:
    """Share of the multiprocessors that work while the tiles go through in waves."""
    waves = elements / (_TILE[0] * _TILE[1]) / multiprocessors
    return waves / math.ceil(waves)


def by_channel(work: Work) -> bool:
    """Whether it is a norm that takes each channel of an image by itself."""
    norm = work.operation.startswith("norm") and "channels" in work.sizes
    return norm and not work.channels_last


def _idle_channels(work: Work, channels: float, multiprocessors: float) -> float:
    """How much longer it takes that a multiprocessor has a channel and others have none."""
    if not by_channel(work):
        return 1.0
    return rounded(channels, round(multiprocessors)) / channels


def _listed_s(work: Work, moved_s: float) -> float:
    """Seconds with what lists of tensors add; those of a fused update are measured as they are."""
    tensors = work.sizes.get("tensors", 0)
    if not tensors or work.operation != "elementwise":
        return moved_s
    return moved_s / _LIST_SHARE + math.ceil(tensors / _LIST_LAUNCH) * _LIST_LAUNCH_S


def _is_odd(dtype: str, shape: Shape) -> bool:
    """Whether a matrix in half precision has a side that is no multiple of eight."""
    return dtype in ("bfloat16", "float16") and any(
        round(side) % 8 for side in (shape.m, shape.n, shape.k)
    )


def _weights(work: Work) -> tuple[float, ...]:
    if work.is_product:
        return _PRODUCT
    return _IMAGES if by_channel(work) else _ROWS


def place(works: Sequence[Work], dtypes: Sequence[str], limits: Limits) -> Placed:
    """The works on a device, each computed in its type of `dtypes`."""
    import numpy as np

    roofline, least, rows = [], [], []
    for work, dtype in zip(works, dtypes, strict=True):
        shape = shape_of(work)
        moved_s = max(work.bytes, 1.0) / limits.bandwidth
        if not work.is_product:
            rows.append((shape.m, shape.n, 1.0, 1.0, 1.0, moved_s, 1.0, 1.0, 1.0, 1.0))
            idle = _idle_channels(work, shape.n, limits.multiprocessors)
            roofline.append(moved_s * idle if limits.is_cpu else _listed_s(work, moved_s * idle))
            least.append(0.0 if work.bytes < 1 else moved_s)
            continue
        share = _POWER_SHARES.get(work.operation, _OTHER_POWER_SHARE)
        narrow = is_narrow(work)
        used = "float32" if narrow else dtype
        flops = max(work.flops, 1.0)
        compute_s = flops / limits.peak(used, share)
        tiled = rounded(shape.m, _TILE[0]) * rounded(shape.n, _TILE[1])
        seconds = max(compute_s, moved_s)
        rows.append(
            (
                shape.m,
                shape.n,
                shape.k,
                shape.batch,
                moved_s / compute_s,
                seconds,
                shape.m * shape.n / tiled * _filled(shape.batch * tiled, limits.multiprocessors),
                shape.side,
                shape.places,
                math.e if _is_odd(dtype, shape) else 1.0,
            )
        )
        roofline.append(seconds)
        saved = WINOGRAD if shape.side == 3 and dtype == "float32" else 1.0
        least.append(max(flops / saved / max(limits.peaks[used], 1.0), moved_s))
    columns = np.log(np.maximum(np.array(rows, dtype=float).reshape(-1, 10), 1e-12))
    columns[:, 5] -= np.log(_USUAL_S)
    weights = np.array([_weights(work) for work in works])
    return Placed(
        roofline_s=np.array(roofline),
        features=columns * weights.reshape(-1, 10),
        least_s=np.array(least),
    )
