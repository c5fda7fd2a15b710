"""Which plans keep to the demands, and in which words one does not; arithmetic alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainload.predict.money import Lacking
from trainload.recommend.types import Miss
from trainload.recommend.wording import hours_words, number_words, usd_words
from trainload.units import render_bytes, render_percent

if TYPE_CHECKING:
    from trainload.recommend.types import Demand, Plan

MOST_CHANCE = 0.5
"""Of running out of memory, from which on a plan is none."""


def find_misses(plan: Plan, demand: Demand) -> tuple[Miss, ...]:
    """Every demand that the plan does not keep to, by its predicted figures; () where it does."""
    found = (
        _memory(plan),
        _power(plan, demand.max_power_w),
        _deadline(plan, demand.deadline_h),
        _budget(plan, demand),
        _energy(plan, demand),
    )
    return tuple(one for one in found if one is not None)


def _memory(plan: Plan) -> Miss | None:
    if plan.running_out is None or plan.running_out <= MOST_CHANCE or plan.needed_bytes is None:
        return None
    needed, offered = plan.needed_bytes.value_bytes, plan.capacity_bytes or 0
    return Miss(
        demand="memory",
        value=needed,
        limit=offered,
        reason=f"needs {render_bytes(needed)} of memory and has {render_bytes(offered)}: runs out "
        f"with a chance of {render_percent(plan.running_out, 0)}",
    )


def _power(plan: Plan, limit: float | None) -> Miss | None:
    if limit is None:
        return None
    board = plan.board_w
    if board is None:
        return Miss(demand="power", reason="no source states what its board may draw", limit=limit)
    if board <= limit:
        return None
    return Miss(
        demand="power",
        value=board,
        limit=limit,
        reason=f"may draw {number_words(board)} W, {number_words(board - limit)} W above "
        f"{number_words(limit)} W",
    )


def _deadline(plan: Plan, limit: float | None) -> Miss | None:
    hours = plan.hours.value
    if limit is None or hours <= limit:
        return None
    if limit <= 0:
        said = "and no time is given"
    elif hours < 1.1 * limit:
        said = f"{hours_words(hours - limit)} above the deadline of {hours_words(limit)}"
    else:
        said = f"{number_words(hours / limit)} times the deadline of {hours_words(limit)}"
    return Miss(
        demand="deadline",
        value=hours,
        limit=limit,
        reason=f"takes {hours_words(hours)}, {said}",
    )


def _budget(plan: Plan, demand: Demand) -> Miss | None:
    limit = demand.budget_usd
    if isinstance(plan.cost, Lacking):
        if limit is None and demand.objective != "money":
            return None
        return Miss(demand="price", reason=plan.cost.reason, limit=limit)
    if limit is None or plan.cost.usd <= limit:
        return None
    over = plan.cost.usd - limit
    return Miss(
        demand="budget",
        value=plan.cost.usd,
        limit=limit,
        reason=f"costs {usd_words(plan.cost.usd)}, {usd_words(over)} above the budget of "
        f"{usd_words(limit)}",
    )


def _energy(plan: Plan, demand: Demand) -> Miss | None:
    if demand.objective != "energy" or plan.energy_kwh is not None:
        return None
    return Miss(demand="energy", reason="its energy is not known: no source states its power")
