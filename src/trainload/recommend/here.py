"""How to set a training on the machine one has: suggestions, each with its gain where it is known.

Pure; a gain that nobody measured or predicted is missing, and the suggestion says how to measure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from trainload.recommend.wording import number_words
from trainload.units import render_bytes, render_percent
from trainload_worker.protocol.training import HALVES

if TYPE_CHECKING:
    from trainload.recommend.types import Plan

Topic = Literal[
    "threads", "core set", "loader workers", "precision", "batch", "huge pages", "swap", "disk"
]


@dataclass(frozen=True, kw_only=True)
class PastRun:
    """What a run of the same training measured; None where it did not."""

    name: str
    wait_fraction: float | None = None
    """Share of the training that its steps waited for their rows."""
    quota_fraction: float | None = None
    """Share for which the CPU quota held it back."""
    swapped_bytes: float | None = None


@dataclass(frozen=True, kw_only=True)
class HereFacts:
    """What is known of this machine and of the step on it."""

    allowed_cores: int
    physical_cores: int | None
    logical_cores: int
    quota_cores: float | None
    clusters: Mapping[str, int]
    """Cores of each cluster, where cores are unlike."""
    memory_bytes: int | None
    swap_bytes: int | None
    huge_pages: str | None
    bf16_units: bool | None
    disk_free_bytes: int | None
    disk_rotates: bool | None
    needed_bytes: int | None
    """Of the host's memory, by the step on the processor; None where it is not known."""
    batch_size: int | None
    ways: tuple[Plan, ...] = ()
    """Predicted on this machine's accelerator, with the batch asked for and larger ones."""
    past: PastRun | None = None


@dataclass(frozen=True, kw_only=True)
class Suggestion:
    """One thing to set, or to leave as it is."""

    topic: Topic
    advice: str
    option: str | None
    """The words that set it in `trainload run`; None where the system or the code does."""
    gain: float | None
    """Share of the time that it saves; None where it is not known."""
    basis: str
    """What the gain rests on, or how it can be measured."""


def suggest_here(facts: HereFacts) -> tuple[Suggestion, ...]:
    """Every suggestion, those with the largest known gain first."""
    found = [
        _threads(facts),
        _cores(facts),
        _loader(facts),
        *_precision(facts),
        *_batch(facts),
        _huge_pages(facts),
        _swap(facts),
        _disk(facts),
    ]
    return tuple(sorted(found, key=lambda one: -(one.gain or 0.0)))


