"""Seconds of any work on a device, from its own calibration or carried over from others.

Own points first; a class or type that the device was not measured in is carried over from the
calibrated architectures nearest to it, and its range is wider.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from trainload.predict.curves import LAST, Curves, Said, is_product, kind_of
from trainload.predict.features import place
from trainload.predict.limits import usable_dtype
from trainload.predict.work import LEAST_KERNEL_S

if TYPE_CHECKING:
    from trainload.predict.limits import Limits
    from trainload.predict.work import Work

Tier = Literal["calibrated", "datasheet", "measured here"]
LEVEL = 0.95
WITHIN = 1.96
"""Standard deviations of a normal distribution that hold LEVEL of it, either way."""
_ALIKE = 1.0
"""How fast the weight of another architecture falls with its distance."""
_SCALE = 6.0
_MUCH_LARGER = 1.0
"""The same with the logarithm of the bandwidths' ratio beyond 1: kernels that leave a large device
half idle fill a small one."""
_OWN_SPREAD, _UNSEEN_SPREAD, _FOREIGN_SPREAD = 0.06, 0.26, 0.45
"""Spread of a whole device against what is known of it, shared by all of its operations: measured
itself, of an architecture like those measured, or of another maker's."""
MOSTLY = 0.98
"""Of a step's time: from here on it counts as calibrated, and what is carried over is named."""
_BORROWED = 0.15
"""More spread where another class or type had to stand in."""
_MATRIX_RESIDUAL = 0.17
"""Products on matrix units against what float32 units tell of them: what the published throughputs
of bert_large_squad take longer than without it, on average over their six kinds of device
(bench/predict_devices.py). One constant for every device."""
_NARROW_RESIDUAL, _NARROW_SPREAD = math.log(2.5), 0.5
"""Depthwise convolutions against their roofline; no table has them yet."""
_NO_RESIDUAL, _NO_SPREAD = math.log(1.6), 0.5
"""A class that no calibration knows."""
_TURNING_SHARE = 0.8
"""Of the bandwidth that turning an image's channels innermost reaches."""
_MOST_KNOWN = 8
"""Lists of works whose times are remembered: a batch in each precision."""


@dataclass(frozen=True, kw_only=True)
class OperationTimes:
    """Seconds of each work on the device, and their relative spread; arrays."""

    seconds: Any
    spread: Any
    """Standard deviation of the logarithm, without what all operations share."""
    shared_spread: float
    """Of the whole device."""
    calibrated: Any
    """Whether each rests on points of the device itself."""
    roofline_s: Any

    @property
    def own_share(self) -> float:
        """Of the time, that rests on points of the device itself."""
        total_s = float(self.seconds.sum())
        return float(self.seconds[self.calibrated].sum()) / total_s if total_s else 0.0

    @property
    def rests_on_own(self) -> bool:
        """Whether so much does that the rest cannot be seen in the step."""
        return self.own_share >= MOSTLY


