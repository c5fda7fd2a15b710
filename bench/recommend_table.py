"""Recommendations held to published throughputs: is the device that is recommended the best?

    python bench/recommend_table.py TABLES [--keep ROW]

TABLES is the folder with throughput_lambda.csv (github lambdal/deeplearning-benchmark). For every
model and precision the candidates are the table's kinds of GPU, one of each, and then every number
of each that the table has. A question is right where the recommended candidate is within 10 % of
the best one by the measured figures: by time, by money under five price lists, and the cheapest
that meets a deadline of 1.25, 2 and 4 times the fastest one's measured time. For deadlines every
method is given the measured figure of one candidate, each in turn; one that is missed is wrong. A
device's own calibration is left out. Beside it: always the newest (as many as there are, for
money alone one), always the cheapest an hour, and the ratio of peak FLOPs.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from predict_devices import KINDS, predicted_row, published_rows
from raw import keep
from trainload.hardware.catalogue import find_device
from trainload.hardware.prices import load_prices
from trainload.predict.money import Cost, Lacking, list_offers
from trainload.predict.types import Ranged
from trainload.recommend.ranking import recommend_plans
from trainload.recommend.types import Demand, Plan

WITHIN = 1.10
SLACK = (1.25, 2.0, 4.0)
SEEDS = (16, 17)
RANDOM_USD = (0.3, 4.0)
LIFETIME_H = 3 * 8766.0
HOURS = 10.0
"""Of the fastest candidate: the length of the training, which changes no answer."""
METHODS = ("recommended", "newest", "cheapest an hour", "FLOPs ratio")


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One number of one kind of GPU on one model and precision, in items a second."""

    device: str
    count: int
    measured: float
    predicted: float
    low: float
    high: float
    peak: float
    bought_usd: float


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("tables", type=Path)
    parser.add_argument("--keep", metavar="ROW", help="keep the figures as this row")
    words = parser.parse_args()
    rows = published_rows(words.tables / "throughput_lambda.csv")
    for row in rows:
        row |= predicted_row(row)
    kept = {}
    for title, most in (("one device each", 1), ("every number of devices", 8)):
        answers = list(_questions([row for row in rows if row["count"] <= most]))
        kept[title] = answers
        _print(title, answers)
    if words.keep:
        keep("recommend_table", words.keep, figures=kept)


