"""Verdicts on metrics: intervals against scipy, few runs, single runs, equal sets."""

import math
import random

import pytest
from scipy import stats

from compare_samples import make, noisy, side
from trainload.analyse.compare import Known, Side, compare_sides, identity_of
from trainload.analyse.compare.metrics import STEP
from trainload.errors import UsageError


def step_of(a, b, known=None, **options):
    return compare_sides(a, b, known or Known(), **options).metrics[0]


def test_the_step_time_comes_first_and_its_interval_is_welchs_on_logarithms():
    draw = random.Random(1)
    one, other = noisy(draw, 0.05, 4), noisy(draw, 0.06, 5, noise=0.03)
    found = step_of(side("a", one), side("b", other))
    assert found.name == STEP and found.unit == "s" and (found.runs_a, found.runs_b) == (4, 5)
    logs = [[math.log(v) for v in values] for values in (other, one)]
    wanted = stats.ttest_ind(*logs, equal_var=False).confidence_interval(0.975)
    assert found.low / found.a == pytest.approx(math.expm1(wanted.low))
    assert found.high / found.a == pytest.approx(math.expm1(wanted.high))
    assert found.difference == found.b - found.a and found.low < found.difference < found.high
    assert found.percent == pytest.approx(100 * (found.b / found.a - 1))
    assert found.verdict == "slower" and found.standing == "worse"
    turned = step_of(side("b", other), side("a", one))
    assert turned.verdict == "faster" and turned.standing == "better"


def test_same_only_within_the_margin():
    draw = random.Random(2)
    a, b = side("a", noisy(draw, 1.0, 6, 0.002)), side("b", noisy(draw, 1.01, 6, 0.002))
    assert step_of(a, b, margin=0.03).verdict == "same"
    narrow = step_of(a, b, margin=0.001)
    assert narrow.verdict == "slower" and narrow.low > 0
    wide = step_of(side("a", [1.0, 1.2, 0.9]), side("b", [1.1, 0.95, 1.2]))
    assert wide.verdict == "inconclusive" and wide.standing == "undecided"
    assert wide.low < 0 < wide.high


def test_words_follow_the_metric():
    rows = {"examples_per_s": 100.0, "validation_accuracy": 0.5, "peak_host_bytes": 1e9, "x": 1.0}
    draw = random.Random(3)

    def runs(name, factor):
        return Side(
            name=name,
            runs=tuple(
                make(f"{name}{at}", step_s=1.0 + at / 1e4,
                     **{m: v * factor * math.exp(draw.gauss(0, 0.001)) for m, v in rows.items()})
                for at in range(5)
            ),
        )  # fmt: skip

    found = compare_sides(runs("a", 1.0), runs("b", 1.5), Known())
    verdicts = {m.name: (m.verdict, m.standing) for m in found.metrics}
    assert verdicts["examples_per_s"] == ("faster", "better")
    assert verdicts["validation_accuracy"] == ("higher", "better")
    assert verdicts["peak_host_bytes"] == ("higher", "worse")
    assert verdicts["x"] == ("higher", "changed")
    assert found.counts() == {
        "better": 2, "worse": 1, "changed": 1, "unchanged": 1, "undecided": 0, "missing": 0,
    }  # fmt: skip


def test_two_single_runs_without_others_are_never_decided():
    found = step_of(side("a", [1.0]), side("b", [9.0]))
    assert found.verdict == "inconclusive" and found.low is None and found.high is None
    assert "no spread between processes is known" in found.note
    assert found.difference == 8.0


def test_two_runs_a_side_say_nothing_alone():
    found = step_of(side("a", [1.0, 1.001]), side("b", [2.0, 2.001]))
    assert found.verdict == "inconclusive" and found.low is None
    lent = step_of(side("a", [1.0, 1.001]), side("b", [2.0, 2.01, 2.02]))
    assert lent.verdict == "slower" and lent.note == "spread of B taken for both"


