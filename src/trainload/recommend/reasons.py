"""Why the first choice is first, and what would make another one the first; sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from trainload.predict.money import Lacking
from trainload.recommend.wording import (
    figure_words,
    hours_words,
    number_words,
    usd_words,
)
from trainload.units import render_percent

if TYPE_CHECKING:
    from trainload.hardware.catalogue import Device
    from trainload.recommend.types import Choice, Demand, Plan, Rejection

SURE = 0.9
"""The chance of keeping to a demand below which a safer choice is named."""
MOST = 3
_BEST = {"time": "the fastest", "money": "the cheapest", "energy": "the least energy"}
_PEAKS = {
    "float32": "float32_flop_per_s",
    "tf32": "tf32_flop_per_s",
    "bf16": "bf16_flop_per_s",
    "fp16": "fp16_flop_per_s",
}


def find_why(choices: Sequence[Choice], demand: Demand) -> tuple[str, ...]:
    """Sentences on the first choice; () where there is none."""
    if not choices:
        return ()
    first = choices[0]
    plan = first.plan
    kept = ", ".join(_kept(demand))
    among = f"of {len(choices)} choices" + (f" that keep to {kept}" if kept else "")
    found = [
        f"{plan.name}: {figure_words(plan, demand.objective)}, {_BEST[demand.objective]} {among}"
    ]
    other = next(
        (one.plan for one in choices[1:] if one.plan.device.name != plan.device.name), None
    )
    if other is not None:
        found += [f"next is {other.name} with {figure_words(other, demand.objective)}: {text}"
                  for text in _against(plan, other, demand)]  # fmt: skip
    found += _ways(first, demand)
    found += _chances(choices, demand)
    return tuple(found)


def _kept(demand: Demand) -> Iterator[str]:
    if demand.deadline_h is not None:
        yield f"the deadline of {hours_words(demand.deadline_h)}"
    if demand.budget_usd is not None:
        yield f"the budget of {usd_words(demand.budget_usd)}"
    if demand.max_power_w is not None:
        yield f"{number_words(demand.max_power_w)} W"


def _against(plan: Plan, other: Plan, demand: Demand) -> Iterator[str]:
    """What the winner has more or less of than the next kind of device."""
    ratio = other.hours.value / plan.hours.value
    speed = (
        f"it takes {number_words(ratio)} times as long" if ratio >= 1
        else f"it is {number_words(1 / ratio)} times as fast"
    )  # fmt: skip
    mine, theirs = plan.usd_per_h, other.usd_per_h
    if demand.objective == "money" and mine is not None and theirs is not None:
        yield f"{speed} at {usd_words(theirs)} an hour against {usd_words(mine)}"
    elif demand.objective == "energy" and plan.power_w is not None and other.power_w is not None:
        yield (
            f"{speed} and draws {number_words(other.power_w.value)} W against "
            f"{number_words(plan.power_w.value)} W"
        )
    else:
        held = _held_by(plan, other)
        yield f"{speed}{f'; {held}' if held else ''}"


def _held_by(plan: Plan, other: Plan) -> str | None:
    """The figure of the datasheet that holds most of the time, of both."""
    if plan.limit == "memory":
        pair = _both(plan.device, other.device, "bandwidth_bytes_per_s")
        name, unit, worth = "memory bandwidth", "TB/s", 1e12
    elif plan.limit == "compute":
        peak = _PEAKS.get(plan.precision)  # a script's own precision is not known
        pair = None if peak is None else _both(plan.device, other.device, peak)
        name, unit, worth = "arithmetic", "TFLOP/s", 1e12
    else:
        return "launching operations holds most of its time: a larger batch or a graph would help"
    if plan.precision != other.precision:
        return f"it computes in {other.precision}, not in {plan.precision}"
    if pair is None:
        return None
    mine, theirs = (
        value * n / worth for value, n in zip(pair, (plan.count, other.count), strict=True)
    )
    if theirs >= mine:
        return None  # what would speak for the other explains nothing
    return (
        f"most time is held by {name}, of which it has {number_words(theirs)} {unit} against "
        f"{number_words(mine)}"
    )


def _both(one: Device, two: Device, figure: str) -> tuple[float, float] | None:
    mine, theirs = one.value(figure), two.value(figure)
    return None if mine is None or theirs is None else (mine, theirs)


def _ways(first: Choice, demand: Demand) -> Iterator[str]:
    """What precision, accumulation and recomputing change on the winner's devices."""
    plan = first.plan
    seen = {plan.precision}
    for other in first.others:
        if other.precision in seen:
            continue
        seen.add(other.precision)
        ratio = other.hours.value / plan.hours.value
        yield (
            f"{plan.precision} is chosen: in {other.precision} it takes {number_words(ratio)} "
            f"times as long, {figure_words(other, demand.objective)}"
        )
    if plan.portions > 1:
        yield (
            f"a batch of {plan.batch_size} is done in {plan.portions} portions, gradients "
            "added up: in one it would not surely fit"
        )
    if plan.checkpointed:
        yield "blocks are recomputed in the backward pass: without that it would not surely fit"