class Predictor:
    """What is known of one device, ready to be asked."""

    def __init__(self, limits: Limits, own: Curves | None, others: Sequence[Curves]) -> None:
        self._limits = limits
        self.own = own
        self._others = tuple(others)
        self._known: list[tuple[Sequence[Work], bool, OperationTimes]] = []

    @property
    def nearest(self) -> tuple[str, ...]:
        """Names of the calibrations it rests on, nearest first."""
        if self.own is not None:
            return (self.own.device,)
        ordered = sorted(self._others, key=lambda one: -self._weight(one))
        return tuple(one.device for one in ordered[:3])

    def times(self, works: Sequence[Work], *, with_host: bool = False) -> OperationTimes:
        """Seconds of each work; `with_host` adds what a lone call took where that was measured.

        Works that differ in nothing but their layer are looked up once; one of the last lists
        again, as for another number of devices in each precision, is answered from memory.
        """
        import numpy as np

        for known, hosted, told in self._known:
            if known is works and hosted == with_host:
                return told
        places: dict[tuple[Any, ...], int] = {}
        kept: list[Work] = []
        back = []
        for work in works:
            key = _likeness(work)
            if key not in places:
                places[key] = len(kept)
                kept.append(work)
            back.append(places[key])
        alone = self._times(kept, with_host=with_host)
        at = np.array(back, dtype=int)
        found = OperationTimes(
            seconds=alone.seconds[at],
            spread=alone.spread[at],
            shared_spread=0.0,
            calibrated=alone.calibrated[at],
            roofline_s=alone.roofline_s[at],
        )
        found = replace(found, shared_spread=self._shared_spread(found.rests_on_own))
        self._known = [*self._known[1 - _MOST_KNOWN :], (works, with_host, found)]
        return found

    def _times(self, works: Sequence[Work], *, with_host: bool) -> OperationTimes:
        import numpy as np

        dtypes = [usable_dtype(work.dtype, self._limits) or "float32" for work in works]
        placed = place(works, dtypes, self._limits)
        seconds = np.zeros(len(works))
        spread = np.zeros(len(works))
        own: Any = np.zeros(len(works), dtype=bool)
        groups: dict[tuple[str, str], list[int]] = {}
        for place_of, (work, dtype) in enumerate(zip(works, dtypes, strict=True)):
            groups.setdefault((kind_of(work), dtype), []).append(place_of)
        for (kind, dtype), at in groups.items():
            features = placed.features[at]
            base = placed.roofline_s[at]
            found, measured = self._residual(kind, dtype, features, with_host=with_host)
            seconds[at] = (found.floor_s + base) * np.exp(found.residual)
            if found.as_laid:
                pass  # measured as it lies
            elif found.exact:
                # Calibrated convolutions turn their images.
                seconds[at] -= self._turning_s(works, kind, dtype, at, turned=False)
            else:
                seconds[at] += self._turning_s(works, kind, dtype, at, turned=True)
            spread[at] = found.spread
            own[at] = measured
        least = placed.least_s
        return OperationTimes(
            seconds=np.maximum(seconds, least),
            spread=spread,
            shared_spread=0.0,
            calibrated=own,
            roofline_s=placed.roofline_s,
        )

    def _shared_spread(self, own: bool) -> float:
        if own:
            return _OWN_SPREAD
        return _UNSEEN_SPREAD if self._limits.known_architecture else _FOREIGN_SPREAD

    def _residual(
        self, kind: str, dtype: str, features: Any, *, with_host: bool
    ) -> tuple[Said, bool]:
        import numpy as np

        count = len(features)
        if self.own is not None:
            said = self.own.say(kind, dtype, features)
            if said is not None and said.exact:
                return _with_floor(said, self.own, with_host), True
        kind = _carried(kind)
        heard = [
            (self._weight(one), _with_floor(said, one, with_host))
            for one in (*self._others, *([self.own] if self.own is not None else []))
            if (said := one.say(kind, dtype, features)) is not None
        ]
        if not heard and kind.startswith("grouped_"):
            return _constant(count, _NARROW_RESIDUAL, _NARROW_SPREAD), False
        if not heard:
            return _constant(count, _NO_RESIDUAL, _NO_SPREAD), False
        weights = np.array([weight for weight, _ in heard])
        weights /= weights.sum()
        matrix = _MATRIX_RESIDUAL if dtype != "float32" and is_product(kind) else 0.0
        means = np.array([said.residual + (0.0 if said.exact else matrix) for _, said in heard])
        mean = weights @ means
        between = weights @ (means - mean) ** 2
        within = weights @ np.array([said.spread**2 for _, said in heard])
        exact = float(weights @ np.array([said.exact for _, said in heard]))
        # What a call takes at least is the host's and the driver's, of no architecture.
        floor_s = float(np.median([said.floor_s for _, said in heard]))
        spread = np.sqrt(between + within + (1 - exact) * _BORROWED**2)
        as_laid = float(weights @ np.array([said.as_laid for _, said in heard])) > 0.5
        found = Said(
            residual=mean, spread=spread, floor_s=floor_s, exact=exact > 0.5, as_laid=as_laid
        )
        return found, False

    def _turning_s(
        self, works: Sequence[Work], kind: str, dtype: str, at: Sequence[int], *, turned: bool
    ) -> Any:
        """Matrix units want the channels innermost: images that have not are turned, both ways.

        Of those images, or of the others.
        """
        import numpy as np

        narrow = kind.removeprefix(LAST).startswith("grouped_")
        if "conv" not in kind or narrow or dtype == "float32":
            return 0.0
        moved = [works[one].bytes * (works[one].channels_last != turned) for one in at]
        return 2 * np.array(moved) / (_TURNING_SHARE * self._limits.bandwidth)

    def _weight(self, other: Curves) -> float:
        """Of another device's word: less for another architecture, and for a much larger one."""
        apart = abs(other.limits.generation - self._limits.generation)
        larger = math.log(other.limits.bandwidth / self._limits.bandwidth) - _MUCH_LARGER
        return math.exp(-_ALIKE * apart - _SCALE * max(larger, 0.0))


def _likeness(work: Work) -> tuple[Any, ...]:
    """What the seconds of a work depend on."""
    sizes = tuple(work.sizes.items())
    return work.operation, work.dtype, sizes, work.flops, work.bytes, work.channels_last


def _carried(kind: str) -> str:
    """What other devices are asked for: depthwise kernels for channels innermost are their own.

    An H200's take a fifth to four times as long as those for images as they usually lie.
    """
    return kind.removeprefix(LAST) if "grouped_" in kind else kind


def _with_floor(said: Said, curves: Curves, with_host: bool) -> Said:
    floor_s = said.floor_s if with_host else curves.device_floor_s(said.floor_s)
    return replace(said, floor_s=floor_s)


def _constant(count: int, residual: float, spread: float) -> Said:
    import numpy as np

    return Said(
        residual=np.full(count, residual),
        spread=np.full(count, spread),
        floor_s=LEAST_KERNEL_S,
        exact=False,
    )
