"""Achieved throughput of one calibrated device: what its points say of any work, by neighbours.

Fits nothing beyond the points of the one calibration it was given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from trainload.predict.features import by_channel, is_narrow, place
from trainload.predict.joules import EnergyRates, fit_rates
from trainload.predict.limits import usable_dtype
from trainload.predict.work import LEAST_KERNEL_S, PRODUCTS, Work, work_of

if TYPE_CHECKING:
    from trainload.hardware.calibrations import Calibration
    from trainload.predict.limits import Limits

LAST = "last_"
"""Before kinds of work on images with their channels innermost."""
HOST_FLOOR = "device time of small operations"
"""In `lacks` of a calibration whose shortest times are those of the host's calls."""
_NEIGHBOURS = 6
_LEAST_POINTS = 4
_NEAR = 0.05
_SMALLEST = 0.05
"""Share of the points, those with the least work, whose usual time is what any call takes."""
_FLOOR_MOST = 2.0
"""The floor against the shortest call: where the smallest points are no longer small."""
_RELATED = {
    "conv_grad_input": "conv",
    "conv_grad_weight": "conv",
    "attention": "bmm",
    "attention_backward": "bmm",
    "lstm": "linear",
    "lstm_backward": "linear",
    "gru": "linear",
    "gru_backward": "linear",
    "norm_backward": "norm",
    "softmax_backward": "softmax",
}
_DTYPES = ("float16", "bfloat16", "tf32", "float32")


@dataclass(frozen=True, kw_only=True)
class Curve:
    """The points of one class and type as a tree over their features."""

    tree: Any
    residuals: Any
    """Natural logarithms: measured seconds over floor and roofline."""
    floor_s: float
    """The least that a call of the class took."""


@dataclass(frozen=True, kw_only=True)
class Said:
    """What a calibration says of some works; arrays of natural logarithms."""

    residual: Any
    spread: Any
    floor_s: float
    exact: bool
    """Whether it has points of that very class, and for products of that type."""
    as_laid: bool = False
    """Whether its images lay in memory as the works' do, channels innermost."""