def test_what_few_of_many_runs_tell_is_not_decided():
    b = [make(f"b{at}", step_s=1.0, **({"cpu_s": 9.0} if at == 0 else {})) for at in range(4)]
    a = [make(f"a{at}", step_s=1.0, cpu_s=1.0 + at / 1000) for at in range(4)]
    found = compare_sides(Side(name="a", runs=tuple(a)), Side(name="b", runs=tuple(b)), Known())
    row = found.metric("cpu_s")
    assert row.verdict == "inconclusive" and row.low is None and (row.runs_a, row.runs_b) == (4, 1)


def test_single_runs_take_the_spread_of_the_stores_runs_of_their_workload():
    a, b = side("a", [1.0]), side("b", [1.5])
    draw = random.Random(4)
    others = [make(f"o{at}", step_s=v).figures for at, v in enumerate(noisy(draw, 1.0, 8, 0.02))]
    known = Known(workloads={identity_of(others[0]): [others]}, where="runs")
    found = step_of(a, b, known)
    logs = [math.log(one.metrics["step_s"]) for one in others]
    error = math.sqrt(2 * stats.tvar(logs))
    margin = stats.t.isf(0.0125, 7) * error  # one estimate of the spread, counted once
    assert found.low == pytest.approx(math.expm1(math.log(1.5) - margin))
    assert (
        found.verdict == "slower"
        and found.note == "spread of 8 other runs of this workload in runs"
    )
    loud = [make(f"o{at}", step_s=v).figures for at, v in enumerate(noisy(draw, 1.0, 8, 0.5))]
    noise = Known(workloads={identity_of(loud[0]): [loud]})
    assert step_of(a, b, noise).verdict == "inconclusive"
    few = Known(workloads={identity_of(others[0]): [others[:2]]})
    assert step_of(a, b, few).low is None  # one degree of freedom tells nothing


def test_the_study_and_the_other_side_lend_their_spread():
    draw = random.Random(5)
    cells = [
        [make(f"c{c}{at}", step_s=v, study="s", cell=str(c), facts={"width": c}).figures
         for at, v in enumerate(noisy(draw, c, 3, 0.02))]
        for c in (3, 4, 5)
    ]  # fmt: skip
    known = Known(studies={"s": cells}, where="s")
    a = Side(name="a", runs=(make("a", step_s=1.0, study="s", facts={"width": 1}),))
    b = Side(name="b", runs=(make("b", step_s=2.0, study="s", facts={"width": 2}),))
    found = step_of(a, b, known)
    assert found.verdict == "slower" and "9 other runs of the study" in found.note
    lent = step_of(side("a", noisy(draw, 1.0, 5)), side("b", [1.4]))
    assert lent.verdict == "slower" and lent.note == "spread of A taken for both"


def test_values_that_are_all_equal_are_known_to_half_a_percent():
    a, b = side("a", [1.0] * 4, mem_bytes=100.0), side("b", [1.0] * 4, mem_bytes=120.0)
    found = {m.name: m for m in compare_sides(a, b, Known()).metrics}
    # So are four and four of two values that come by turns, once in 35 times.
    assert found["mem_bytes"].verdict == "inconclusive" and "by chance" in found["mem_bytes"].note
    more = side("a", [1.0] * 7, mem_bytes=100.0), side("b", [1.0] * 7, mem_bytes=120.0)
    assert compare_sides(*more, Known()).metric("mem_bytes").verdict == "higher"
    assert found["step_s"].verdict == "same" and found["step_s"].low < 0
    close = compare_sides(a, side("b", [1.0] * 4, mem_bytes=100.5), Known()).metrics[1]
    assert close.verdict == "same"


def test_counts_of_the_workload_need_no_spread():
    a, b = side("a", [1.0], parameters=100), side("b", [1.0], parameters=200)
    found = compare_sides(a, b, Known()).metrics[1]
    assert found.verdict == "higher" and found.low == found.high == 100
    one, two = ({"peak_allocated_bytes": v} for v in (100.0, 110.0))
    twice = compare_sides(side("a", [1.0] * 2, **one), side("b", [1.0] * 2, **two), Known())
    assert twice.metric("peak_allocated_bytes").verdict == "higher"
    once = compare_sides(side("a", [1.0], **one), side("b", [1.0], **two), Known())
    assert once.metric("peak_allocated_bytes").verdict == "inconclusive"


