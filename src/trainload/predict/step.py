"""The time of one step: two timelines, the host that dispatches and the device that computes.

Pure arithmetic on predicted operations; knows no trace and no file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from trainload.predict.energy import measured_power, power_of
from trainload.predict.host import host_seconds, processor_seconds, waits_for_gradients
from trainload.predict.several import exchange_seconds
from trainload.predict.transfer import WITHIN, OperationTimes, Predictor, Tier
from trainload.predict.types import LayerPrediction, Limit, Ranged, StepPrediction
from trainload.units import render_seconds

if TYPE_CHECKING:
    from trainload.hardware.catalogue import Device
    from trainload.predict.limits import Limits
    from trainload.predict.work import Work

_PROCESSOR = 1.07
"""Operations of a processor within a step, against the same by themselves."""
_HOST_SPREAD = 0.35
_SEVERAL_SPREAD = 0.12
_LAUNCH_S = 1.2e-5
"""An operation shorter than this is held by its launch."""
_WHY = {
    "calibrated": "all operations rest on points measured on such a device",
    "datasheet": "efficiency is carried over from other devices: {nearest}",
}


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How a step runs against the single operations that `trainload calibrate` times on a GPU.

    Chosen on the steps of bench/step_truth.py; bench/predict_h200.py chooses it again without the
    family that it judges.
    """

    factor: float = 1.03
    gap_s: float = 4e-6
    """More for each operation: the gap before it, and caches that hold another's data."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One step on one kind of device."""

    works: Sequence[Work]
    device: Device
    limits: Limits
    predictor: Predictor
    dispatch_s: Mapping[str, float]
    """From a calibration of such a device; empty where unknown."""
    idle_w: float | None
    other_host_s: Mapping[str, float] = field(default_factory=dict)
    """The same of a host that was calibrated with another device: such a one may hold this step."""
    count: int = 1
    gradient_bytes: float = 0.0
    """What several devices exchange."""
    bus_bytes_per_s: float | None = None
    """Of their exchange, where the user knows it."""
    pace: Pace = Pace()


def predict_step(asked: Asked) -> StepPrediction:
    """The step's time with its range, layers, what limits it, power and energy."""
    times = _in_step(asked, asked.predictor.times(asked.works))
    device_s = float(times.seconds.sum())
    host_s, waiting_s = 0.0, 0.0
    if asked.limits.is_cpu:
        # Who dispatches computes: the one waits for the other.
        host_s = waiting_s = processor_seconds(asked.works, asked.dispatch_s)
    else:
        before_s, update_s = host_seconds(asked.works, asked.dispatch_s)
        host_s = before_s + update_s
        if waits_for_gradients(asked.works):
            # What is dispatched after the wait finds the device idle.
            waiting_s = min(update_s, max(device_s - before_s, 0.0))
    alone_s = max(device_s + waiting_s, host_s)
    exchange_s = exchange_seconds(
        asked.device, asked.count, asked.gradient_bytes, alone_s, bus=asked.bus_bytes_per_s
    )
    busy = alone_s + exchange_s
    tier: Tier = "calibrated" if times.rests_on_own else "datasheet"
    spread = math.hypot(_spread(times, device_s, host_s), _SEVERAL_SPREAD * (asked.count > 1))
    step_s = _ranged(busy, spread)
    held_s = 0.0
    if not (asked.limits.is_cpu or asked.dispatch_s):
        # A GPU may be in any host: the range reaches to one that is known.
        held_s = exchange_s + sum(host_seconds(asked.works, asked.other_host_s))
        step_s = replace(step_s, high=max(step_s.high, held_s))
    bound = "host" if host_s > device_s else "device"
    limits = _limits(asked, times)
    flop = sum(work.flops for work in asked.works)
    peak, peak_name = _peak(asked)
    power_w = _power(asked, times, busy, tier)
    energy = None
    if power_w is not None:
        power_w = power_w.times(asked.count)
        value = power_w.value * busy
        width = math.hypot(math.log(power_w.high / power_w.value) / WITHIN, spread)
        energy = _ranged(value, width)
    return StepPrediction(
        step_s=step_s,
        device_s=device_s,
        host_s=host_s,
        exchange_s=exchange_s,
        bound="host" if bound == "host" else "device",
        limit="launch" if bound == "host" else _most(limits, times.seconds),
        tier=tier,
        nearest=asked.predictor.nearest,
        why=_why(tier, times, asked) + _of_host(held_s, step_s),
        layers=_layers(asked.works, times.seconds, limits),
        flop=flop,
        utilisation=flop / busy / peak if flop and peak else None,
        utilisation_of=peak_name if flop else None,
        power_w=power_w,
        energy_j=energy,
    )


def _in_step(asked: Asked, times: OperationTimes) -> OperationTimes:
    """What a device's own points say of operations by themselves, as they run among others."""
    import numpy as np

    processor = asked.limits.is_cpu
    factor = _PROCESSOR if processor else asked.pace.factor
    among = factor * times.seconds + (0.0 if processor else asked.pace.gap_s)
    return replace(times, seconds=np.where(times.calibrated, among, times.seconds))


