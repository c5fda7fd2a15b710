"""Predictions beside what runs measured: errors, ranges, tiers, and what has no truth."""

import pytest

from trainload.analyse.predicted import PredictionPair, pair_prediction, score_predictions
from trainload.api.loading import load
from trainload.record.predictions import PredictedFigures, RecordedPrediction


def pair(name, predicted, truth, low=None, high=None, tier="calibrated", quantity="step_s"):
    return PredictionPair(
        name=name,
        device="h200",
        tier=tier,
        model_kind="CNN",
        quantity=quantity,
        predicted=predicted,
        low=low,
        high=high,
        truth=truth,
    )


def test_errors_and_ranges_are_worked_by_hand():
    card = score_predictions(
        [
            pair("a", 1.1, 1.0, 0.9, 1.2),
            pair("b", 0.5, 1.0, 0.4, 0.6),
            pair("c", 1.0, 1.0),
            pair("d", 2.0, 1.0, 0.5, 3.0, tier="datasheet"),
        ]
    )
    assert card.rows["name"].to_list() == ["d", "b", "a", "c"], "worst first"
    assert dict(zip(card.rows["name"], card.rows["held"], strict=True)) == {
        "a": True, "b": False, "c": None, "d": True,
    }  # fmt: skip
    calibrated, datasheet = card.groups.iter_rows(named=True)
    assert (calibrated["tier"], calibrated["count"]) == ("calibrated", 3), "tiers never mix"
    assert calibrated["median_error"] == pytest.approx(0.1)
    assert calibrated["worst_error"] == pytest.approx(-0.5)
    assert (calibrated["held"], calibrated["ranged"]) == (1, 2)
    assert datasheet["bias_error"] == pytest.approx(1.0)


def test_nothing_gives_empty_frames():
    card = score_predictions([])
    assert card.rows.height == card.groups.height == 0


def test_a_run_on_a_gpu_is_paired_by_its_headline_step_and_its_own_board(make_run):
    run = load(make_run(gpu=True))
    summary = run.summary
    said = RecordedPrediction(
        step_s=0.06,
        examples_per_s=9000.0,
        energy_j=12.0,
        low=PredictedFigures(step_s=0.04),
        high=PredictedFigures(step_s=0.08),
        device="h200",
        tier="datasheet",
    )
    pairs = {one.quantity: one for one in pair_prediction(run.manifest, summary, said)}
    assert set(pairs) == {"step_s", "examples_per_s", "energy_j"}
    assert pairs["step_s"].truth == summary.step_time.median_s
    assert pairs["examples_per_s"].truth == summary.examples_per_s
    power = next(one for one in summary.energy if one.source == "gpu0").mean_power_w
    assert pairs["energy_j"].truth == pytest.approx(power * summary.step_time.median_s)
    assert pairs["step_s"].low == 0.04 and pairs["energy_j"].low is None


def test_a_run_without_a_meter_of_its_device_has_no_energy(make_run):
    run = load(make_run())
    said = RecordedPrediction(step_s=0.06, energy_j=12.0, device="amd-epyc", tier="calibrated")
    assert [one.quantity for one in pair_prediction(run.manifest, run.summary, said)] == ["step_s"]