def test_a_metric_of_one_side_is_missing_not_a_difference():
    a, b = side("a", [1.0] * 3, energy_j=5.0), side("b", [1.0] * 3)
    found = compare_sides(a, b, Known())
    row = found.metric("energy_j")
    assert row.b is None and row.verdict == "inconclusive" and row.note == "missing in B"
    assert found.counts()["missing"] == 1
    assert found.metric("nothing") is None
    empty = compare_sides(side("a", [None]), side("b", [None]), Known())
    assert empty.metrics[0].note == "no run tells it" and empty.layers == ()


def test_zeros_are_compared_as_they_are():
    a = Side(name="a", runs=tuple(make(f"a{n}", step_s=1.0, swap_bytes=0.0) for n in range(3)))
    same = compare_sides(a, Side(name="b", runs=a.runs), Known()).metric("swap_bytes")
    assert same.verdict == "same" and same.percent is None and same.low == same.high == 0
    busy = [make(f"b{n}", step_s=1.0, swap_bytes=v) for n, v in enumerate((10.0, 11.0, 12.0))]
    more = compare_sides(a, Side(name="b", runs=tuple(busy)), Known()).metric("swap_bytes")
    assert more.difference == pytest.approx(11.0)


def test_sides_of_several_workloads_are_compared_cell_by_cell():
    draw = random.Random(6)

    def runs(name, factor, widths):
        found = [
            make(f"{name}{w}{at}", step_s=v, facts={"width": w})
            for w in widths
            for at, v in enumerate(noisy(draw, w * factor, 3))
        ]
        return Side(name=name, runs=tuple(found))

    found = compare_sides(runs("a", 1.0, (1, 5)), runs("b", 1.2, (1, 5, 9)), Known())
    assert found.cells == 2 and (found.runs_a, found.runs_b) == (6, 6)
    assert found.metrics[0].percent == pytest.approx(20, abs=3)
    assert found.metrics[0].verdict == "slower"
    assert any("on one side alone: width=9" in note for note in found.notes)
    with pytest.raises(UsageError, match="no workload in common"):
        compare_sides(runs("a", 1.0, (1, 2)), runs("b", 1.0, (3, 4)), Known())


def test_single_runs_of_three_cells_or_more_tell_their_spread():
    def runs(name, *values):
        made = [make(f"{name}{w}", step_s=v, facts={"width": w}) for w, v in enumerate(values)]
        return Side(name=name, runs=tuple(made))

    a = runs("a", 1.0, 2.0, 3.0)
    found = compare_sides(a, runs("b", 1.51, 2.98, 4.55), Known()).metrics[0]
    assert found.verdict == "slower" and found.note == "spread between the cells"
    # Ratios that do not vary at all tell nothing of their spread.
    assert compare_sides(a, runs("b", 1.5, 3.0, 4.5), Known()).metrics[0].low is None


def test_two_equal_sets_differ_in_no_metric_in_nineteen_of_twenty():
    draw = random.Random(7)
    clean = 0
    for _ in range(120):
        sides = []
        for name in "ab":
            runs = []
            for at in range(4):
                speed = math.exp(draw.gauss(0, 0.05))
                more = {f"m{k}_s": speed * math.exp(draw.gauss(0, 0.05)) for k in range(15)}
                more |= {f"n{k}": math.exp(draw.gauss(0, 0.3)) for k in range(15)}
                runs.append(make(f"{name}{at}", step_s=speed, **more))
            sides.append(Side(name=name, runs=tuple(runs)))
        found = compare_sides(*sides, Known())
        clean += all(m.verdict in ("same", "inconclusive") for m in found.metrics)
    assert clean >= 0.95 * 120
