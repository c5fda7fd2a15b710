"""What to do next and what it should gain, from partition and machine; the words are the report's.

A gain is a share of a measured time: `_SHARES` says which of it a remedy leaves away.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from trainload.analyse.attribution.amounts import Amounts, window_amounts
from trainload.analyse.attribution.host_times import host_groups, others_of
from trainload.analyse.attribution.machine import Machine, Recompiling
from trainload.analyse.attribution.types import Advice, LayerNode, RankLayers, Topic

LEAST_GAIN_FRACTION = 0.03
"""Of the step, in each window: what gains less is not worth a word."""
FULL_LOAD_FRACTION = 0.9
OTHER_LOAD_FRACTION = 0.1
SWAPPED_FRACTION = 0.03
DOUBLE_BYTES = 6.0
"""Mean bytes of a parameter above which most are float64."""
FUSED = frozenset({"Adam", "AdamW", "SGD", "Adagrad"})
"""torch's optimizers that have `fused=True`."""
MACHINE: tuple[Topic, ...] = ("swapping", "cpu_quota", "throttling", "contention")
FEWEST_LAYERS = 3
MOST_NAMED = 3
"""Of those who take the time outside of torch."""


@dataclass(frozen=True)
class _Share:
    """Of a time, what a remedy should take away: at the least, expected, at the most."""

    low: float
    expected: float
    high: float


_SHARES: Mapping[str, _Share] = {
    "input_wait": _Share(0.5, 0.9, 1.0),
    "input_wait, full host": _Share(0.2, 0.6, 1.0),
    "input_workers": _Share(0.2, 0.8, 1.0),
    "host_bound, cpu": _Share(0.3, 0.7, 0.95),
    "host_bound, device": _Share(0.3, 0.7, 0.95),
    "host_bound, compiled": _Share(0.2, 0.5, 0.9),
    "synchronising": _Share(0.3, 0.8, 1.0),
    "copies": _Share(0.4, 0.8, 1.0),
    "communication": _Share(0.1, 0.3, 0.6),
    "straggler": _Share(0.5, 0.9, 1.0),
    "update_unfused, single": _Share(0.4, 0.7, 0.9),
    "update_unfused, foreach": _Share(0.1, 0.3, 0.5),
    "python": _Share(0.5, 0.9, 1.0),
    "script_operations": _Share(0.3, 0.7, 0.95),
    "gradientless": _Share(0.5, 0.9, 1.0),
    "precision, double": _Share(0.3, 0.5, 0.7),
    "precision, device": _Share(0.4, 0.6, 0.85),
    "page_faults": _Share(0.3, 0.7, 1.2),
    "recompilation": _Share(0.5, 0.9, 1.0),
    "few_threads": _Share(0.3, 0.7, 1.0),
    "contention": _Share(0.2, 0.6, 1.0),
    "cpu_quota": _Share(0.5, 0.9, 1.0),
    "throttling": _Share(0.05, 0.15, 0.3),
    "swapping": _Share(0.05, 0.3, 0.9),
}


def advise(ranks: Sequence[RankLayers], machine: Machine | None = None) -> tuple[Advice, ...]:
    """What to change, the machine's own matters first, then the largest gain; empty without any.

    With several ranks an advice is taken from the rank it fits best, and `subject` names that rank.
    """
    timed = [rank for rank in ranks if rank.step_s > 0]
    if not timed:
        return ()
    machine = machine if machine is not None else Machine()
    best: dict[Topic, tuple[Advice, int]] = {}
    for rank in timed:
        for advice in _of_rank(rank, machine):
            if advice.topic not in best or _gain(advice) > _gain(best[advice.topic][0]):
                best[advice.topic] = advice, rank.rank
    found = [
        replace(advice, subject=f"rank {number}") if len(timed) > 1 else advice
        for advice, number in best.values()
    ]
    found += _straggler(timed)
    found += _recompilation(machine.recompiling)
    found.sort(key=lambda advice: (advice.topic not in MACHINE, -_gain(advice)))
    return (*found, *_memory(timed[0], machine))


def _gain(advice: Advice) -> float:
    return advice.gain_s or 0.0


