"""Choices are ranked by the objective, the rest rejected with a reason, demands kept to."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recommend.made_plans import made_plan
from trainload.hardware.catalogue import find_device
from trainload.recommend.ranking import recommend_plans
from trainload.recommend.types import Demand, Unfit, chance_within

T4 = {"name": "t4", "hours": 40.0, "usd_per_h": 0.5, "kwh": 2.8}
L4 = {"name": "l4", "hours": 20.0, "usd_per_h": 1.1, "kwh": 1.4}
H100 = {"name": "h100-sxm", "hours": 4.0, "usd_per_h": 4.0, "kwh": 2.8}


def ranked(*made, unfit=(), **demand):
    demand.setdefault("objective", "time")
    return recommend_plans([made_plan(**one) for one in made], unfit, Demand(**demand))


def names(found):
    return [one.plan.name for one in found.choices]


def test_each_objective_has_its_order():
    assert names(ranked(T4, L4, H100)) == ["h100-sxm", "l4", "t4"]
    assert names(ranked(T4, L4, H100, objective="money")) == ["h100-sxm", "t4", "l4"]
    assert names(ranked(T4, L4, H100, objective="energy"))[0] == "l4"


def test_a_candidate_has_one_place_and_names_its_other_ways():
    slow = {**L4, "hours": 44.0, "precision": "tf32"}
    found = ranked(L4, slow, T4)
    assert names(found) == ["l4", "t4"]
    assert [one.precision for one in found.choices[0].others] == ["tf32"]
    assert any("in tf32 it takes 2.2 times as long" in text for text in found.why)


def test_reasons_name_what_holds_the_time_or_the_precision():
    assert "memory bandwidth, of which it has 0.3 TB/s against 3.35" in ranked(L4, H100).why[1]
    other = ranked({**L4, "precision": "float32"}, H100)
    assert other.why[1].endswith("it computes in float32, not in bf16")


def test_demands_reject_with_their_reason():
    found = ranked(T4, L4, H100, deadline_h=24.0, budget_usd=18.0, max_power_w=100)
    assert not found.choices and len(found.rejected) == 3
    reasons = {one.name: one.reason for one in found.rejected}
    assert reasons["t4"].startswith("takes 1 d 16 h, 1.67 times the deadline of 1 d 00 h")
    assert "above the budget of 18.00 USD" in reasons["l4"]
    assert reasons["h100-sxm"] == "may draw 700 W, 600 W above 100 W"


def test_no_price_is_a_reason_where_money_counts():
    free = {**H100, "usd_per_h": None}
    assert names(ranked(free, T4)) == ["h100-sxm", "t4"]
    for demand in ({"objective": "money"}, {"budget_usd": 100.0}):
        found = ranked(free, T4, **demand)
        assert names(found) == ["t4"]
        assert found.rejected[0].reason == "no price of h100-sxm is known"


def test_without_energy_there_is_no_place_by_energy():
    found = ranked({**L4, "kwh": None}, T4, objective="energy")
    assert names(found) == ["t4"] and "energy is not known" in found.rejected[0].reason


def test_what_runs_out_of_memory_is_no_choice():
    found = ranked({**L4, "running_out": 0.9}, T4)
    assert names(found) == ["t4"]
    assert "runs out with a chance of 90 %" in found.rejected[0].reason


def test_break_even_prices_are_those_at_which_costs_meet():
    found = ranked(T4, L4, H100, objective="money")
    assert "below 0.40 USD an hour t4 wins (it is 0.50 USD)" in found.changes
    assert "below 0.80 USD an hour l4 wins (it is 1.10 USD)" in found.changes
    assert any(text.startswith("above 5.00 USD an hour h100-sxm") for text in found.changes)
    cheaper = ranked({**T4, "usd_per_h": 0.39}, L4, H100, objective="money")
    assert names(cheaper)[0] == "t4"
    unpriced = ranked({**T4, "usd_per_h": None}, L4, H100, objective="money")
    assert any("below 0.40 USD an hour it wins" in text for text in unpriced.changes)


def test_a_demand_that_gives_way_is_named():
    found = ranked(T4, L4, {**H100, "usd_per_h": 8.0}, objective="money", deadline_h=30.0)
    assert names(found)[0] == "l4"
    assert "with a deadline of 1 d 16 h t4 wins, 20.00 USD" in found.changes


def test_overlapping_ranges_are_not_decided():
    near = ranked({**T4, "hours": 10.0, "spread": 0.3}, {**L4, "hours": 11.0, "spread": 0.3})
    assert near.doubt.decided is False
    assert 0.3 < near.doubt.rivals[0].chance < 0.5
    assert "trainload calibrate" in near.doubt.measurement
    far = ranked(T4, H100)
    assert far.doubt.decided and far.doubt.measurement is None


def test_the_measurement_that_decides_is_that_of_the_wider_range():
    found = ranked({**T4, "hours": 10.0, "spread": 0.05}, {**L4, "hours": 16.0, "spread": 0.3})
    assert found.doubt.measurement.startswith("trainload calibrate on a NVIDIA L4")
    assert "would decide it" in found.doubt.measurement
    known = {"spread": 0.08, "tier": "calibrated"}
    both = ranked({**T4, "hours": 10.0, **known}, {**L4, "hours": 10.5, **known})
    assert "both are calibrated" in both.doubt.measurement


def test_one_device_twice_is_told_apart_by_its_number():
    one = {**T4, "hours": 40.0, "spread": 0.3}
    found = ranked(one, {**one, "count": 8, "hours": 6.0})
    assert names(found) == ["8 × t4", "t4"] and found.doubt.decided


def test_chances_of_deadline_and_budget():
    found = ranked({**T4, "spread": 0.3}, H100, objective="money", deadline_h=41.0)
    first = next(one for one in found.choices if one.plan.name == "t4")
    assert 0.5 < first.deadline_chance < 0.6
    assert chance_within(made_plan(hours=10.0).hours, 10.0) == pytest.approx(0.5)
    risky = ranked({**T4, "usd_per_h": 0.1, "spread": 0.3}, H100, objective="money", deadline_h=41)
    assert any("the first that does with 9 in 10 is h100-sxm" in text for text in risky.why)


@pytest.mark.parametrize("demand", [{"budget_usd": 0.0}, {"deadline_h": 1 / 3600}])
def test_impossible_demands_name_the_nearest(demand):
    found = ranked(T4, L4, H100, **demand)
    assert found.winner is None and not found.why and not found.changes and found.doubt is None
    assert found.nearest[0].name == "h100-sxm" and found.nearest[0].missed_by
    assert len(found.nearest) == 3


def test_where_nothing_fits_the_nearest_lacks_least():
    unfit = [
        Unfit(
            device=find_device(name),
            count=1,
            demand="memory",
            reason=f"does not fit {name}",
            needed_bytes=2**36,
            capacity_bytes=room,
        )
        for name, room in (("t4", 2**34), ("l4", 2**35))
    ]
    found = ranked(unfit=unfit)
    assert [one.name for one in found.nearest] == ["l4", "t4"]
    assert found.nearest[0].missed_by == ("does not fit l4",)
    assert {one.reason for one in found.rejected} == {"does not fit t4", "does not fit l4"}


def test_the_front_is_what_nothing_beats():
    found = ranked(T4, L4, H100, {**T4, "name": "p4", "hours": 50.0, "usd_per_h": 0.9, "kwh": 4.0})
    front = {one.plan.name for one in found.choices if one.on_front}
    assert front == {"h100-sxm", "l4"}


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["t4", "l4", "p4", "a10", "h100-sxm"]),
            st.floats(0.01, 1e4),
            st.floats(0.01, 100),
            st.floats(0.001, 1e3),
        ),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from(["time", "money", "energy"]),
    st.floats(0.01, 1e4),
)
def test_first_is_best_and_everyone_has_a_place(rows, objective, deadline):
    made = [
        {"name": name, "hours": hours, "usd_per_h": price, "kwh": kwh, "count": n + 1}
        for n, (name, hours, price, kwh) in enumerate(rows)
    ]
    found = ranked(*made, objective=objective, deadline_h=deadline)
    assert len(found.choices) + len(found.rejected) == len(made)
    values = [one.plan.figure(objective).value for one in found.choices]
    assert values == sorted(values)
    assert all(one.plan.hours.value <= deadline for one in found.choices)
    assert all(one.reason for one in found.rejected)
    assert bool(found.choices) != bool(found.nearest)
    shorter = ranked(*made, objective=objective, deadline_h=1e9)
    assert len(shorter.choices) == len(made)
