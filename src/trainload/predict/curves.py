"""Achieved throughput of one calibrated device: what its points say of any work, by neighbours.

Fits nothing beyond the points of the one calibration it was given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trainload.predict.features import place
from trainload.predict.limits import usable_dtype
from trainload.predict.work import Work, work_of

if TYPE_CHECKING:
    from trainload.hardware.calibrations import Calibration
    from trainload.predict.limits import Limits

HOST_FLOOR = "device time of small operations"
"""In `lacks` of a calibration whose shortest times are those of the host's calls."""
_NEIGHBOURS = 12
_LEAST_POINTS = 8
_NEAR = 0.1
_FLOOR_QUANTILE = 0.01
_DEVICE_FLOOR_S = 4e-6
"""What a kernel takes at least where a calibration only knows the host's time."""
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
    """Whether it has points of that very class and type."""


class Curves:
    """The curves of one calibrated device."""

    def __init__(self, calibration: Calibration, limits: Limits) -> None:
        self.device = calibration.device
        self.limits = limits
        self.host_floor = HOST_FLOOR in calibration.lacks
        self._curves: dict[tuple[str, str], Curve] = {}
        groups: dict[tuple[str, str], list[tuple[Work, float]]] = {}
        for point in calibration.points:
            key = _kind(work_of(point)), point.dtype
            groups.setdefault(key, []).append((work_of(point), point.seconds))
        for key, points in groups.items():
            if len(points) >= _LEAST_POINTS and usable_dtype(key[1], limits) is not None:
                self._curves[key] = self._fit(points)

    def _fit(self, points: Sequence[tuple[Work, float]]) -> Curve:
        import numpy as np
        from scipy.spatial import cKDTree

        works = [work for work, _ in points]
        dtypes = [usable_dtype(work.dtype, self.limits) or "float32" for work in works]
        seconds = np.array([one for _, one in points])
        floor_s = float(np.quantile(seconds, _FLOOR_QUANTILE))
        placed = place(works, dtypes, self.limits)
        return Curve(
            tree=cKDTree(placed.features),
            residuals=np.log(seconds / (floor_s + placed.roofline_s)),
            floor_s=floor_s,
        )

    def has(self, work: Work) -> bool:
        """Whether it has points of that very class and type."""
        return (_kind(work), work.dtype) in self._curves

    def say(self, kind: str, dtype: str, features: Any) -> Said | None:
        """What it says of works of one kind and type; None where nothing is near enough."""
        import numpy as np

        key = self._nearest_key(kind, dtype)
        if key is None:
            return None
        curve = self._curves[key]
        count = min(_NEIGHBOURS, len(curve.residuals))
        distances, at = curve.tree.query(features, k=count)
        weights = 1 / (distances + _NEAR) ** 2
        weights /= weights.sum(axis=1, keepdims=True)
        found = curve.residuals[at]
        mean = (found * weights).sum(axis=1)
        spread = np.sqrt((((found - mean[:, None]) ** 2) * weights).sum(axis=1))
        return Said(residual=mean, spread=spread, floor_s=curve.floor_s, exact=key == (kind, dtype))

    def device_floor_s(self, floor_s: float) -> float:
        """The floor without the host's share."""
        return min(floor_s, _DEVICE_FLOOR_S) if self.host_floor else floor_s

    def _nearest_key(self, kind: str, dtype: str) -> tuple[str, str] | None:
        """That class in that type, in another type, then a class that works alike."""
        kinds = [kind, *([_RELATED[kind]] if kind in _RELATED else [])]
        if kind.startswith("pointwise"):
            kinds.append("linear")
        elif kind not in ("linear", "bmm") and kind not in _RELATED and not kind.startswith("conv"):
            kinds.append("elementwise")
        for one in kinds:
            for other in (dtype, *_DTYPES):
                if (one, other) in self._curves:
                    return one, other
        return None


def _kind(work: Work) -> str:
    """The class, convolutions of single places apart: they are plain products."""
    if work.operation.startswith("conv") and work.sizes.get("kernel", 1) == 1:
        return f"pointwise_{work.operation}"
    return work.operation


kind_of = _kind