def _of_rank(rank: RankLayers, machine: Machine) -> Iterator[Advice]:
    windows = window_amounts(rank)
    for topic, share, amount, evidence, subject in _claims(rank, machine):
        advice = _judge(topic, _SHARES[share], amount, windows, evidence, subject)
        if advice is not None:
            yield advice


_Claim = tuple[Topic, str, str, str | None, str | None]
"""Topic, which of `_SHARES`, which amount, evidence, subject."""


def _claims(rank: RankLayers, machine: Machine) -> Iterator[_Claim]:
    """What might be advised; each is held against its amount afterwards."""
    traits, on_cpu = rank.traits, rank.device.startswith("cpu")
    full = _is_full(machine)
    words: str | None
    if traits.loader == "workers":
        full_words = ", and all cores are busy" if full else ""
        words = f"the loader reads in workers already{full_words}"
        yield "input_workers", "input_workers", "input", words, None
    else:
        words = "the loader reads in the training's own process" if traits.loader else None
        share = "input_wait, full host" if full else "input_wait"
        yield "input_wait", share, "input", words, None
    place = "compiled" if traits.compiled else "cpu" if on_cpu else "device"
    words = "the model is compiled already" if traits.compiled else None
    yield "host_bound", f"host_bound, {place}", "host", words, None
    yield "synchronising", "synchronising", "synchronise", None, None
    yield "copies", "copies", "copy", None, None
    yield "communication", "communication", "communication", None, None
    yield "python", "python", "python", _python_words(rank), None
    yield "script_operations", "script_operations", "script", None, None
    yield "gradientless", "gradientless", "gradientless", None, None
    yield from _update_claim(rank, on_cpu)
    if traits.parameter_bytes is not None and traits.parameter_bytes > DOUBLE_BYTES:
        words = f"{traits.parameter_bytes:.3g} bytes a parameter"
        yield "precision", "precision, double", "compute", words, None
    elif not on_cpu:
        yield "precision", "precision, device", "full_precision", None, None
    if on_cpu and machine.kernel_fraction:
        words = f"{machine.page_faults_per_s:,.0f} page faults a second"
        yield "page_faults", "page_faults", f"step:{machine.kernel_fraction}", words, None
    few = machine.few_threads
    if on_cpu and few is not None:
        words = f"{few.threads} thread{'' if few.threads == 1 else 's'} on {few.cores} free cores"
        share = f"divisible:{1 - few.threads / few.cores}"
        yield "few_threads", "few_threads", share, words, None
    yield from _machine_claims(machine)


def _python_words(rank: RankLayers) -> str | None:
    """Who takes the most of the time outside of torch, where its stacks were sampled."""
    outside = others_of(rank.host)
    whole_s = sum(one.time_s for one in outside)
    words = []
    for what, package, members in host_groups(outside)[:MOST_NAMED]:
        share = sum(one.time_s for one in members) / whole_s
        who = (
            members[0].place
            if what == "script"
            else what
            if what == package
            else (f"{what} ({package})")
        )
        words.append(f"{who} {share:.0%}")
    return f"of that {', '.join(words)}" if words else None


def _update_claim(rank: RankLayers, on_cpu: bool) -> Iterator[_Claim]:
    form, optimizer = rank.traits.update, rank.traits.optimizer
    if form == "single":
        words = "its operations work on one tensor at a time"
        yield "update_unfused", "update_unfused, single", "update", words, optimizer
    elif form == "foreach" and not on_cpu and (optimizer is None or optimizer in FUSED):
        words = "foreach already, not fused"
        yield "update_unfused", "update_unfused, foreach", "update", words, optimizer


def _machine_claims(machine: Machine) -> Iterator[_Claim]:
    host, run = machine.host_load_fraction, machine.run_load_fraction
    if host is not None and run is not None and _is_full(machine):
        others = f"host_time:{max(host - run, 0.0) / host}"
        words = f"all cores {host:.0%} busy, this run {run:.0%}"
        if host - run >= OTHER_LOAD_FRACTION:
            yield "contention", "contention", others, words, None
    if machine.quota_fraction:
        yield "cpu_quota", "cpu_quota", f"host_time:{machine.quota_fraction}", None, None
    if machine.throttled_fraction:
        share = machine.throttled_fraction
        words = f"in {share:.0%} of samples"
        yield "throttling", "throttling", f"compute:{share}", words, machine.throttled
    if (machine.swap_fraction or 0.0) >= SWAPPED_FRACTION:
        words = f"{(machine.swapped_bytes or 0.0) / 2**30:.2g} GiB were swapped out"
        yield "swapping", "swapping", "step", words, None


