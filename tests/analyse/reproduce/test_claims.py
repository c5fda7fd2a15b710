"""Claims as data: each fits the study it is about, and a verdict needs an interval."""

import re

import polars as pl
import pytest

from trainload.analyse.published import SOURCES, load_published
from trainload.analyse.reproduce import (
    REPRODUCED,
    Claim,
    Evidence,
    judge_claims,
    load_claims,
    observe,
    side_by_side,
)
from trainload.analyse.reproduce.judge import judge_claim
from trainload.analyse.study import Measured, PlannedCell, tidy_study
from trainload.record.figures import RunFigures
from trainload.study import load_study
from trainload.workload import MODELS, assemble_workload

FEWEST = {"load-analysis": 8, "per-layer": 6, "edge-evaluation": 8}


def evidence(cells, *, quick=False, planned=()):
    """Runs of one factor: {level: {metric: values}}."""
    runs = [
        Measured(
            run=f"{level}-{at}",
            figures=RunFigures(
                run_sha256="",
                run_id=f"{level}-{at}",
                outcome="completed",
                factors=level if isinstance(level, dict) else {"size": level},
                metrics={name: v[at] for name, v in metrics.items() if v[at] is not None},
            ),
        )
        for level, metrics in cells
        for at in range(len(next(iter(metrics.values()))))
    ]
    return Evidence(study=tidy_study(runs, planned), quick=quick)


def claim(**more):
    given = {
        "metric": "step_s",
        "of": {"size": ("big",)},
        "against": {"size": ("small",)},
        "above": 1.0,
    }
    words = {"id": "c", "place": "p", "says": "s", "published": "f"}
    return Claim(**{**words, **given, **more})


SURE = [("small", {"step_s": [1.0, 1.01, 0.99]}), ("big", {"step_s": [2.0, 2.02, 1.98]})]


@pytest.mark.parametrize("study", REPRODUCED)
def test_claims_are_about_what_their_study_varies(study):
    file = load_claims(study)
    assert file.study == study and len(file.claims) >= FEWEST[study]
    assert len({one.id for one in file.claims}) == len(file.claims)
    levels = {
        factor.name: {str(level.label).lower() for level in factor.levels}
        for factor in load_study(study).factors
    }
    for one in file.claims:
        assert one.place and one.published and one.says.endswith(".")
        assert one.above is not None or one.below is not None
        for name, chosen in (*one.of.items(), *one.against.items(), *one.each.items()):
            assert set(chosen) <= levels[name], one.id
        pairs = list(one.pairs())
        assert one.need is None or 0 < one.need <= len(pairs)
        if one.scale != "value" and one.against_metric is None:
            assert all(a != b for a, b in pairs), one.id


def test_claims_about_layers_name_layers_that_the_models_have():
    graphs = {name: assemble_workload(name, {}).graph for name in ("alexnet", "vgg11")}
    assert set(graphs) <= set(MODELS)
    for one in load_claims("per-layer").claims:
        for metric in filter(None, (one.metric, one.against_metric)):
            found = re.fullmatch(r"(?:layer|forward|backward)_(.+)_s", metric)
            if found is not None:
                (network, *_) = one.of["network"]
                paths = {layer.name for layer in graphs[network.split("-")[0]].layers}
                assert found[1] in paths, (one.id, metric)


def test_a_claim_is_confirmed_contradicted_or_left_open_by_its_interval():
    assert judge_claim(claim(), evidence(SURE), "").verdict == "confirms"
    assert judge_claim(claim(above=3.0), evidence(SURE), "").verdict == "contradicts"
    assert judge_claim(claim(above=2.0), evidence(SURE), "").verdict == "cannot tell"
    assert judge_claim(claim(above=None, below=1.0), evidence(SURE), "").verdict == "contradicts"
    noisy = [("small", {"step_s": [1.0, 3.0, 0.5]}), ("big", {"step_s": [2.0, 0.4, 3.0]})]
    found = judge_claim(claim(), evidence(noisy), "")
    assert found.verdict == "cannot tell" and "does not decide" in found.reason
    (only,) = judge_claim(claim(), evidence(SURE), "").compared
    assert only.reading.low < 2.0 < only.reading.high and only.reading.runs == 6


def test_single_runs_decide_nothing():
    one_each = [("small", {"step_s": [1.0]}), ("big", {"step_s": [9.0]})]
    found = judge_claim(claim(), evidence(one_each), "")
    assert found.verdict == "cannot tell" and "too few repetitions" in found.reason
    assert found.compared[0].reading.value == pytest.approx(9.0)


def test_equal_repetitions_say_nothing_of_the_spread():
    equal = [("small", {"step_s": [1.0] * 3}), ("big", {"step_s": [2.0] * 3})]
    found = judge_claim(claim(), evidence(equal), "")
    assert found.verdict == "cannot tell" and "the same value" in found.reason


def test_what_is_missing_is_named():
    planned = [PlannedCell(identity="1", factors={"size": "big"}, reason="out_of_memory")]
    found = judge_claim(claim(), evidence(SURE[:1], planned=planned), "")
    assert found.verdict == "cannot tell" and found.reason == "size=big: out_of_memory"
    power = claim(metric="mean_power_w")
    assert judge_claim(power, evidence(SURE), "").reason == "no meter of power here"
    absent = claim(of={"colour": ("red",)})
    assert judge_claim(absent, evidence(SURE), "").reason == "the study has no factor colour"


