"""Tables of studies against values known by hand and by scipy."""

import math
import random

import polars as pl
import pytest
from scipy import stats

from trainload.analyse.study import (
    Measured,
    PlannedCell,
    best_table,
    cell_table,
    effect_table,
    higher_is_better,
    interaction_table,
    tidy_study,
)
from trainload.analyse.study.contrasts import holm_levels, mean_difference
from trainload.record.figures import RunFigures


def measured(number, factors, reason=None, facts=None, **metrics):
    figures = RunFigures(
        run_sha256="0", run_id=f"r{number}", factors=factors, facts=facts or {}, metrics=metrics
    )
    return Measured(run=f"r{number}", figures=figures, reason=reason)


def grid(noise=0.01, interaction=1.0, repetitions=4):
    """a = 2 doubles, b = y adds a half, both together `interaction` times that."""
    draw, runs = random.Random(3), []
    for _ in range(repetitions):
        for a in (1, 2):
            for b in ("x", "y"):
                true = a * (1.5 if b == "y" else 1) * (interaction if (a, b) == (2, "y") else 1)
                value = true * math.exp(draw.gauss(0, noise))
                runs.append(measured(len(runs), {"a": a, "b": b}, step_s=value, batch_size=8))
    return tidy_study(runs)


def test_cells_have_every_figure_of_every_metric():
    study = grid()
    table = cell_table(study)
    assert table.height == 4 * 2 and set(table["metric"]) == {"step_s", "batch_size"}
    row = table.filter(cell="a=1 b=x", metric="step_s").row(0, named=True)
    values = study.frame.filter(cell="a=1 b=x")["step_s"]
    assert row["n"] == 4 and row["mean"] == pytest.approx(values.mean())
    assert row["deviation"] == pytest.approx(values.std()) and row["max"] == values.max()
    assert row["low"] < row["median"] < row["high"] and row["note"] == "t on logarithms"
    same = table.filter(cell="a=1 b=x", metric="batch_size").row(0, named=True)
    assert same["low"] is None and same["note"] == "says nothing: all values are equal"


def test_one_repetition_says_nothing():
    study = grid(repetitions=1)
    assert cell_table(study, ["step_s"])["note"].unique().to_list() == [
        "says nothing: under 3 repetitions"
    ]
    assert set(effect_table(study, "step_s")["verdict"]) == {"says nothing"}
    assert interaction_table(study, "step_s") is None
    assert set(best_table(study, "step_s")["standing"]) == {
        "first, says nothing",
        "says nothing",
    }


def test_effects_are_ratios_to_the_base_with_a_verdict():
    table = effect_table(grid(), "step_s")
    rows = {row["factor"]: row for row in table.iter_rows(named=True)}
    assert rows["a"]["effect"] == pytest.approx(1.0, abs=0.05)
    assert rows["a"]["base"] == "1" and rows["a"]["pairs"] == 2
    assert rows["b"]["low"] < 0.5 < rows["b"]["high"]
    assert set(table["verdict"]) == {"differs"} and set(table["scale"]) == {"ratio - 1"}
    turned = effect_table(grid(), "step_s", {"a": "2"}).row(0, named=True)
    assert turned["level"] == "1" and turned["effect"] == pytest.approx(-0.5, abs=0.03)


def test_no_difference_is_not_called_one():
    runs = [measured(i, {"a": i % 2}, step_s=1 + 0.1 * math.sin(7 * i)) for i in range(12)]
    row = effect_table(tidy_study(runs), "step_s").row(0, named=True)
    assert row["verdict"] == "no difference shown" and row["low"] < 0 < row["high"]


def test_verdict_and_interval_never_contradict_each_other():
    draw = random.Random(9)
    for trial in range(30):
        runs = [
            measured(i, {"a": level}, step_s=math.exp(0.05 * level + draw.gauss(0, 0.06)))
            for i, level in enumerate([0, 1, 2, 3, 4] * 5)
        ]
        for row in effect_table(tidy_study(runs), "step_s").iter_rows(named=True):
            apart = row["low"] > 0 or row["high"] < 0
            assert apart == (row["verdict"] == "differs"), trial


def test_one_pair_is_welchs_test():
    one, other = [1.0, 2.0, 3.5], [2.0, 3.0, 4.5, 9.0]
    found, wanted = mean_difference([(one, other)]), stats.ttest_ind(one, other, equal_var=False)
    assert found.p_value == pytest.approx(wanted.pvalue)
    interval = wanted.confidence_interval(0.9)
    assert found.bounds(0.1) == pytest.approx((interval.low, interval.high))
    singles = [([1.0], [0.0]), ([2.0], [0.5]), ([3.0], [1.5])]
    assert mean_difference(singles).p_value == pytest.approx(
        stats.ttest_1samp([1.0, 1.5, 1.5], 0).pvalue
    )
    assert mean_difference([]) is None and mean_difference(singles[:2]) is None


