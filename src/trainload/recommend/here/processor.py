"""Suggestions of what computes: threads, core set, precision, huge pages, allocator; pure."""

from __future__ import annotations

from collections.abc import Iterator

from trainload.kept_memory import KEEPING, KEEPING_WORDS
from trainload.recommend.here.facts import HereFacts, Level, Suggestion, Trial
from trainload.recommend.wording import number_words
from trainload.units import render_percent, render_seconds
from trainload_worker.protocol.training import HALVES

LIMITS_UNKNOWN = "not known: trainload detect --measure has not measured this machine"
UNCHANGED = "nothing is changed"
ITS_OWN = "it is the code's own; its arguments set it, or an edit"
HUGE_PAGES_VARIABLE = "THP_MEM_ALLOC_ENABLE"
LITTLE = 0.03
"""Share of the processor's time below which giving memory is not worth a setting."""


def suggest_threads(facts: HereFacts) -> Suggestion:
    """One for each core, less where cores share their units or a quota holds them back."""
    quota, cores, default = facts.quota_cores, facts.allowed_cores, facts.default_threads
    if quota is not None and default < cores:
        held = None if facts.past is None else facts.past.quota_fraction
        return Suggestion(
            topic="threads",
            advice=f"{default}: the CPU quota of {number_words(quota)} cores holds more back",
            option=f"--threads {default}",
            gain=held,
            basis="not known: no run with more threads tells what the quota takes"
            if held is None or facts.past is None
            else f"the quota held {facts.past.name} back for that share, at most saved",
            trial=_threads(default, cores, keeps=True),
        )
    physical = facts.physical_cores
    if physical is not None and physical < facts.logical_cores and physical < cores:
        return Suggestion(
            topic="threads",
            advice=f"{physical}, one a core: two threads of a core share its arithmetic units",
            option=f"--threads {physical}",
            gain=None,
            basis="not known: how much two threads hinder each other depends on the training",
            trial=_threads(cores, physical, keeps=False),
        )
    return Suggestion(
        topic="threads",
        advice=f"{default}, one for each core that may be used, as it is by default",
        option=None,
        gain=0.0,
        basis=_scaling(facts) or UNCHANGED,
        trial=_threads(default, max(1, default // 2), keeps=True) if default > 1 else None,
        not_tried=None if default > 1 else "one core can be used",
    )


def _threads(base: int, other: int, *, keeps: bool) -> Trial:
    return Trial(
        factor="threads",
        base=Level(label=str(base), sets={"threads": base}),
        other=Level(label=str(other), sets={"threads": other}),
        keeps=keeps,
    )


def _scaling(facts: HereFacts) -> str | None:
    """How far threads carry here, by what was measured; None where it was not."""
    reach = facts.reach
    if reach is None or not reach.one_thread_flop_per_s or not reach.float32_flop_per_s:
        return None
    times = reach.float32_flop_per_s / reach.one_thread_flop_per_s
    return (
        f"{UNCHANGED}; {reach.threads} threads multiply matrices {times:.2f} times as fast as one "
        f"(detect --measure, {reach.day})"
    )


def suggest_cores(facts: HereFacts) -> Suggestion:
    """All of them, or the big ones where cores are unlike (study E's configurations)."""
    if "big" in facts.clusters:
        return Suggestion(
            topic="core set",
            advice=f"the {facts.clusters['big']} big cores: a step waits for its slowest thread",
            option="--setting big",
            gain=None,
            basis="not known: it depends on how unlike the cores are",
            trial=_core_set(facts, "big", facts.clusters["big"], keeps=False),
        )
    word = "half" if facts.allowed_cores > 3 else "one"
    several = facts.allowed_cores > 1
    count = max(1, facts.allowed_cores // 2) if word == "half" else 1
    return Suggestion(
        topic="core set",
        advice="all cores, which are alike: a part of them only leaves room for others",
        option=None,
        gain=0.0,
        basis=UNCHANGED,
        trial=_core_set(facts, word, count, keeps=True) if several else None,
        not_tried=None if several else "one core can be used",
    )


def _core_set(facts: HereFacts, word: str, count: int, *, keeps: bool) -> Trial:
    gpu = "" if facts.accelerator is None else f"+{facts.accelerator}"
    threads = min(count, facts.default_threads)
    return Trial(
        factor="setting",
        base=Level(label="all", sets={"setting": f"all{gpu}"}),
        # Fewer cores with the threads of all would measure their quarrel.
        other=Level(label=word, sets={"setting": f"{word}{gpu}", "threads": threads}),
        keeps=keeps,
    )


def suggest_precision(facts: HereFacts) -> Iterator[Suggestion]:
    """By predictions where there are some, else by units and rates of the processor."""
    own = ITS_OWN if facts.batch_size is None else None
    if facts.ways:
        yield _predicted_precision(facts, own)
        return
    if not facts.bf16_units:
        none = "this processor has no units" if facts.bf16_units is False else "no units known"
        yield Suggestion(
            topic="precision",
            advice=f"float32: {none} for half precision, which would be emulated",
            option=None,
            gain=0.0,
            basis=UNCHANGED,
            not_tried=own or "an emulated bf16 is slow and may not end in time",
        )
        return
    gain, basis = _half_gain(facts)
    slower = gain is not None and gain < 0
    yield Suggestion(
        topic="precision",
        advice="float32: bf16 multiplies no faster here"
        if slower
        else "bf16: this processor has units for it",
        option=None if slower else "--precision bf16",
        gain=0.0 if slower else gain,
        basis=basis,
        trial=None if own else _precision("bf16", keeps=slower),
        not_tried=own,
    )


def _half_gain(facts: HereFacts) -> tuple[float | None, str]:
    reach = facts.reach
    if reach is None:
        return None, LIMITS_UNKNOWN
    if not reach.float32_flop_per_s or not reach.bf16_flop_per_s:
        return None, "not known: detect --measure has no rate of bf16 of this machine"
    times = reach.bf16_flop_per_s / reach.float32_flop_per_s
    said = f"matrices alone: bf16 at {times:.2f} times the rate (detect --measure, {reach.day})"
    return 1 - 1 / times, said


def _precision(name: str, *, keeps: bool) -> Trial:
    return Trial(
        factor="precision",
        base=Level(label="float32", sets={"precision": "float32"}),
        other=Level(label=name, sets={"precision": name}),
        keeps=keeps,
    )


def _predicted_precision(facts: HereFacts, own: str | None) -> Suggestion:
    batch = facts.ways[0].batch_size
    same = [one for one in facts.ways if one.batch_size == batch]
    best = min(same, key=lambda one: one.step_s.value)
    slowest = max(same, key=lambda one: one.step_s.value)
    half = best.precision in HALVES
    switch = "no run sets TF32's switch" if best.precision == "tf32" else None
    beside = None if half else next((one.precision for one in same if one.precision in HALVES), "")
    tried = _precision(best.precision, keeps=False) if half else None
    if beside and switch is None:
        tried = _precision(beside, keeps=True)
    reason = own or switch or (None if tried else f"{best.precision} is the only one predicted")
    return Suggestion(
        topic="precision",
        advice=f"{best.precision} on the {best.device.title}"
        + (f", against {slowest.precision}" if slowest is not best else ""),
        option=f"--precision {best.precision}" if half else None,
        gain=1 - best.step_s.value / slowest.step_s.value,
        basis=f"predicted, {best.tier} tier",
        trial=None if reason else tried,
        not_tried=reason,
    )


def suggest_huge_pages(facts: HereFacts) -> Suggestion:
    """What the system does with them, and how torch asks for them."""
    mode, trial, refused = facts.huge_pages, None, None
    if mode == "madvise":
        advice = f"they are madvise; torch asks for them with {HUGE_PAGES_VARIABLE}=1"
        key = f"environment.{HUGE_PAGES_VARIABLE}"
        trial = Trial(
            factor="huge_pages",
            base=Level(label="small", sets={key: "0"}),
            other=Level(label="huge", sets={key: "1"}),
            keeps=False,
        )
    elif mode == "always":
        advice, refused = "they are always on", "only the system's administrator turns them off"
    elif mode == "never":
        advice = "they are off; echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"
        refused = "only the system's administrator turns them on"
    else:
        advice, refused = "the system does not tell", "the system does not tell whether it has them"
    gain, basis = (0.0, UNCHANGED) if mode == "always" else (None, _paging(facts))
    return Suggestion(
        topic="huge pages",
        advice=advice,
        option=None,
        gain=gain,
        basis=basis,
        trial=trial,
        not_tried=refused,
    )


def _paging(facts: HereFacts) -> str:
    """Why no share is stated: what is known is of single loads."""
    reach = facts.reach
    if reach is None:
        return LIMITS_UNKNOWN
    if not reach.small_page_load_s or not reach.huge_page_load_s:
        return "not known: detect --measure could not time loads on this machine"
    small, huge = render_seconds(reach.small_page_load_s), render_seconds(reach.huge_page_load_s)
    return (
        f"not known for a training; a load from far memory takes {huge} in place of "
        f"{small} (detect --measure, {reach.day})"
    )


def suggest_allocator(facts: HereFacts) -> Suggestion:
    """Whether steps take memory anew that they gave back before."""
    if facts.accelerator is not None:
        return _left_alone("as it is: the GPU's framework keeps its own memory", UNCHANGED)
    if facts.c_library != "glibc":
        return _left_alone("as it is: this system's C library is not glibc", UNCHANGED)
    past = facts.past
    if past is not None and past.paging_read and (past.paging_fraction or 0.0) < LITTLE:
        calm = "as it is: the system spends little on giving this training memory"
        return _left_alone(calm, past.name, trial=_keeping(keeps=True))
    gain, basis = None, "not known: no run of it here tells its page faults; trainload run it"
    if past is not None and past.paging_fraction is not None:
        gain = past.paging_fraction
        share = render_percent(gain)
        basis = f"the system took {share} of {past.name}'s processor time for it, at most saved"
    return Suggestion(
        topic="allocator",
        advice=f"have it keep what steps free: {KEEPING_WORDS}",
        option=None,
        gain=gain,
        basis=basis,
        trial=_keeping(keeps=False),
    )


def _left_alone(advice: str, basis: str, trial: Trial | None = None) -> Suggestion:
    return Suggestion(
        topic="allocator",
        advice=advice,
        option=None,
        gain=0.0,
        basis=basis,
        trial=trial,
        not_tried="nothing is to be changed" if trial is None else None,
    )


def _keeping(*, keeps: bool) -> Trial:
    return Trial(
        factor="allocator",
        base=Level(label="as it is"),
        other=Level(
            label="keeping",
            sets={f"environment.{name}": value for name, value in KEEPING.items()},
        ),
        keeps=keeps,
    )
