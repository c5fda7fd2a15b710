"""Rules of study R as data, figures that follow from others, and verdicts with their reasons."""

from dataclasses import replace

import pytest
from hand_graphs import graph_of

from trainload.analyse.rules import derive, judge_rules, load_rules
from trainload.analyse.rules.derived import memory_cells, parallel, sequential
from trainload.analyse.rules.judge import _SOURCES
from trainload.analyse.rules.statements import Check, FactNeeded, Figure, Rule, RuleFile
from trainload.errors import HardwareFileError
from trainload.estimate import estimate_complexity
from trainload.hardware.limits import MachineLimits
from trainload_worker.protocol.measure import PROGRAMS, Measured, MeasureLack, Reading

FILE = load_rules()


def limits_of(*measured, **others):
    values = {"taken_at": "2026-01-01", "quick": True, "facts": {}, **others}
    return MachineLimits(measured=measured, **values)


def rate(at, values, program="matrix-rate", unit="FLOP/s"):
    return Measured(program, unit, tuple(Reading(*pair) for pair in zip(at, values, strict=True)))


SLOW, FAST = (1.0, 1.1, 0.9, 1.0, 1.05), (2.0, 2.1, 1.9, 2.0, 2.05)
THREADS = rate(({"threads": "1"}, {"threads": "16"}, {"threads": "4"}), (SLOW, FAST, SLOW))
OF = Figure(program="matrix-rate", at={"threads": "most"})
AGAINST = Figure(program="matrix-rate", at={"threads": "least"})


def rule_of(*checks, **others):
    words = dict.fromkeys(("id", "place", "says", "predicts", "measured_by", "decides"), "x")
    return Rule(checks=checks, **words, **others)


def verdict(rule, limits):
    return judge_rules(RuleFile(study="s", source="x", rules=(rule,)), limits)[0]


def faster(**bounds):
    return Check(words="more threads", of=OF, against=AGAINST, **bounds)


def test_every_rule_is_whole_and_names_programs_that_there_are():
    assert len({rule.id for rule in FILE.rules}) == len(FILE.rules) >= 30
    for rule in FILE.rules:
        assert all((rule.place, rule.says, rule.predicts, rule.measured_by, rule.decides)), rule.id
        assert rule.checks or rule.dated or rule.barred, rule.id
        for check in rule.checks:
            assert (check.against is None) == (check.scale == "value"), rule.id
            assert check.above is not None or check.below is not None, rule.id
            for side in filter(None, (check.of, check.against)):
                assert _SOURCES.get(side.program, side.program) in PROGRAMS, rule.id
    assert {rule.id for rule in FILE.rules if rule.formula} >= {
        "memory-cells", "sequential-complexity", "parallel-complexity", "k1-below",
    }  # fmt: skip


def test_every_program_serves_a_rule():
    used = {
        _SOURCES.get(side.program, side.program)
        for rule in FILE.rules
        for check in rule.checks
        for side in filter(None, (check.of, check.against))
    }
    assert used == set(PROGRAMS)


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ({"above": 1.2}, "holds"),
        ({"below": 1.2}, "does not hold"),
        ({"above": 2.0}, "cannot tell"),
        ({"above": 5, "undecided_below": True}, "cannot tell"),
        ({"above": 5}, "does not hold"),
        ({"above": 0.5, "scale": "difference"}, "holds"),
    ],
)
def test_an_interval_decides_or_does_not(bounds, expected):
    found = verdict(rule_of(faster(**bounds)), limits_of(THREADS))
    assert found.verdict == expected
    figure = found.checked[0].figure
    assert figure.low < figure.value < figure.high and figure.runs == 10
    assert figure.value == pytest.approx(1.0 if bounds.get("scale") else 2.0, rel=0.02)


def test_what_is_missing_is_said_and_no_verdict():
    rule = rule_of(faster(above=1.2))
    lack = MeasureLack("matrix-rate", "torch cannot be imported")
    assert verdict(rule, limits_of(lacks=(lack,))).reason == "torch cannot be imported"
    found = verdict(rule, limits_of())
    assert (found.verdict, found.reason) == ("cannot tell", "matrix-rate was not measured")
    other = replace(OF, at={"device": "cuda"})
    found = verdict(rule_of(Check(words="x", of=other, scale="value", above=1)), limits_of(THREADS))
    assert "no GPU" in found.reason and found.checked[0].figure.value is None
    spare = Check(words="x", of=other, scale="value", above=1, where_there=True)
    assert verdict(rule_of(faster(above=1.2), spare), limits_of(THREADS)).verdict == "holds"


def test_a_derived_figure_that_is_missing_names_its_program():
    check = Check(words="x", of=Figure(program="random-reads"), scale="value", above=1)
    lack = MeasureLack("drive-read", "the drive is full")
    assert verdict(rule_of(check), limits_of(lacks=(lack,))).reason == "the drive is full"


def test_dated_and_barred_rules_show_their_figures_all_the_same():
    for others, expected in (
        ({"dated": "long gone"}, "dated"),
        ({"barred": "not ours to set"}, "cannot tell"),
        (
            {"needs_fact": FactNeeded(name="sockets", least=2, otherwise="one socket")},
            "cannot tell",
        ),
    ):
        found = verdict(rule_of(faster(above=1.2), **others), limits_of(THREADS))
        assert found.verdict == expected and found.checked[0].holds is True
    two = limits_of(THREADS, facts={"sockets": "2"})
    needs = FactNeeded(name="sockets", least=2, otherwise="one socket")
    assert verdict(rule_of(faster(above=1.2), needs_fact=needs), two).verdict == "holds"