def _power(asked: Asked, times: OperationTimes, busy_s: float, tier: Tier) -> Ranged | None:
    """By what kernels draw where a calibration read it, else by the load."""
    idle_w, own = asked.idle_w, asked.predictor.own
    rates = own.energy_rates if own is not None else None
    if rates is not None and idle_w is not None:
        alone_s = asked.predictor.times(asked.works).seconds  # in gaps nothing runs
        above_j = rates.above_idle_j(asked.works, alone_s)
        return measured_power(asked.device, idle_w, above_j, busy_s)
    return power_of(asked.device, idle_w, _load(times, busy_s), tier)


def _spread(times: OperationTimes, device_s: float, host_s: float) -> float:
    """Of the step: what operations share stays, what each has of its own averages out."""
    import numpy as np

    if not device_s:
        return _HOST_SPREAD
    shares = times.seconds / device_s
    # Errors of a class go together: half of each operation's own spread is taken as shared.
    own = float(np.sqrt(((shares * times.spread) ** 2).sum()))
    together = 0.5 * float((shares * times.spread).sum())
    device = math.sqrt(own**2 + together**2 + times.shared_spread**2)
    near = min(host_s / device_s, device_s / host_s) if host_s else 0.0
    weight = 1.0 if host_s > device_s else max(0.0, 2 * near - 1)
    return max(device, weight * _HOST_SPREAD)


def _ranged(value: float, spread: float) -> Ranged:
    factor = math.exp(WITHIN * spread)
    return Ranged(value=value, low=value / factor, high=value * factor)


def _limits(asked: Asked, times: OperationTimes) -> list[Limit]:
    """What holds each operation: its launch, the memory, or the arithmetic units."""
    found: list[Limit] = []
    for work, seconds in zip(asked.works, times.seconds, strict=True):
        peak = asked.limits.peaks.get(work.dtype, asked.limits.peaks["float32"])
        if seconds < _LAUNCH_S and not asked.limits.is_cpu:
            found.append("launch")
        elif work.flops / peak > work.bytes / asked.limits.bandwidth:
            found.append("compute")
        else:
            found.append("memory")
    return found


def _most(limits: Sequence[Limit], seconds: Any) -> Limit:
    sums: dict[Limit, float] = {}
    for limit, one in zip(limits, seconds, strict=True):
        sums[limit] = sums.get(limit, 0.0) + float(one)
    return max(sums, key=lambda name: sums[name], default="launch")


def _layers(
    works: Sequence[Work], seconds: Any, limits: Sequence[Limit]
) -> tuple[LayerPrediction, ...]:
    phases: dict[str, dict[str, float]] = {}
    held: dict[str, dict[Limit, float]] = {}
    for work, one, limit in zip(works, seconds, limits, strict=True):
        name = work.layer or ""
        of_phase = phases.setdefault(name, {})
        of_phase[work.phase] = of_phase.get(work.phase, 0.0) + float(one)
        of_limit = held.setdefault(name, {})
        of_limit[limit] = of_limit.get(limit, 0.0) + float(one)
    found = [
        LayerPrediction(
            name=name,
            forward_s=of.get("forward", 0.0),
            backward_s=of.get("backward", 0.0),
            update_s=of.get("update", 0.0),
            limit=max(held[name], key=lambda limit: held[name][limit]),
        )
        for name, of in phases.items()
    ]
    return tuple(sorted(found, key=lambda layer: -layer.total_s))


def _load(times: OperationTimes, busy_s: float) -> float:
    """How hard the board works, of 1: roofline seconds of compute and memory over the step's."""
    if not busy_s:
        return 0.0
    return min(1.0, float(times.roofline_s.sum()) / busy_s)


def _peak(asked: Asked) -> tuple[float | None, str | None]:
    """The peak of the type that most FLOPs are in."""
    sums: dict[str, float] = {}
    for work in asked.works:
        sums[work.dtype] = sums.get(work.dtype, 0.0) + work.flops
    most = max(sums, key=lambda name: sums[name], default="float32")
    peak = asked.limits.peaks.get(most)
    return (peak, most) if peak is not None else (asked.limits.peaks["float32"], "float32")


def _of_host(held_s: float, step_s: Ranged) -> str:
    """What is to be said where an unknown host may hold the step longer than the device does."""
    if held_s <= step_s.value:
        return ""
    held = render_seconds(held_s)
    return f"; its host is not known: one that was calibrated would hold it {held}"


def _why(tier: Tier, times: OperationTimes, asked: Asked) -> str:
    if not asked.predictor.nearest:
        return "no such device is calibrated: its roofline times what is usual"
    text = _WHY[tier].format(nearest=", ".join(asked.predictor.nearest))
    if times.calibrated.any() and not times.calibrated.all():
        # Never rounded up to all of it.
        share = math.floor(1000 * times.own_share) / 10
        text = (
            f"{share:g}% of the time rests on points of such a device, the rest is carried over: "
            "its calibration lacks those classes or types"
        )
    return text
