"""The recommendation as one function; asks the rooms and prints nothing."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any

from trainload.api.estimating.asking import LIMIT_S
from trainload.api.estimating.sources import ModuleSource, ScriptSource, Source, find_source
from trainload.api.estimating.study import choose_optimizer
from trainload.api.predicting.costs import Terms, find_terms
from trainload.api.predicting.predictors import check_parts
from trainload.api.predicting.recorded import find_recorded
from trainload.api.predicting.stepping import PRECISIONS
from trainload.api.recommending.candidates import Candidates, find_candidates
from trainload.api.recommending.result import Recommended
from trainload.checked import Bounds, check_value, suggest
from trainload.errors import UsageError
from trainload.predict.money import Lacking, list_offers
from trainload.recommend.types import OBJECTIVES, Demand, Objective, Unfit

if TYPE_CHECKING:
    from trainload.api.recommending.candidates import Candidate
    from trainload.api.recommending.plans import Planner
    from trainload.hardware.catalogue import Device
    from trainload.recommend.types import Plan, Recommendation
    from trainload.workload import Optimizer
    from trainload_worker.protocol.training import OptimizerName

FEW = 12
"""Candidates up to which recomputing is tried for each that lacks memory; with more only where
nothing else is left."""
CHEAP = 0.5
"""Share of the median price below which an offer is pointed out."""
HALF_FROM = (7, 0)
"""The capability from which on GPUs have matrix units in half precision."""
USUAL_EXAMPLES = 10**6
"""What figures are of where nobody says how long the training is."""
_Many = Annotated[int, Bounds(low=1, high=10**12)]
_Batch = Annotated[int, Bounds(low=1, high=10**8)]
_TIMES = {"s": 1 / 3600, "min": 1 / 60, "m": 1 / 60, "h": 1.0, "d": 24.0, "w": 168.0}


def recommend(
    what: str | Path | Any,
    *,
    examples: int | None = None,
    epochs: int | None = None,
    steps: int | None = None,
    batch_size: int | None = None,
    deadline: str | float | None = None,
    budget: float | None = None,
    max_power: float | None = None,
    candidates: str | Sequence[str | Device] | None = None,
    objective: Objective | None = None,
    precision: str | None = None,
    optimizer: OptimizerName | Optimizer | None = None,
    momentum: float = 0.9,
    prices: str | Path | None = None,
    market: str = "on demand",
    provider: str | None = None,
    region: str | None = None,
    loss: Callable[[], Any] | None = None,
    script: bool | None = None,
    arguments: Sequence[str] = (),
    python: str | None = None,
    limit_s: float = LIMIT_S,
    show: Callable[[str], None] | None = None,
    **model_options: Any,
) -> Recommended:
    """On which devices to do a training, how, and why; none of them is needed.

    `what` is what `trainload.predict` takes.

    - `examples` of one epoch and `epochs`, or `steps`: how long the training is; without them
      figures are of a million examples.
    - `batch_size`: of a step over all devices; free, and so a choice, where nobody says.
    - `deadline` as 48h, 90min or 2d, a number is of hours; `budget` in US dollars; `max_power` in
      watts of all boards.
    - `candidates`: names of devices with commas between them, `8xt4` for eight together, kinds
      such as laptop or cpu, `owned` for this machine's, `catalogue` for all, the default.
    - `objective`: time, money or energy; money where there is a deadline, else time.
    - `precision`: a choice where nobody says.
    - `prices`, `market`, `provider`: as for `predict`; `region`: instances that state another one
      are left out, and emissions are of there.

    TrainloadError where something cannot be meant or the code cannot be traced. Demands that
    nothing keeps to are an answer: `choices` is empty and `nearest` says what misses least.
    """
    check_parts("recommendations")
    recorded = find_recorded(what)
    if recorded is not None:
        source: Source = recorded.source
        batch_size = batch_size or recorded.batch_size
        optimizer = optimizer or recorded.optimizer
    else:
        source = find_source(
            what, loss=loss, script=script, arguments=arguments, options=model_options
        )
    if precision is not None and precision not in PRECISIONS:
        raise UsageError(f"unknown precision {precision!r}{suggest(precision, PRECISIONS)}")
    if batch_size is not None:
        batch_size = check_value(_Batch, batch_size, "batch_size")
    demand = _demand(objective, deadline, budget, max_power)
    terms, notes = _terms(prices, market, provider, region)
    asked = find_candidates(candidates, terms.prices)
    return _answer(
        source,
        asked,
        demand,
        terms,
        length=(steps, examples, epochs),
        batch_size=batch_size,
        precision=precision,
        optimizer=choose_optimizer(optimizer or "adam", momentum),
        python=interpreter_of(source, python),
        limit_s=limit_s,
        show=show,
        notes=notes,
    )


def _answer(
    source: Source,
    asked: Candidates,
    demand: Demand,
    terms: Terms,
    *,
    length: tuple[int | None, int | None, int | None],
    batch_size: int | None,
    precision: str | None,
    optimizer: Optimizer,
    python: str | None,
    limit_s: float,
    show: Callable[[str], None] | None,
    notes: tuple[str, ...],
) -> Recommended:
    from trainload.api.recommending.plans import Planner, Training
    from trainload.api.recommending.steps import Steps
    from trainload.recommend.ranking import recommend_plans

    traced = Steps(
        source,
        optimizer,
        batch_size=batch_size,
        python=python,
        limit_s=limit_s,
        show=show,
    )
    named, examples, turns = _length(*length, batch_size, demand, fixed=traced.fixed)
    training = Training(
        examples=examples,
        epochs=turns,
        steps=named,
        batch_size=None if traced.fixed else batch_size,
        precision=precision,
    )
    planner = Planner(traced, training, terms)
    if asked.known:
        traced.prepare(planner.keys(asked.known))
    plans, unfit = _planned(planner, asked.known)
    found = recommend_plans(plans, unfit, demand)
    small = {one.device.name for one in unfit if one.demand == "memory"}
    if small and (not found.choices or len(asked.known) <= FEW):
        planner.recomputes = True
        again = [one for one in asked.known if one.device.name in small]
        more, still = _planned(planner, again)
        plans = [*(one for one in plans if one.device.name not in small), *more]
        unfit = [*(one for one in unfit if one.device.name not in small), *still]
        found = recommend_plans(plans, unfit, demand)
    told = [*notes, *traced.notes, *_doubtful(found), *_cheap(found, terms)]
    if all(one is None for one in length):
        told.append(
            "the training's length is not named: figures are of "
            f"{'that many steps' if traced.fixed else f'{USUAL_EXAMPLES:,} examples'}"
        )
    if batch_size is None and not traced.fixed:
        told.append("the batch is free here and so a choice: --batch names the one you need")
    return Recommended(
        title=source.title,
        optimizer=None if isinstance(source, ScriptSource) else optimizer.name,
        batch_size=training.batch_size,
        examples=examples,
        epochs=turns if examples is not None else None,
        steps=named,
        found=found,
        unknown=asked.unknown,
        notes=tuple(dict.fromkeys(told)),
    )


def _planned(planner: Planner, candidates: Sequence[Candidate]) -> tuple[list[Plan], list[Unfit]]:
    plans: list[Plan] = []
    unfit: list[Unfit] = []
    for candidate in candidates:
        for one in planner.plans(candidate):
            if isinstance(one, Unfit):
                unfit.append(one)
            else:
                plans.append(one)
    return plans, unfit


def _doubtful(found: Recommendation) -> Iterator[str]:
    """What the figures of some choices do not hold."""
    plans = [one.plan for one in found.choices]
    lacking = {
        one.device.name: None
        for one in plans
        if (one.device.capability or (0, 0)) >= HALF_FROM
        and not any(map(one.device.value, ("bf16_flop_per_s", "fp16_flop_per_s")))
    }
    if lacking:
        yield (
            "counted in float32 alone, since the catalogue states no half-precision peak: "
            + ", ".join(lacking)
        )
    several = {
        one.name: None
        for one in plans
        if not isinstance(one.cost, Lacking)
        and one.cost.offer is not None
        and one.cost.offer.machines > 1
    }
    if several:
        yield (
            "rented as several machines, whose link is not the predicted one: " + ", ".join(several)
        )


def _cheap(found: Recommendation, terms: Terms) -> Iterator[str]:
    """That the winner rests on a price far below what others ask."""
    winner = found.winner
    if winner is None or isinstance(winner.cost, Lacking) or winner.cost.offer is None:
        return
    taken = winner.cost.offer
    price, size = taken.usd_per_h, taken.instance.count
    offers = [
        one
        for one in list_offers(winner.device.name, winner.count, terms.prices, market=terms.market)
        if one.instance.count == size
    ]
    middle = median(one.usd_per_h for one in offers)
    if price < CHEAP * middle:
        yield (
            f"the first choice rests on {price:.4g} USD an hour by {winner.instance}, while the "
            f"median of {len(offers)} such offers is {middle:.4g}: make sure that it is to be "
            "had, or name another with --provider"
        )


def _demand(
    objective: str | None,
    deadline: str | float | None,
    budget: float | None,
    max_power: float | None,
) -> Demand:
    if objective is not None and objective not in OBJECTIVES:
        raise UsageError(f"unknown objective {objective!r}{suggest(objective, OBJECTIVES)}")
    for name, value in (("budget", budget), ("max-power", max_power)):
        if value is not None and not (math.isfinite(value) and value >= 0):
            raise UsageError(f"--{name} {value:g}: it is 0 or more")
    chosen: Objective = "time" if deadline is None else "money"
    for known in OBJECTIVES:
        if objective == known:
            chosen = known
    return Demand(
        objective=chosen,
        deadline_h=None if deadline is None else parse_hours(deadline),
        budget_usd=budget,
        max_power_w=max_power,
    )


def parse_hours(text: str | float) -> float:
    """Hours of a length of time as 48h, 90min, 2d; a bare number is of hours. UsageError else."""
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+(?:e[+-]?\d+)?)\s*([a-z]*)\s*", str(text).lower())
    unit = None if match is None else match[2] or "h"
    if match is None or unit not in _TIMES or not math.isfinite(float(match[1])):
        raise UsageError(f"a deadline of {text!r} cannot be read: write 48h, 90min, 2d or 30s")
    return float(match[1]) * _TIMES[unit]


def _terms(
    prices: str | Path | None, market: str, provider: str | None, region: str | None
) -> tuple[Terms, tuple[str, ...]]:
    """Prices and place; instances that state another region are left out."""
    from trainload.hardware.carbon import find_place

    terms = find_terms(prices=prices, market=market, provider=provider, place=None, pue=None)
    if region is None:
        return terms, ()
    instances = terms.prices.instances
    here = tuple(one for one in instances if one.region in (None, region))
    known = any(one.region == region for one in instances)
    notes = []
    try:
        place = find_place(region)
    except UsageError:
        if not known:
            raise
        place = None
        notes.append(f"no carbon intensity of {region} is known, so neither what is emitted")
    if not known and instances:
        notes.append(f"the prices name no region {region}: those that state none are taken")
    return replace(terms, prices=replace(terms.prices, instances=here), place=place), tuple(notes)


def _length(
    steps: int | None,
    examples: int | None,
    epochs: int | None,
    batch: int | None,
    demand: Demand,
    *,
    fixed: bool,
) -> tuple[int | None, int | None, int]:
    """Steps, or examples of an epoch and epochs; UsageError where they cannot be meant."""
    if steps is not None:
        if examples is not None or epochs is not None:
            raise UsageError("--steps says it all: leave out --examples and --epochs")
        if batch is None and not fixed:
            raise UsageError("--steps needs --batch: with a free batch a step is no measure")
        return check_value(_Many, steps, "steps"), None, 1
    if examples is None:
        if epochs is not None:
            raise UsageError("--epochs needs --examples, those of one epoch")
        if demand.deadline_h is not None or demand.budget_usd is not None:
            raise UsageError(
                "a deadline or budget needs the training's length: --examples and --epochs, "
                "or --steps"
            )
        return (USUAL_EXAMPLES, None, 1) if fixed else (None, USUAL_EXAMPLES, 1)
    if fixed:
        raise UsageError("the code has its own batch: name --steps instead of --examples")
    turns: int = check_value(_Many, 1 if epochs is None else epochs, "epochs")
    return None, check_value(_Many, examples, "examples"), turns


def interpreter_of(source: Source, python: str | None) -> str | None:
    """The interpreter that traces; None for a module, which is in this process."""
    if isinstance(source, ModuleSource):
        return None
    from trainload.run import ready_interpreter

    return ready_interpreter("torch", python)