def test_the_quick_form_and_a_missing_gpu_bar_a_verdict():
    barred = judge_claim(claim(whole=True), evidence(SURE, quick=True), "one epoch")
    assert barred.verdict == "cannot tell" and barred.reason.endswith("too short to say: one epoch")
    assert barred.compared[0].holds is True  # the figures are shown all the same
    assert judge_claim(claim(whole=True), evidence(SURE), "").verdict == "confirms"
    never = judge_claim(claim(barred="random images"), evidence(SURE), "")
    assert never.verdict == "cannot tell" and never.reason == "random images"
    assert "GPU" in judge_claim(claim(gpu=True), evidence(SURE), "").reason
    idle_gpu = [(s, {**m, "gpu_load_fraction": [0.5] * 3}) for s, m in SURE]
    assert judge_claim(claim(gpu=True), evidence(idle_gpu), "").verdict == "cannot tell"
    with_gpu = [(s, {**m, "peak_gpu_bytes": [1e9] * 3}) for s, m in SURE]
    assert judge_claim(claim(gpu=True), evidence(with_gpu), "").verdict == "confirms"


def test_a_majority_is_certain_only_if_the_open_ones_cannot_turn_it():
    levels = [("small", [1.0, 1.01, 0.99]), ("a", [2.0, 2.02, 1.98]), ("b", [3.0, 3.02, 2.98])]
    open_one = ("c", [0.5, 2.0, 1.4])
    cells = [(s, {"step_s": v}) for s, v in (*levels, open_one)]
    wins = claim(of={"size": ("a", "b", "c")}, need=2)
    assert judge_claim(wins, evidence(cells), "").verdict == "confirms"
    every = claim(of={"size": ("a", "b", "c")})
    found = judge_claim(every, evidence(cells), "")
    assert found.verdict == "cannot tell" and "2 as claimed, 0 not, 1 open" in found.reason
    losers = claim(of={"size": ("a", "b", "c")}, above=None, below=1.0, need=2)
    assert judge_claim(losers, evidence(cells), "").verdict == "contradicts"
    assert [one.short for one in found.compared] == ["a", "b", "c"]


def test_differences_values_and_metrics_of_the_same_run():
    difference = claim(scale="difference", above=-0.1, below=0.1)
    level = [("small", {"step_s": [0.5, 0.51, 0.49]}), ("big", {"step_s": [0.5, 0.49, 0.51]})]
    assert judge_claim(difference, evidence(level), "").verdict == "confirms"
    value = claim(scale="value", against={}, above=1.9)
    assert judge_claim(value, evidence(SURE), "").verdict == "confirms"
    within = claim(against={}, against_metric="other_s")
    both = [("big", {"step_s": [2.0, 4.0, 8.0], "other_s": [1.0, 1.98, 4.1]})]
    found = judge_claim(within, evidence(both), "")
    assert found.verdict == "confirms"  # run by run: the runs differ, their ratios hardly do
    assert found.compared[0].reading.value == pytest.approx(2.0)
    none = [("big", {"step_s": [2.0, 4.0], "other_s": [None, None]})]
    assert judge_claim(within, evidence(none), "").reason == "no run tells other_s"


def watched(plain, inside):
    return evidence(
        [
            ({"batch_size": int(size), "monitor": monitor}, {"training_s": times})
            for monitor, by_size in (("none", plain), ("in-loop", inside))
            for size, times in by_size.items()
        ]
    )


def test_the_observers_share_is_what_the_effect_loses_without_it():
    def around(middle):
        return [middle, middle * 1.01, middle * 0.99]

    plain = {"64": around(2.0), "128": around(1.6), "256": around(1.2), "512": around(1.0)}
    inside = {"64": around(8.0), "128": around(3.0), "256": around(1.5), "512": around(1.0)}
    found = observe(watched(plain, inside))
    assert found.reason is None
    assert found.plain.value == pytest.approx(2.0) and found.watched.value == pytest.approx(8.0)
    assert found.share.value == pytest.approx(2 / 3, abs=0.001)  # 8 = 2 * 2 * 2, one of them plain
    assert found.share.low < 2 / 3 < found.share.high < 0.8
    assert [round(reading.value, 2) for _, reading in found.inflations] == [4.0, 1.88, 1.25, 1.0]
    single = {size: times[:1] for size, times in inside.items()}
    assert "too few repetitions" in observe(watched(plain, single)).reason
    assert "no effect" in observe(watched(plain, {size: [1.0, 1.2, 0.8] for size in plain})).reason


@pytest.mark.parametrize("study", REPRODUCED)
def test_published_tables_stand_beside_nothing_where_nothing_was_measured(study):
    nothing = Evidence(study=tidy_study([], []), quick=True)
    tables = side_by_side(study, nothing)
    assert tables and all(len(row) == len(one.columns) for one in tables for row in one.rows)
    assert {one.verdict for one in judge_claims(load_claims(study), nothing)} == {"cannot tell"}


def test_published_tables_are_whole():
    heights = {name: load_published(name).height for name in SOURCES}
    assert heights == {
        "load_analysis_results": 22,
        "load_analysis_mean_loads": 14,
        "layer_profiling_results": 3,
        "edge_evaluation_results": 69,
        "edge_evaluation_energy": 69,
        "light_network_sizes": 5,
    }
    times = load_published("load_analysis_results").filter(pl.col("factor") == "batch_size")
    assert times["training_time_s"].to_list() == [3426.29, 1406.5, 558.14, 346.66]