class Curves:
    """The curves of one calibrated device."""

    def __init__(self, calibration: Calibration, limits: Limits) -> None:
        self.device = calibration.device
        self.limits = limits
        self.host_floor = HOST_FLOOR in calibration.lacks
        self._fitted: dict[tuple[str, str], Curve] = {}
        groups: dict[tuple[str, str], list[tuple[Work, float]]] = {}
        self._calibration = calibration
        for point in calibration.points:
            work = work_of(point)
            groups.setdefault((kind_of(work), point.dtype), []).append((work, point.seconds))
        self._points = {
            key: points
            for key, points in groups.items()
            if len(points) >= _LEAST_POINTS and usable_dtype(key[1], limits) is not None
        }

    def _curve(self, key: tuple[str, str]) -> Curve:
        """Fitted when it is first asked for: a step needs few classes."""
        if key not in self._fitted:
            self._fitted[key] = self._fit(self._points[key])
        return self._fitted[key]

    def _fit(self, points: Sequence[tuple[Work, float]]) -> Curve:
        import numpy as np
        from scipy.spatial import cKDTree

        works = [work for work, _ in points]
        dtypes = [usable_dtype(work.dtype, self.limits) or "float32" for work in works]
        seconds = np.array([one for _, one in points])
        placed = place(works, dtypes, self.limits)
        least = np.argsort(placed.roofline_s)[: max(3, round(_SMALLEST * len(works)))]
        floor_s = float(min(np.median(seconds[least]), _FLOOR_MOST * seconds.min()))
        return Curve(
            tree=cKDTree(placed.features),
            residuals=np.log(seconds / (floor_s + placed.roofline_s)),
            floor_s=floor_s,
        )

    def say(self, kind: str, dtype: str, features: Any) -> Said | None:
        """What it says of works of one kind and type; None where nothing is near enough."""
        import numpy as np

        kind = self._told_apart(kind, dtype)
        key = self._nearest_key(kind, dtype)
        if key is None:
            return None
        curve = self._curve(key)
        count = min(_NEIGHBOURS, len(curve.residuals))
        distances, at = curve.tree.query(features, k=count)
        weights = 1 / (distances + _NEAR) ** 2
        weights /= weights.sum(axis=1, keepdims=True)
        found = curve.residuals[at]
        mean = (found * weights).sum(axis=1)
        spread = np.sqrt((((found - mean[:, None]) ** 2) * weights).sum(axis=1))
        # What only moves bytes moves them alike in every type.
        exact = key == (kind, dtype) or (key[0] == kind and not is_product(kind))
        return Said(
            residual=mean,
            spread=spread,
            floor_s=curve.floor_s,
            exact=exact,
            as_laid=kind.startswith(LAST),
        )

    @cached_property
    def energy_rates(self) -> EnergyRates | None:
        """By the power that was read; None where it was not."""
        return fit_rates(self._calibration.points, self._calibration.idle_w)

    def device_floor_s(self, floor_s: float) -> float:
        """The floor without the host's share."""
        return min(floor_s, LEAST_KERNEL_S) if self.host_floor else floor_s

    def _told_apart(self, kind: str, dtype: str) -> str:
        """The kind; without what not every calibration tells apart where this one does not.

        In place and at random only those of processors do, channels innermost only those of GPUs.
        """
        if kind.startswith(LAST):
            plain = kind.removeprefix(LAST)
            types = (dtype,) if is_product(kind) else _DTYPES
            return kind if any((kind, one) in self._points for one in types) else plain
        plain = kind.removeprefix("in_place_").removeprefix("random_")
        known = plain == kind or any(one == kind for one, _ in self._points)
        return kind if known else plain

    def _nearest_key(self, kind: str, dtype: str) -> tuple[str, str] | None:
        """That class in that type, in another type, then a class that works alike."""
        for one in (kind, *_alike(kind)):
            for other in (dtype, *_DTYPES):
                if (one, other) in self._points:
                    return one, other
        return None


def kind_of(work: Work) -> str:
    """The class, with apart what works otherwise under the same name.

    Convolutions of single places are plain products, those with few channels in a group leave
    matrix units idle; images with their channels innermost have kernels of their own; norms of
    images are batch norms; copies from the host pass its bus. On a
    processor what is written in place has its memory already, and random numbers take long.
    """
    name = work.operation
    if name.startswith("conv"):
        laid = LAST if work.channels_last else ""
        if is_narrow(work):
            return f"{laid}grouped_{name}"
        return f"{laid}pointwise_{name}" if work.sizes.get("kernel", 1) == 1 else f"{laid}{name}"
    if name.startswith("norm") and "channels" in work.sizes and work.channels_last:
        return f"{LAST}{name}"
    if by_channel(work):
        return f"image_{name}"
    if work.sizes.get("turned"):
        return f"turned_{name}"
    if work.sizes.get("random"):
        return f"random_{name}"
    if work.sizes.get("in_place"):
        return f"in_place_{name}"
    return "host_copy" if work.sizes.get("from_host") else name


def is_product(kind: str) -> bool:
    """Whether works of the kind multiply matrices."""
    plain = kind.removeprefix(LAST).removeprefix("pointwise_").removeprefix("grouped_")
    return plain in PRODUCTS


def _alike(kind: str) -> tuple[str, ...]:
    """Kinds that stand in for one that was not measured, nearest first."""
    if kind.startswith("grouped_") or kind == "host_copy":
        return ()
    if kind.startswith("pointwise_"):
        return ("pointwise_conv", "linear")
    if kind.startswith("turned_"):
        return ("turned_copy", "elementwise")
    if kind.startswith("image_"):
        plain = kind.removeprefix("image_")
        return (plain, "norm", "elementwise")
    if kind in _RELATED:
        return (_RELATED[kind], *(() if kind in PRODUCTS else ("elementwise",)))
    return () if kind in PRODUCTS else ("elementwise",)