def _threads(facts: HereFacts) -> Suggestion:
    quota, cores = facts.quota_cores, facts.allowed_cores
    if quota is not None and quota < cores:
        threads = max(1, -int(-quota // 1))
        held = None if facts.past is None else facts.past.quota_fraction
        return Suggestion(
            topic="threads",
            advice=f"{threads}: the CPU quota of {number_words(quota)} cores holds more back",
            option=f"--threads {threads}",
            gain=held,
            basis=_measure("--threads", (threads, cores))
            if held is None or facts.past is None
            else f"the quota held {facts.past.name} back for that share, at most saved",
        )
    physical = facts.physical_cores
    if physical is not None and physical < facts.logical_cores and physical < cores:
        return Suggestion(
            topic="threads",
            advice=f"{physical}, one a core: two threads of a core share its arithmetic units",
            option=f"--threads {physical}",
            gain=None,
            basis=_measure("--threads", (physical, cores)),
        )
    return Suggestion(
        topic="threads",
        advice=f"{cores}, one for each core that may be used, as it is by default",
        option=None,
        gain=0.0,
        basis="nothing is changed",
    )


def _cores(facts: HereFacts) -> Suggestion:
    if "big" in facts.clusters:
        return Suggestion(
            topic="core set",
            advice=f"the {facts.clusters['big']} big cores: a step waits for its slowest thread",
            option="--setting big",
            gain=None,
            basis=_measure("--setting", ("big", "all")),
        )
    return Suggestion(
        topic="core set",
        advice="all cores, which are alike: a part of them only leaves room for others",
        option=None,
        gain=0.0,
        basis="nothing is changed",
    )


def _loader(facts: HereFacts) -> Suggestion:
    past = facts.past
    if past is None or past.wait_fraction is None:
        return Suggestion(
            topic="loader workers",
            advice="not known: no run tells how long steps wait for their rows",
            option=None,
            gain=None,
            basis="trainload run it once, then trainload recommend RUN --here",
        )
    share = past.wait_fraction
    if share < 0.02:
        advice = f"as they are: steps waited for their rows {render_percent(share)} of the time"
        return Suggestion(
            topic="loader workers", advice=advice, option=None, gain=share, basis=past.name
        )
    return Suggestion(
        topic="loader workers",
        advice=f"more of them, or rows prepared before: steps waited {render_percent(share)}",
        option=None,
        gain=share,
        basis=f"what {past.name} waited, at most saved",
    )


def _precision(facts: HereFacts) -> Iterator[Suggestion]:
    if facts.ways:
        batch = facts.ways[0].batch_size
        same = [one for one in facts.ways if one.batch_size == batch]
        best = min(same, key=lambda one: one.step_s.value)
        slowest = max(same, key=lambda one: one.step_s.value)
        gain = 1 - best.step_s.value / slowest.step_s.value
        yield Suggestion(
            topic="precision",
            advice=f"{best.precision} on the {best.device.title}"
            + (f", against {slowest.precision}" if slowest is not best else ""),
            option=f"--precision {best.precision}" if best.precision in HALVES else None,
            gain=gain,
            basis=f"predicted, {best.tier} tier",
        )
    elif facts.bf16_units:
        yield Suggestion(
            topic="precision",
            advice="bf16: this processor has units for it",
            option="--precision bf16",
            gain=None,
            basis=_measure("--precision", ("float32", "bf16")),
        )
    else:
        yield Suggestion(
            topic="precision",
            advice="float32: "
            + ("this processor has no units" if facts.bf16_units is False else "no units known")
            + " for half precision, which would be emulated",
            option=None,
            gain=0.0,
            basis="nothing is changed",
        )


def _batch(facts: HereFacts) -> Iterator[Suggestion]:
    """The batch with the most examples a second, against the one asked for."""
    if not facts.ways or facts.batch_size is None:
        return
    asked = [one for one in facts.ways if one.batch_size == facts.batch_size]
    if not asked:
        return
    best = max(facts.ways, key=_speed)
    gain = 1 - max(map(_speed, asked)) / _speed(best)
    same = best.batch_size == facts.batch_size
    yield Suggestion(
        topic="batch",
        advice=f"{facts.batch_size} as asked for: no larger one is faster by example"
        if same
        else f"{best.batch_size} instead of {facts.batch_size}, where the training allows it",
        option=None if same else f"--batch-size {best.batch_size}",
        gain=max(gain, 0.0),
        basis=f"examples a second, predicted, {best.tier} tier",
    )


def _speed(plan: Plan) -> float:
    """Examples a second."""
    return (plan.batch_size or 1) / plan.step_s.value


def _huge_pages(facts: HereFacts) -> Suggestion:
    mode = facts.huge_pages
    if mode in ("always", "madvise"):
        advice = f"they are {mode}" + (
            "; torch asks for them with THP_MEM_ALLOC_ENABLE=1" if mode == "madvise" else ""
        )
    elif mode == "never":
        advice = "they are off; echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"
    else:
        advice = "the system does not tell"
    return Suggestion(
        topic="huge pages",
        advice=advice,
        option=None,
        gain=0.0 if mode == "always" else None,
        basis="nothing is changed" if mode == "always" else "run it with and without them",
    )


def _swap(facts: HereFacts) -> Suggestion:
    need, room = facts.needed_bytes, facts.memory_bytes
    swapped = None if facts.past is None else facts.past.swapped_bytes
    if swapped:
        advice = f"less memory: {render_bytes(swapped)} were swapped out in a run before"
        return Suggestion(
            topic="swap", advice=advice, option=None, gain=None, basis="trainload analyse RUN"
        )
    if need is None or room is None:
        return Suggestion(
            topic="swap",
            advice="not known: the step's need or the machine's memory is not",
            option=None,
            gain=None,
            basis="trainload estimate it with --target cpu",
        )
    if need > 0.9 * room:
        return Suggestion(
            topic="swap",
            advice=f"a smaller batch: the step needs {render_bytes(need)} of {render_bytes(room)}, "
            f"and swap ({render_bytes(facts.swap_bytes)}) is far slower",
            option=None,
            gain=None,
            basis="the estimate of its memory",
        )
    return Suggestion(
        topic="swap",
        advice=f"plays no part: {render_bytes(need)} needed of {render_bytes(room)}",
        option=None,
        gain=0.0,
        basis="the estimate of its memory",
    )


def _disk(facts: HereFacts) -> Suggestion:
    wait = None if facts.past is None else facts.past.wait_fraction
    kind = {True: "says that it turns", False: "does not turn", None: "kind not told"}
    state = f"{render_bytes(facts.disk_free_bytes)} free, {kind[facts.disk_rotates]}"
    if wait is None:
        return Suggestion(
            topic="disk",
            advice=f"not known whether it holds the training up ({state})",
            option=None,
            gain=None,
            basis="trainload run it once, then trainload recommend RUN --here",
        )
    busy = wait >= 0.02
    return Suggestion(
        topic="disk",
        advice=f"rows in memory or on a faster one ({state})"
        if busy
        else f"as it is: steps hardly waited for their rows ({state})",
        option=None,
        gain=wait,
        basis="what steps waited, at most saved, together with loader workers",
    )


def _measure(option: str, levels: Sequence[object]) -> str:
    return "measure it: " + " against ".join(f"trainload run … {option} {one}" for one in levels)
