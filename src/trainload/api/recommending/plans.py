"""Plans of every candidate: batch and precision that fit, then time, energy, money of each.

Asks `steps` for memory and works, `predict` for the rest; ranks nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from trainload.api.predicting.predictors import begin_predictors
from trainload.api.recommending.costs import cost_of
from trainload.api.recommending.steps import OWN, Key, Steps
from trainload.errors import TrainloadError, UsageError
from trainload.estimate.memory.device import find_device_memory
from trainload.estimate.memory.fit import (
    LEAST_CHANCE,
    MemoryRoom,
    Span,
    Spread,
    chance_of_running_out,
)
from trainload.estimate.memory.ram import SPREAD
from trainload.predict.limits import limits_of, usable_dtype
from trainload.predict.money import emit
from trainload.predict.step import predict_step
from trainload.recommend.judging import MOST_CHANCE
from trainload.recommend.types import Plan, Unfit
from trainload.units import render_bytes

if TYPE_CHECKING:
    from trainload.api.predicting.costs import Terms
    from trainload.api.recommending.candidates import Candidate
    from trainload.estimate.memory.device import Target
    from trainload.hardware.catalogue import Device
    from trainload.predict.limits import Limits
    from trainload.predict.types import StepPrediction

FREE_BATCHES = (256, 128, 64, 32, 16, 8, 4, 2, 1)
"""Of each device, largest first, where the batch is free."""
GUESS_SHARE = 0.8
"""Of a guessed need, which alone would have to fit for it to be worked out."""
_HALF = {"bf16": "bfloat16", "fp16": "float16"}


@dataclass(frozen=True, kw_only=True)
class Training:
    """How long the training is, and what of it is given."""

    examples: int | None
    """Of one epoch; None where steps were named."""
    epochs: int
    steps: int | None
    batch_size: int | None
    """Of a step over all devices; None where it is free or a script's own."""
    precision: str | None
    """None: what is best on each device."""

    def steps_of(self, batch: int | None) -> int:
        """Steps of the whole training with so many examples in each."""
        if self.steps is not None:
            return self.steps
        assert self.examples is not None and batch is not None, "checked by whoever asks"
        return math.ceil(self.examples / batch) * self.epochs


@dataclass(frozen=True, kw_only=True)
class _Fit:
    """A share of a step that fits a device."""

    key: Key
    size: int
    portions: int
    needed: Span | None
    capacity: int | None
    chance: float | None


