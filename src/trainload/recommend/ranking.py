"""Plans as ranked choices: one for each candidate, best first, and every other with its reason.

Pure; the reasons why the first one is first are of `reasons`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from trainload.recommend.doubt import find_doubt
from trainload.recommend.judging import find_misses
from trainload.recommend.nearest import find_nearest
from trainload.recommend.reasons import find_changes, find_why
from trainload.recommend.types import Choice, Miss, Recommendation, Rejection, chance_within

if TYPE_CHECKING:
    from trainload.recommend.types import Demand, Plan, Unfit


def recommend_plans(
    plans: Iterable[Plan], unfit: Iterable[Unfit], demand: Demand
) -> Recommendation:
    """The ranked choices among plans; candidates without a plan are rejected with their reason."""
    found: list[tuple[Plan, tuple[Plan, ...]]] = []
    rejected: list[Rejection] = []
    for ways in _by_candidate(plans):
        ordered = sorted(ways, key=lambda plan: _place(plan, demand))
        best = ordered[0]
        misses = find_misses(best, demand)
        if misses:
            rejected.append(_reject(best, misses))
        else:
            others = tuple(one for one in ordered[1:] if not find_misses(one, demand))
            found.append((best, others))
    found.sort(key=lambda pair: _place(pair[0], demand))
    front = _front([plan for plan, _ in found])
    choices = tuple(
        Choice(
            plan=plan,
            on_front=inside,
            deadline_chance=None
            if demand.deadline_h is None
            else chance_within(plan.hours, demand.deadline_h),
            budget_chance=None
            if demand.budget_usd is None or plan.usd is None
            else chance_within(plan.usd, demand.budget_usd),
            others=others,
        )
        for (plan, others), inside in zip(found, front, strict=True)
    )
    rejected.sort(key=lambda one: _least(one.misses))
    rejected += [
        Rejection(
            device=one.device,
            count=one.count,
            reason=one.reason,
            misses=(
                Miss(
                    demand=one.demand,
                    reason=one.reason,
                    value=one.needed_bytes,
                    limit=one.capacity_bytes,
                ),
            ),
        )
        for one in unfit
    ]
    return Recommendation(
        demand=demand,
        choices=choices,
        rejected=tuple(rejected),
        why=find_why(choices, demand),
        changes=find_changes(choices, rejected, demand),
        doubt=find_doubt([one.plan for one in choices], demand.objective),
        nearest=() if choices else find_nearest(rejected),
    )


def _by_candidate(plans: Iterable[Plan]) -> list[list[Plan]]:
    groups: dict[tuple[str, int, bool], list[Plan]] = {}
    for plan in plans:
        groups.setdefault((plan.device.name, plan.count, plan.owned), []).append(plan)
    return list(groups.values())


def _place(plan: Plan, demand: Demand) -> tuple[float, float, float, float]:
    """Those that keep to the demands first, then by the objective, then by time and number."""
    misses = find_misses(plan, demand)
    figure = plan.figure(demand.objective)
    value = math.inf if figure is None else figure.value
    return _least(misses), value, plan.hours.value, plan.count


def _least(misses: Sequence[Miss]) -> float:
    return max((one.ratio for one in misses), default=0.0)


def _reject(plan: Plan, misses: tuple[Miss, ...]) -> Rejection:
    return Rejection(
        device=plan.device,
        count=plan.count,
        reason="; ".join(one.reason for one in misses),
        misses=misses,
        plan=plan,
    )


def _front(plans: Sequence[Plan]) -> list[bool]:
    """Whether no other plan is as good in everything known of both, and better in something."""
    costs = [
        tuple(
            math.inf if figure is None else figure.value
            for figure in (plan.hours, plan.usd, plan.energy_kwh)
        )
        for plan in plans
    ]
    return [
        not any(
            other != mine and all(a <= b for a, b in zip(other, mine, strict=True))
            for other in costs
        )
        for mine in costs
    ]