def test_holm_steps_down_and_stops():
    assert holm_levels([0.01, 0.04, 0.03], 0.05) == pytest.approx([0.05 / 3, 0.025, 0.025])
    assert holm_levels([], 0.05) == []


def test_interactions_of_a_grid():
    plain = interaction_table(grid(), "step_s")
    verdicts = dict(plain.select("term", "verdict").rows())
    assert verdicts == {"a": "differs", "b": "differs", "a × b": "no difference shown"}
    assert plain["share_fraction"].sum() == pytest.approx(1, abs=0.01)
    joint = interaction_table(grid(interaction=1.3), "step_s")
    assert joint.filter(term="a × b")["verdict"].item() == "differs"


def test_a_main_effect_agrees_with_scipys_analysis_of_variance():
    study = grid(noise=0.3, repetitions=5)
    table = interaction_table(study, "step_s")
    groups = [g["step_s"].log().to_list() for g in study.frame.partition_by("cell")]
    whole = stats.f_oneway(*groups)
    # In a balanced grid the terms' sums of squares add up to that between the cells.
    assert (table["f"] * table["degrees"]).sum() == pytest.approx(3 * whole.statistic)


def test_interactions_need_a_full_grid():
    study = grid()
    part = tidy_study([run for run in _runs(study) if run.figures.factors != {"a": "2", "b": "y"}])
    assert interaction_table(part, "step_s") is None


def test_unlike_runs_in_many_factors_cost_nothing():
    unlike = [
        measured(i, {f"f{at}": f"{i % 12}.{at}" for at in range(20)}, step_s=1.0 + i)
        for i in range(24)
    ]
    assert interaction_table(tidy_study(unlike), "step_s") is None


def _runs(study):
    return [
        measured(i, {"a": row["a"], "b": row["b"]}, step_s=row["step_s"])
        for i, row in enumerate(study.frame.iter_rows(named=True))
    ]


def test_the_best_and_what_cannot_be_told_from_it():
    draw = random.Random(5)
    true = {"fast": 1.0, "twin": 1.001, "slow": 2.0}
    runs = [
        measured(i, {"m": name}, step_s=true[name] * math.exp(draw.gauss(0, 0.02)))
        for i, name in enumerate(list(true) * 6)
    ]
    table = best_table(tidy_study(runs), "step_s")
    standing = dict(table.select("m", "standing").rows())
    assert standing["slow"] == "worse" and sorted(standing.values())[:2] == [
        "best",
        "not distinguishable",
    ]
    assert best_table(tidy_study(runs), "step_s", highest=True)["m"][0] == "slow"
    assert higher_is_better("examples_per_s") and not higher_is_better("validation_loss")


def test_values_that_are_not_positive_are_differences():
    runs = [measured(i, {"a": i % 2}, gain=(i % 2) - 0.01 * i) for i in range(8)]
    row = effect_table(tidy_study(runs), "gain").row(0, named=True)
    assert row["scale"] == "difference" and row["effect"] == pytest.approx(0.99)


def test_missing_cells_are_shown_with_the_reason():
    planned = [
        PlannedCell(identity=str(a), factors={"a": a}, reason=None if a < 3 else "no memory")
        for a in range(1, 4)
    ]
    runs = [
        measured(0, {"a": 1}, step_s=1.0),
        measured(1, {"a": 2}, reason="failed: broke", step_s=1.0),
        Measured(run="r2", figures=None, reason="cannot be read: damaged"),
    ]
    study = tidy_study(runs, planned)
    reasons = dict(study.missing.select("cell", "reason").rows())
    assert reasons == {"a=2": "failed: broke", "a=3": "no memory", "r2": "cannot be read: damaged"}
    assert study.counted.height == 1 and cell_table(study).height == 1


def test_without_a_study_the_factors_are_what_differs():
    runs = [
        measured(i, {}, facts={"model": "mlp", "lr": 0.1 * (1 + i % 2)}, step_s=1.0 + i)
        for i in range(4)
    ]
    study = tidy_study(runs)
    assert study.factors == ("lr",) and set(study.frame["cell"]) == {"lr=0.1", "lr=0.2"}
    alike = tidy_study(runs[::2])
    assert alike.factors == () and alike.frame["cell"].unique().to_list() == ["all"]
    assert effect_table(alike, "step_s").is_empty()
    assert isinstance(alike.missing, pl.DataFrame) and alike.missing.is_empty()


def test_the_base_is_what_most_planned_cells_have_and_the_first_of_several():
    runs = [measured(i, {"a": a}, step_s=1.0) for i, a in enumerate((2, 2, 1))]
    assert tidy_study(runs).base == {"a": "2"}
    planned = [PlannedCell(identity=str(a), factors={"a": a}) for a in (1, 2)]
    assert tidy_study(runs, planned).base == {"a": "1"}