class Planner:
    """Plans for one training."""

    def __init__(self, steps: Steps, training: Training, terms: Terms) -> None:
        self._steps = steps
        self._training = training
        self._terms = terms
        self._predictors = begin_predictors(beside=steps.in_workers)
        self._host: Target = "cpu"
        self.recomputes = False
        """Whether blocks may be recomputed where nothing else fits: that takes further traces."""

    def keys(self, candidates: Sequence[Candidate]) -> list[Key]:
        """Every trace that the candidates ask for.

        A processor among GPUs is judged by their trace: one of its own takes as long as theirs.
        """
        found: dict[Key, None] = {}
        targets = {find_device_memory(one.device).target for one in candidates}
        own = targets == {"cpu"} or any(one.owned for one in candidates)
        self._host = "cpu" if own else "cuda"
        for one in candidates:
            limits = limits_of(one.device)
            if limits is not None:
                for precision in self._precisions(limits):
                    found[self._key(one.device, precision)] = None
        return list(found)

    def plans(self, candidate: Candidate) -> Iterator[Plan | Unfit]:
        """Each number of devices with its ways, or why there is none."""
        device = candidate.device
        limits = limits_of(device)
        for count in candidate.counts:
            if limits is None:
                yield Unfit(
                    device=device,
                    count=count,
                    demand="figures",
                    reason=f"the entry of {device.name} states no bandwidth or no float32 peak",
                )
                continue
            yield from self._of_count(candidate, limits, count)

    def _of_count(self, candidate: Candidate, limits: Limits, count: int) -> Iterator[Plan | Unfit]:
        device, found = candidate.device, 0
        tried: list[_Fit] = []
        reasons: list[str] = []
        precisions = self._precisions(limits)
        if not precisions:
            reasons.append(f"its entry states no peak in {self._training.precision}")
        for precision in precisions:
            try:
                fit = self._fit(candidate, precision, count)
                if fit.chance is None or fit.chance <= MOST_CHANCE:
                    found += 1
                    yield self._plan(candidate, limits, precision, count, fit)
                else:
                    tried.append(fit)
            except TrainloadError as error:
                reasons.append(str(error))
        if found:
            return
        if tried:
            least = min(tried, key=lambda one: _need(one))
            how = "" if self._steps.fixed else " for a single example"
            how += " with blocks recomputed" if least.key[2] else ""
            yield Unfit(
                device=device,
                count=count,
                demand="memory",
                reason=f"does not fit: {render_bytes(_need(least))} are needed{how}, "
                f"{render_bytes(least.capacity)} are there",
                needed_bytes=_need(least),
                capacity_bytes=least.capacity,
            )
        else:
            yield Unfit(
                device=device,
                count=count,
                demand="figures",
                reason="; ".join(dict.fromkeys(reasons)),
            )

    def _precisions(self, limits: Limits) -> tuple[str, ...]:
        """Those worth trying: the half precision with units of its own, and the full one."""
        if self._steps.fixed:
            return (OWN,)
        asked = self._training.precision
        full = "tf32" if "tf32" in limits.peaks else "float32"
        if asked is not None:
            if asked in ("float32", "tf32"):
                return (asked,) if asked == "float32" or "tf32" in limits.peaks else ()
            return (asked,) if _HALF[asked] in limits.peaks else ()
        half = next((name for name, dtype in _HALF.items() if dtype in limits.peaks), None)
        return (full,) if half is None else (half, full)

    def _key(self, device: Device, precision: str) -> Key:
        target = find_device_memory(device).target
        return (
            self._host if target == "cpu" else target,
            "bf16" if precision in _HALF else "float32",
            False,
        )

    def _fit(self, candidate: Candidate, precision: str, count: int) -> _Fit:
        """The largest share of a step that surely fits; recomputed only where nothing else does."""
        key = self._key(candidate.device, precision)
        best = self._fit_as(candidate, key, count)
        if best.chance is None or best.chance <= LEAST_CHANCE or not self.recomputes:
            return best
        if self._steps.fixed or find_device_memory(candidate.device).target == "cpu":
            return best
        again = self._fit_as(candidate, (key[0], key[1], True), count)
        return again if (again.chance or 0.0) < best.chance else best

    def _fit_as(self, candidate: Candidate, key: Key, count: int) -> _Fit:
        memory = find_device_memory(candidate.device)
        if memory.target == "cpu":
            return self._fit_host(candidate, key, count)
        room = memory.room
        best: _Fit | None = None
        for size, portions in self._shares(count):
            fit = self._judge(room, key, size, portions)
            best = fit if best is None or (fit.chance or 0) < (best.chance or 0) else best
            if fit.chance is None or fit.chance <= LEAST_CHANCE:
                return fit
        assert best is not None, "a single example is always tried"
        return best

    def _shares(self, count: int) -> Iterator[tuple[int, int]]:
        """Examples at once on each device and portions of a step, largest share first."""
        whole = self._training.batch_size
        if self._steps.fixed:
            yield 1, 1
            return
        if whole is None:
            yield from ((size, 1) for size in FREE_BATCHES)
            return
        if whole < count:
            raise UsageError(f"a batch of {whole} cannot be shared by {count} devices")
        each = math.ceil(whole / count)
        portions = 1
        while True:
            size = math.ceil(each / portions)
            yield size, portions
            if size == 1:
                return
            portions *= 2

    def _judge(self, room: MemoryRoom, key: Key, size: int, portions: int) -> _Fit:
        """Whether a share fits; one that cannot is judged by a guess of its need alone."""
        least = self._steps.guess_bytes(key, size, portions=portions > 1)
        chance = chance_of_running_out(round(GUESS_SHARE * least), room)
        if chance is None or chance <= LEAST_CHANCE or size == 1:
            least = self._steps.least_bytes(key, size, portions=portions > 1)
        needed = room.spread.around(least, room.spread.needed) + room.overhead
        return _Fit(
            key=key,
            size=size,
            portions=portions,
            needed=needed,
            capacity=None if room.capacity is None else room.capacity.value_bytes,
            chance=chance_of_running_out(least, room),
        )

    def _fit_host(self, candidate: Candidate, key: Key, count: int) -> _Fit:
        """On a processor: memory is the host's, known only where it is this machine's."""
        del count
        batch = self._training.batch_size or FREE_BATCHES[2]
        growth = self._steps.ram(key, batch)
        chance = None
        if candidate.host_bytes is not None:
            whole = Span(
                value_bytes=candidate.host_bytes,
                low_bytes=candidate.host_bytes,
                high_bytes=candidate.host_bytes,
            )
            nothing = Span(value_bytes=0, low_bytes=0, high_bytes=0)
            room = MemoryRoom(
                capacity=whole,
                capacity_source="this machine",
                overhead=nothing,
                overhead_source="counted with the step",
                spread=Spread(allocated=SPREAD, reserved=SPREAD, needed=SPREAD, source="ram"),
            )
            chance = chance_of_running_out(growth.value_bytes, room)
        return _Fit(
            key=key,
            size=batch,
            portions=1,
            needed=growth,
            capacity=candidate.host_bytes,
            chance=chance,
        )

    def _plan(
        self, candidate: Candidate, limits: Limits, precision: str, count: int, fit: _Fit
    ) -> Plan:
        device, training = candidate.device, self._training
        works = self._steps.works(fit.key, precision, fit.size)
        lacking = {work.dtype for work in works if usable_dtype(work.dtype, limits) is None}
        if lacking:
            raise UsageError(f"its entry states no peak in {', '.join(sorted(lacking))}")
        asked = replace(
            self._predictors().ask(works, device, limits),
            count=count,
            gradient_bytes=4.0 * self._steps.parameters,
        )
        step = predict_step(asked)
        factor = _portions_factor(step, fit.portions)
        batch = training.batch_size or fit.size * count
        steps = training.steps_of(None if self._steps.fixed else batch)
        step_s = step.step_s.times(factor)
        hours = step_s.times(steps / 3600)
        energy = None if step.energy_j is None else step.energy_j.times(factor * steps / 3.6e6)
        joules = None if energy is None else energy.times(3.6e6)
        return Plan(
            device=device,
            count=count,
            precision=precision,
            batch_size=None if self._steps.fixed else batch,
            portions=fit.portions,
            checkpointed=fit.key[2],
            steps=steps,
            needed_bytes=fit.needed,
            capacity_bytes=fit.capacity,
            running_out=fit.chance,
            step_s=step_s,
            hours=hours,
            power_w=step.power_w,
            energy_kwh=energy,
            cost=cost_of(device.name, count, hours, energy, self._terms, owned=candidate.owned),
            emission=emit(joules, self._terms.place, pue=self._terms.pue),
            limit=step.limit,
            tier=step.tier,
            nearest=step.nearest,
            owned=candidate.owned,
        )


def _need(fit: _Fit) -> int:
    assert fit.needed is not None, "what runs out has a need"
    return fit.needed.value_bytes


def _portions_factor(step: StepPrediction, portions: int) -> float:
    """A step of several portions against one: both passes again, one update, one exchange."""
    if portions == 1:
        return 1.0
    whole = step.step_s.value
    update_s = sum(layer.update_s for layer in step.layers) * (
        (whole - step.exchange_s) / step.device_s if step.device_s else 0.0
    )
    once = min(update_s + step.exchange_s, whole)
    return (portions * (whole - once) + once) / whole
