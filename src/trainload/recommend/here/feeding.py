"""Suggestions of what feeds a training: batch, loader workers, memory, disk; pure."""

from __future__ import annotations

from collections.abc import Iterator

from trainload.recommend.here.facts import HereFacts, Level, Suggestion, Trial
from trainload.recommend.here.processor import ITS_OWN
from trainload.recommend.types import Plan
from trainload.units import render_bytes, render_percent

FULL = 0.9
"""Share of the memory from which on a step is said to be too large."""
NO_WAIT = 0.02
"""Share of waiting below which rows hold nothing up."""
_NO_RUN = "not known: no run of it here is at hand; trainload run it, or --try"


def suggest_batch(facts: HereFacts) -> Iterator[Suggestion]:
    """The batch with the most examples a second, against the one asked for."""
    if facts.batch_size is None:
        yield Suggestion(
            topic="batch",
            advice="the code's own",
            option=None,
            gain=None,
            basis="not known: a script's batch is set by the script",
            not_tried=ITS_OWN,
        )
        return
    asked = [one for one in facts.ways if one.batch_size == facts.batch_size]
    if not asked:
        yield from _larger(facts)
        return
    best = max(facts.ways, key=_speed)
    gain = 1 - max(map(_speed, asked)) / _speed(best)
    same = best.batch_size == facts.batch_size
    other = 2 * facts.batch_size if same else best.batch_size or 2 * facts.batch_size
    yield Suggestion(
        topic="batch",
        advice=f"{facts.batch_size} as asked for: no larger one is faster by example"
        if same
        else f"{best.batch_size} instead of {facts.batch_size}, where the training allows it",
        option=None if same else f"--batch-size {best.batch_size}",
        gain=max(gain, 0.0),
        basis=f"examples a second, predicted, {best.tier} tier",
        trial=_batch(facts.batch_size, other, keeps=same),
    )


def _larger(facts: HereFacts) -> Iterator[Suggestion]:
    """Twice the batch, where memory has room for it and nothing is predicted."""
    assert facts.batch_size is not None, "asked before"
    twice = 2 * facts.batch_size
    need, room = facts.needed_bytes, facts.memory_bytes
    if need is not None and room is not None and 2 * need > FULL * room:
        yield Suggestion(
            topic="batch",
            advice=f"{facts.batch_size} as asked for: {twice} may need more memory than there is",
            option=None,
            gain=0.0,
            basis="the estimate of its memory",
            not_tried=f"a batch of {twice} may not fit",
        )
        return
    yield Suggestion(
        topic="batch",
        advice=f"{twice} instead of {facts.batch_size}, where the training allows it",
        option=f"--batch-size {twice}",
        gain=None,
        basis="not known: this processor is not calibrated (trainload calibrate --device cpu)",
        trial=_batch(facts.batch_size, twice, keeps=False),
    )


def _batch(base: int, other: int, *, keeps: bool) -> Trial:
    return Trial(
        factor="batch_size",
        base=Level(label=str(base), sets={"batch_size": base}),
        other=Level(label=str(other), sets={"batch_size": other}),
        keeps=keeps,
    )


def _speed(plan: Plan) -> float:
    """Examples a second."""
    return (plan.batch_size or 1) / plan.step_s.value


def suggest_loader(facts: HereFacts) -> Suggestion:
    """By what a past run waited for its rows."""
    past, own = facts.past, facts.batch_size is None
    refused = ITS_OWN if own else None
    if past is None or past.wait_fraction is None:
        return Suggestion(
            topic="loader workers",
            advice="none, as by default: rows come from a cache in memory"
            if not own
            else "not known: no run tells how long steps wait for their rows",
            option=None,
            gain=None,
            basis=_NO_RUN,
            trial=None if own else _loader(facts, keeps=True),
            not_tried=refused,
        )
    share = past.wait_fraction
    calm = share < NO_WAIT
    waited = f"steps waited for their rows {render_percent(share)} of the time"
    return Suggestion(
        topic="loader workers",
        advice=f"as they are: {waited}"
        if calm
        else f"more of them, or rows prepared before: {waited}",
        option=None,
        gain=share,
        basis=past.name if calm else f"what {past.name} waited, at most saved",
        trial=None if own else _loader(facts, keeps=calm),
        not_tried=refused,
    )


def _loader(facts: HereFacts, *, keeps: bool) -> Trial:
    """Rows from memory against the framework's own pipeline with workers."""
    workers = max(1, facts.allowed_cores - 1)
    return Trial(
        factor="loader",
        base=Level(label="cache", sets={"loader": "cache"}),
        other=Level(
            label=f"native, {workers} worker{'' if workers == 1 else 's'}",
            sets={"loader": "native", "loader_workers": workers},
        ),
        keeps=keeps,
    )


def suggest_swap(facts: HereFacts) -> Suggestion:
    """Whether the step needs memory that is not there."""
    need, room = facts.needed_bytes, facts.memory_bytes
    refused = "a run that swaps would hold this machine up"
    swapped = None if facts.past is None else facts.past.swapped_bytes
    if swapped:
        return Suggestion(
            topic="swap",
            advice=f"less memory: {render_bytes(swapped)} were swapped out in a run before",
            option=None,
            gain=None,
            basis="not known: no run of it without swapping is at hand",
            not_tried=refused,
        )
    if need is None or room is None:
        return Suggestion(
            topic="swap",
            advice="not known: the step's need or the machine's memory is not",
            option=None,
            gain=None,
            basis="not known: trainload estimate it with --target cpu",
            not_tried=refused,
        )
    if need > FULL * room:
        return Suggestion(
            topic="swap",
            advice=f"a smaller batch: the step needs {render_bytes(need)} of {render_bytes(room)}, "
            f"and swap ({render_bytes(facts.swap_bytes)}) is far slower",
            option=None,
            gain=None,
            basis="not known how much slower; the need is the estimate of its memory",
            not_tried=refused,
        )
    return Suggestion(
        topic="swap",
        advice=f"plays no part: {render_bytes(need)} needed of {render_bytes(room)}",
        option=None,
        gain=0.0,
        basis="the estimate of its memory",
        not_tried="nothing is to be changed",
    )


def suggest_disk(facts: HereFacts) -> Suggestion:
    """By what a past run waited for its rows, and by what the drive was measured to give."""
    wait = None if facts.past is None else facts.past.wait_fraction
    kind = {True: "says that it turns", False: "does not turn", None: "kind not told"}
    state = f"{render_bytes(facts.disk_free_bytes)} free, {kind[facts.disk_rotates]}"
    reach = facts.reach
    if reach is not None and reach.drive_bytes_per_s:
        state += f", reads {render_bytes(reach.drive_bytes_per_s)}/s in order"
    refused = "data cannot be moved to another disk from outside"
    if wait is None:
        return Suggestion(
            topic="disk",
            advice=f"not known whether it holds the training up ({state})",
            option=None,
            gain=None,
            basis=_NO_RUN.replace(", or --try", ""),
            not_tried=refused,
        )
    return Suggestion(
        topic="disk",
        advice=f"rows in memory or on a faster one ({state})"
        if wait >= NO_WAIT
        else f"as it is: steps hardly waited for their rows ({state})",
        option=None,
        gain=wait,
        basis="what steps waited, at most saved, together with loader workers",
        not_tried=refused,
    )