def _is_full(machine: Machine) -> bool:
    return (machine.host_load_fraction or 0.0) >= FULL_LOAD_FRACTION


def _judge(
    topic: Topic,
    share: _Share,
    amount: str,
    windows: Sequence[Amounts],
    evidence: str | None,
    subject: str | None,
) -> Advice | None:
    """The advice where every window agrees that it is worth it."""
    name, _, scale = amount.partition(":")
    factor = float(scale) if scale else 1.0
    times = [window.get(name) * factor for window in windows]
    least = [LEAST_GAIN_FRACTION * window.step_s for window in windows]
    if not all(share.expected * t >= enough for t, enough in zip(times, least, strict=True)):
        return None
    steps = sum(window.steps for window in windows)
    time_s = sum(t * window.steps for t, window in zip(times, windows, strict=True)) / steps
    step_s = sum(window.step_s * window.steps for window in windows) / steps
    return Advice(
        topic=topic,
        fraction=time_s / step_s,
        gain_s=share.expected * time_s,
        gain_low_s=share.low * time_s,
        gain_high_s=share.high * time_s,
        subject=subject,
        evidence=evidence,
    )


def _straggler(ranks: Sequence[RankLayers]) -> Iterator[Advice]:
    """The rank whose own time, communication left out, is longest beside the others'."""
    if len(ranks) < 2:
        return
    own = {rank.rank: rank.step_s - rank.parts.get("communication", 0.0) for rank in ranks}
    slowest = max(own, key=lambda rank: own[rank])
    others = median(time for rank, time in own.items() if rank != slowest)
    step_s = max(rank.step_s for rank in ranks)
    time_s, share = own[slowest] - others, _SHARES["straggler"]
    if share.expected * time_s >= LEAST_GAIN_FRACTION * step_s:
        yield Advice(
            topic="straggler",
            fraction=time_s / step_s,
            gain_s=share.expected * time_s,
            gain_low_s=share.low * time_s,
            gain_high_s=share.high * time_s,
            subject=f"rank {slowest}",
        )


def _recompilation(again: Recompiling | None) -> Iterator[Advice]:
    """Of the mean step: what is compiled now and then is in no usual one."""
    if again is None or not again.steps or again.training_s <= 0:
        return
    fraction, share = again.time_s / again.training_s, _SHARES["recompilation"]
    if share.expected * fraction < LEAST_GAIN_FRACTION:
        return
    time_s = again.time_s / again.steps
    times = "once" if again.count == 1 else f"{again.count} times"
    yield Advice(
        topic="recompilation",
        fraction=fraction,
        gain_s=share.expected * time_s,
        gain_low_s=share.low * time_s,
        gain_high_s=share.high * time_s,
        evidence=f"{times}, last {again.words}" if again.words else times,
        mean_step_s=again.training_s / again.steps,
    )


def _memory(rank: RankLayers, machine: Machine) -> Iterator[Advice]:
    """Only where memory is short: the layer that holds the most."""
    if machine.memory_fraction is None:
        return
    sizes = {_label(node): _bytes(node) for node in rank.nodes}
    known = sum(size > 0 for size in sizes.values()) >= FEWEST_LAYERS
    yield Advice(
        topic="memory_short",
        fraction=machine.memory_fraction,
        subject=max(sizes, key=lambda name: sizes[name]) if known else None,
        evidence=machine.memory,
    )


def _label(node: LayerNode) -> str:
    return node.layer or node.root


def _bytes(node: LayerNode) -> int:
    memory = node.memory
    if memory is None:
        return 0
    known = memory.gradient_bytes, memory.optimizer_bytes, memory.activation_bytes
    return memory.parameter_bytes + sum(part for part in known if part is not None)