def _chances(choices: Sequence[Choice], demand: Demand) -> Iterator[str]:
    """How surely the winner keeps to deadline and budget, and the first that does so surely."""
    for name in ("deadline", "budget"):
        chances = [getattr(one, f"{name}_chance") for one in choices]
        if not chances or chances[0] is None or chances[0] >= SURE:
            continue
        said = f"it keeps to the {name} with a chance of {render_percent(chances[0], 0)}"
        safer = next(
            (
                one.plan
                for one, chance in zip(choices, chances, strict=True)
                if chance is not None and chance >= SURE
            ),
            None,
        )
        if safer is None:
            yield f"{said}, and no choice does with 9 in 10"
        else:
            yield (
                f"{said}; the first that does with 9 in 10 is {safer.name}, "
                f"{figure_words(safer, demand.objective)}"
            )


def find_changes(
    choices: Sequence[Choice], rejected: Sequence[Rejection], demand: Demand
) -> tuple[str, ...]:
    """What would make another one the first; () where there is no first."""
    if not choices:
        return ()
    winner = choices[0].plan
    found: list[str] = []
    if demand.objective == "money":
        found += _break_even(winner, choices, rejected)
    found += _relaxed(winner, rejected, demand)
    return tuple(found)


def _break_even(
    winner: Plan, choices: Sequence[Choice], rejected: Sequence[Rejection]
) -> Iterator[str]:
    """Prices an hour at which rivals would cost what the winner costs."""
    usd = winner.usd
    if usd is None or usd.value <= 0:
        return
    named = {winner.device.name}
    rivals: list[Plan] = []
    for one in choices[1:]:
        if one.plan.device.name not in named:
            named.add(one.plan.device.name)
            rivals.append(one.plan)
    for plan in rivals[:MOST]:
        price = usd.value / plan.hours.value
        now = plan.usd_per_h
        yield (
            f"below {usd_words(price)} an hour {plan.name} wins"
            + ("" if now is None else f" (it is {usd_words(now)})")
        )
    if rivals and winner.usd_per_h is not None:
        next_usd = rivals[0].usd
        if next_usd is not None:
            most = next_usd.value / winner.hours.value
            yield (
                f"above {usd_words(most)} an hour {winner.name} is no longer the cheapest "
                f"(it is {usd_words(winner.usd_per_h)})"
            )
    unpriced = [
        one.plan for one in rejected
        if one.plan is not None and isinstance(one.plan.cost, Lacking) and len(one.misses) == 1
    ]  # fmt: skip
    for plan in sorted(unpriced, key=lambda plan: plan.hours.value)[:MOST]:
        price = usd.value / plan.hours.value
        yield f"{plan.name} has no known price; below {usd_words(price)} an hour it wins"


def _relaxed(winner: Plan, rejected: Sequence[Rejection], demand: Demand) -> Iterator[str]:
    """For each demand the least it must give way for a better choice."""
    mine = winner.figure(demand.objective)
    assert mine is not None, "a choice has its objective's figure"
    for name in ("deadline", "budget", "power"):
        best: tuple[float, Plan] | None = None
        for one in rejected:
            if one.plan is None or len(one.misses) != 1 or one.misses[0].demand != name:
                continue
            figure, value = one.plan.figure(demand.objective), one.misses[0].value
            if figure is None or value is None or figure.value >= mine.value:
                continue
            if best is None or value < best[0]:
                best = value, one.plan
        if best is not None:
            value, plan = best
            said = {
                "deadline": f"a deadline of {hours_words(value)}",
                "budget": f"a budget of {usd_words(value)}",
                "power": f"{number_words(value)} W",
            }[name]
            yield f"with {said} {plan.name} wins, {figure_words(plan, demand.objective)}"
