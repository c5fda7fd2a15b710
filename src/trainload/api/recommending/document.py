"""A recommendation as the document that is shown: plain figures, each again under low and high."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from trainload.api.recommending.result import RECOMMENDATION_FORMAT
from trainload.predict.money import Lacking
from trainload.predict.transfer import LEVEL

if TYPE_CHECKING:
    from trainload.api.recommending.result import Recommended
    from trainload.recommend.types import Choice, Plan, Rejection

_ENDS = ("value", "low", "high")


def recommendation_document(done: Recommended) -> dict[str, Any]:
    """Every figure with its unit in its name; null where it is not known."""
    found, demand, doubt = done.found, done.found.demand, done.found.doubt
    return {
        "format": RECOMMENDATION_FORMAT,
        "origin": "prediction",
        "what": done.title,
        "optimizer": done.optimizer,
        "batch_size": done.batch_size,
        "examples": done.examples,
        "epochs": done.epochs,
        "steps": done.steps,
        "objective": demand.objective,
        "deadline_h": demand.deadline_h,
        "budget_usd": demand.budget_usd,
        "max_power_w": demand.max_power_w,
        "level": LEVEL,
        "choices": [
            {"rank": rank, **_choice(one)} for rank, one in enumerate(done.choices, start=1)
        ],
        "rejected": [
            *(_rejected(one) for one in done.rejected),
            *(
                {"name": name, "device": None, "count": 1, "reason": reason, "misses": []}
                for name, reason in done.unknown
            ),
        ],
        "why": list(found.why),
        "what_would_change_it": list(found.changes),
        "decided": None if doubt is None else doubt.decided,
        "undecided_against": []
        if doubt is None
        else [{"name": one.plan.name, "chance": one.chance} for one in doubt.rivals],
        "deciding_measurement": None if doubt is None else doubt.measurement,
        "nearest": [
            {
                "name": one.name,
                "missed_by": list(one.missed_by),
                "plan": None if one.plan is None else plan_document(one.plan),
            }
            for one in done.nearest
        ],
        "notes": list(done.notes),
    }


def _choice(one: Choice) -> dict[str, Any]:
    return {
        **plan_document(one.plan),
        "on_front": one.on_front,
        "deadline_chance": one.deadline_chance,
        "budget_chance": one.budget_chance,
        "other_ways": [plan_document(other) for other in one.others],
    }


def _rejected(one: Rejection) -> dict[str, Any]:
    return {
        "name": one.name,
        "device": one.device.name,
        "count": one.count,
        "reason": one.reason,
        "misses": [
            {"demand": miss.demand, "value": miss.value, "limit": miss.limit} for miss in one.misses
        ],
        "plan": None if one.plan is None else plan_document(one.plan),
    }


def plan_document(plan: Plan) -> dict[str, Any]:
    """One plan with all its figures."""
    ends = {end: _ends(plan, end) for end in _ENDS}
    cost, emission, needed = plan.cost, plan.emission, plan.needed_bytes
    return {
        "name": plan.name,
        "device": plan.device.name,
        "title": plan.device.title,
        "count": plan.count,
        "owned": plan.owned,
        "instance": plan.instance,
        "precision": plan.precision,
        "batch_size": plan.batch_size,
        "portions": plan.portions,
        "checkpointed": plan.checkpointed,
        "steps": plan.steps,
        "memory": {
            "needed_bytes": None if needed is None else asdict(needed),
            "capacity_bytes": plan.capacity_bytes,
            "running_out": plan.running_out,
        },
        **ends["value"],
        "low": ends["low"],
        "high": ends["high"],
        "usd_per_h": plan.usd_per_h,
        "money": cost.reason if isinstance(cost, Lacking) else cost.basis,
        "emission": emission.reason if isinstance(emission, Lacking) else emission.basis,
        "board_power_w": plan.board_w,
        "limit": plan.limit,
        "tier": plan.tier,
        "nearest_calibrations": list(plan.nearest),
    }


def _ends(plan: Plan, end: str) -> dict[str, float | None]:
    figures = {
        "hours": plan.hours,
        "step_s": plan.step_s,
        "power_w": plan.power_w,
        "energy_kwh": plan.energy_kwh,
        "usd": plan.usd,
    }
    found: dict[str, float | None] = {
        name: None if one is None else getattr(one, end) for name, one in figures.items()
    }
    emission = plan.emission
    ends = {"value": "kgco2e", "low": "low_kgco2e", "high": "high_kgco2e"}
    found["kgco2e"] = None if isinstance(emission, Lacking) else getattr(emission, ends[end])
    return found