def _questions(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Every question with what each method answers and whether that is right."""
    for key in dict.fromkeys((row["model"], row["precision"]) for row in rows):
        mine = _candidates([row for row in rows if (row["model"], row["precision"]) == key])
        work = HOURS * 3600 * max(one.measured for one in mine)
        for prices, usd_per_h in _price_lists(mine).items():
            some = [one for one in mine if (one.device, one.count) in usd_per_h]
            if len(some) < 2:
                continue
            about = {"model": key[0], "precision": key[1], "prices": prices}
            if prices == "table":
                yield {**about, "question": "time", **_ask(some, usd_per_h, work, None, None)}
            yield {**about, "question": "money", **_ask(some, usd_per_h, work, 0.0, None)}
            fastest = min(work / one.measured / 3600 for one in some)
            for slack in SLACK:
                for anchor in some:
                    yield {
                        **about,
                        "question": f"deadline × {slack:g}",
                        "anchor": [anchor.device, anchor.count],
                        **_ask(some, usd_per_h, work, slack * fastest, anchor),
                    }


def _candidates(rows: list[dict[str, Any]]) -> list[Candidate]:
    """Hosts of one kind as one candidate, by medians."""
    found = []
    for key in dict.fromkeys((row["device"], row["count"]) for row in rows):
        hosts = [row for row in rows if (row["device"], row["count"]) == key]
        middle = {
            name: median(row[name] for row in hosts)
            for name in ("items_per_s", "predicted", "low", "high", "peak", "usd")
        }
        found.append(
            Candidate(
                device=key[0],
                count=key[1],
                measured=middle["items_per_s"],
                predicted=middle["predicted"],
                low=middle["low"],
                high=middle["high"],
                peak=middle["peak"],
                bought_usd=middle["usd"],
            )
        )
    return found


def _price_lists(some: list[Candidate]) -> dict[str, dict[tuple[str, int], float]]:
    """USD an hour by candidate in each of the five lists; those without a price are left out."""
    prices = load_prices()
    found = {"table": {(one.device, one.count): one.bought_usd / LIFETIME_H for one in some}}
    for name, market in (("on demand", "on demand"), ("spot", "spot")):
        offers = {
            (one.device, one.count): list_offers(one.device, one.count, prices, market=market)
            for one in some
        }
        found[name] = {key: each[0].usd_per_h for key, each in offers.items() if each}
    for seed in SEEDS:
        draw = random.Random(seed)
        low, high = RANDOM_USD
        each = {name: low * (high / low) ** draw.random() for name in sorted(KINDS.values())}
        found[f"random {seed}"] = {
            (one.device, one.count): one.count * each[one.device] for one in some
        }
    return found


def _ask(
    some: list[Candidate],
    usd_per_h: dict[tuple[str, int], float],
    work: float,
    limit_h: float | None,
    anchor: Candidate | None,
) -> dict[str, Any]:
    """One question: time where `limit_h` is None, money where it is 0, else the deadline."""
    deadline = limit_h if limit_h else None
    objective = "time" if limit_h is None else "money"

    def price(one: Candidate) -> float:
        return usd_per_h[one.device, one.count]

    def truth(one: Candidate) -> float:
        hours = work / one.measured / 3600
        if deadline is not None and hours > deadline:
            return math.inf
        return hours if objective == "time" else hours * price(one)

    best = min(map(truth, some))
    scale = 1.0 if anchor is None else anchor.measured / anchor.predicted
    by_peak = 1.0 if anchor is None else anchor.measured / anchor.peak
    chosen = {
        "recommended": _recommended(some, price, work / scale, Demand(
            objective="time" if objective == "time" else "money", deadline_h=deadline)),
        "newest": max(some, key=lambda one: (find_device(one.device).year or 0,
                                             -one.count if limit_h == 0 else one.count)),
        "cheapest an hour": min(some, key=price),
        "FLOPs ratio": _by_peak(some, price, work / by_peak, objective, deadline),
    }  # fmt: skip
    return {
        "chosen": {name: [one.device, one.count] for name, one in chosen.items()},
        "right": {name: truth(one) <= WITHIN * best for name, one in chosen.items()},
        "off": {
            name: truth(one) / best - 1 if math.isfinite(truth(one)) else None
            for name, one in chosen.items()
        },
    }


def _recommended(
    some: list[Candidate], price: Callable[[Candidate], float], work: float, demand: Demand
) -> Candidate:
    """What the product recommends: its first choice, or what comes nearest where there is none."""
    made = [_plan(one, price(one), work) for one in some]
    found = recommend_plans(made, (), demand)
    first = found.winner or found.nearest[0].plan
    return next(one for one, plan in zip(some, made, strict=True) if plan is first)


def _plan(one: Candidate, usd_per_h: float, work: float) -> Plan:
    hours = Ranged(
        value=work / one.predicted / 3600, low=work / one.high / 3600, high=work / one.low / 3600
    )
    return Plan(
        device=find_device(one.device),
        count=one.count,
        precision="",
        batch_size=None,
        portions=1,
        checkpointed=False,
        steps=1,
        needed_bytes=None,
        capacity_bytes=None,
        running_out=None,
        step_s=hours.times(3600),
        hours=hours,
        power_w=None,
        energy_kwh=None,
        cost=Cost(
            usd=usd_per_h * hours.value,
            low_usd=usd_per_h * hours.low,
            high_usd=usd_per_h * hours.high,
            basis="the bench's price list",
        ),
        emission=Lacking(reason="not asked"),
        limit="launch",
        tier="datasheet",
        nearest=(),
    )


def _by_peak(
    some: list[Candidate],
    price: Callable[[Candidate], float],
    work: float,
    objective: str,
    deadline: float | None,
) -> Candidate:
    """By peak FLOPs alone; the fastest where none meets the deadline."""
    hours = {id(one): work / one.peak / 3600 for one in some}
    kept = [one for one in some if deadline is None or hours[id(one)] <= deadline]
    if not kept or objective == "time":
        return min(some, key=lambda one: hours[id(one)])
    return min(kept, key=lambda one: hours[id(one)] * price(one))


def _print(title: str, answers: list[dict[str, Any]]) -> None:
    print(f"\n{title}: share of questions whose answer is within 10 % of the best")
    print(f"{'question':28}{'asked':>7}" + "".join(f"{name:>18}" for name in METHODS))
    groups: dict[str, list[dict[str, Any]]] = {}
    for one in answers:
        groups.setdefault(one["question"], []).append(one)
        if one["question"] != "time":
            groups.setdefault(f"  prices: {one['prices']}", []).append(one)
    for name in (*groups, "all"):
        some = groups.get(name, answers)
        shares = [sum(one["right"][method] for one in some) / len(some) for method in METHODS]
        print(f"{name:28}{len(some):7}" + "".join(f"{share:18.1%}" for share in shares))
    once = [one for one in answers if "anchor" not in one]
    shares = [sum(one["right"][method] for one in once) / len(once) for method in METHODS]
    print(f"{'time and money alone':28}{len(once):7}" + "".join(f"{s:18.1%}" for s in shares))


if __name__ == "__main__":
    main()