def test_some_of_several_checks_may_be_enough():
    yes, no = faster(above=1.2), faster(above=5)
    assert verdict(rule_of(yes, no), limits_of(THREADS)).verdict == "does not hold"
    assert verdict(rule_of(yes, no, need=1), limits_of(THREADS)).verdict == "holds"


@pytest.mark.parametrize(
    ("values", "expected"),
    [((1.0, 1.0, 1.0), "does not hold"), ((1.0, 0.7, 0.9), "cannot tell"), ((0.5, 0.6), "holds")],
)
def test_every_seed_counts_by_itself(values, expected):
    check = Check(words="x", of=Figure(program="memorise"), scale="value", every=True, below=0.999)
    limits = limits_of(rate(({"k1": "0.1"},), (values,), "memorise", "fraction"))
    assert verdict(rule_of(check), limits).verdict == expected


def test_counts_that_never_vary_are_exact():
    values = ((4.0,) * 3, (2.0,) * 3)
    limits = limits_of(rate(({"threads": "2"}, {"threads": "1"}), values))
    figure = verdict(rule_of(faster(above=1.5)), limits).checked[0].figure
    assert (figure.low, figure.high) == pytest.approx((2.0, 2.0))


def test_what_was_timed_beside_others_decides_nothing_and_what_was_counted_does():
    busy = limits_of(replace(THREADS, others_fraction=0.8))
    found = verdict(rule_of(faster(above=1.2)), busy)
    assert found.verdict == "cannot tell" and "others took 80" in found.reason
    assert found.checked[0].figure.value == pytest.approx(2.0, rel=0.02)
    check = Check(words="x", of=Figure(program="memorise"), scale="value", every=True, below=0.999)
    counted = rate(({"k1": "0.1"},), ((0.5,) * 3,), "memorise", "fraction")
    limits = limits_of(replace(counted, others_fraction=0.8))
    assert verdict(rule_of(check), limits).verdict == "holds"
    reads = rate(({"place": "drive", "pattern": "random", "block": "4096"},), (FAST,), "drive-read")
    check = Check(words="x", of=Figure(program="random-reads"), scale="value", below=1)
    limits = limits_of(replace(reads, others_fraction=0.8))
    assert verdict(rule_of(check), limits).verdict == "cannot tell"


def test_one_core_is_not_compared_with_itself():
    found = verdict(rule_of(faster(above=1.2)), limits_of(rate(({"threads": "1"},), (SLOW,))))
    assert found.verdict == "cannot tell" and "nothing to compare" in found.reason


def test_a_figure_of_nothing_has_no_ratio():
    limits = limits_of(rate(({"threads": "2"}, {"threads": "1"}), ((1.0,) * 3, (0.0,) * 3)))
    assert "no ratio" in verdict(rule_of(faster(above=1)), limits).reason


@pytest.mark.parametrize("layers", [(4, 5, 3), (8, 8, 8, 8), (6, 2)])
def test_the_closed_forms_are_those_of_the_estimate(layers):
    kinds = []
    for units in layers[1:]:
        kinds += [("linear", {"units": units}), ("relu", {})]
    found = estimate_complexity(graph_of([layers[0]], *kinds[:-1]))
    assert sequential(layers) == found.sequential_operations
    assert parallel(layers) == found.parallel_operations


def test_cells_by_hand():
    # 10·(4 + 1) of the sample, 43 weights, and a gradient, or gradient and two moments, for each.
    assert memory_cells((4, 5, 3), 10, "sgd") == 50 + 43 + 43
    assert memory_cells((4, 5, 3), 10, "adam") == 50 + 43 + 129


def test_figures_that_follow_from_others():
    peaks = {"case": "weights", "optimizer": "adam", "layers": "4-5-3", "samples": "10"}
    latency = ({"bytes": "512"}, {"bytes": "65536"}, {"bytes": "1024"})
    found = derive(
        limits_of(
            rate(
                ({"pages": "64", "page": "small"}, {"pages": "64", "page": "huge"}),
                ((9.0, 8.0), (3.0, 3.0)),
                "tlb-reach",
            ),
            rate(latency, ((1.0,), (9.0,), (2.0,)), "memory-latency"),
            rate(({"network": "a", "on": "b", "layers": "4-5-3"},), ((75.0,),), "forward-time"),
            rate(
                ({**peaks, "reference": "no"}, {**peaks, "reference": "yes"}),
                ((888.0,), (1110.0,)),
                "training-memory",
            ),
            rate(
                ({"place": "drive", "pattern": "random", "block": "4096"},),
                ((40960.0,),),
                "drive-read",
            ),
            rate(({"kernel": "read", "threads": "4"},), ((20.0,),), "memory-bandwidth"),
            facts={"l2_bytes": "2048"},
        )
    )
    values = {one.program: one.readings[0].values for one in found}
    assert values == {
        "translation-cost": (6.0, 5.0),
        "cache-miss-cost": (7.0,),
        "time-over-t1": (1.0,),
        "time-over-t2": pytest.approx((75 / 19,)),
        "over-formula": (1.0,),
        "reserve-share": (0.25,),
        "random-reads": (10.0,),
        "rate-of-a-core": (5.0,),
    }
    assert derive(limits_of()) == ()


@pytest.mark.parametrize("at", [{"network": "a"}, {"network": "a", "on": "b", "layers": "x-y"}])
def test_a_file_with_strange_levels_is_refused_in_a_line(at):
    with pytest.raises(HardwareFileError, match="levels that no program here writes"):
        derive(limits_of(rate((at,), ((1.0,),), "forward-time")))
