"""`trainload scorecard`: runs that were estimated before, files of truths, and wrong input."""

import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from trainload.record import layout
from trainload.record.estimates import FOLDER_VARIABLE, RecordedEstimate, keep_estimate
from trainload.run import prepare_request
from trainload.run.estimated import adopt_estimate
from trainload.workload import parse_words
from trainload.workload.identity import workload_identity

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden" / "format-1-sealed"
CARD = ROOT / "docs" / "measurements" / "raw" / "memory_scorecard_h200.json"


def trainload(*arguments):
    command = [sys.executable, "-m", "trainload", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.fixture
def estimated_run(tmp_path):
    run = tmp_path / "run"
    shutil.copytree(GOLDEN, run)
    document = json.loads((run / layout.MANIFEST).read_text())
    document["memory"] = {"start_rss_bytes": 100 << 20, "peak_rss_bytes": 300 << 20}
    document["setting"]["obtained"]["accelerators"] = []
    (run / layout.MANIFEST).write_text(json.dumps(document))
    estimate = {"memory": {"ram_growth_bytes": 210 << 20, "verdict": "not known"}}
    (run / layout.ESTIMATE).write_text(json.dumps(estimate))
    return run


def test_a_run_that_was_estimated_is_scored(estimated_run, tmp_path):
    done = trainload("scorecard", estimated_run, "--csv", tmp_path / "rows.csv")
    assert done.returncode == 0, done.stderr
    assert "RAM growth" in done.stdout and "+5.0 %" in done.stdout
    rows = list(csv.DictReader((tmp_path / "rows.csv").read_text().splitlines()))
    assert len(rows) == 1 and float(rows[0]["error"]) == pytest.approx(0.05)
    shown = json.loads(trainload("scorecard", estimated_run, "--json").stdout)
    assert shown["rows"][0]["truth_bytes"] == 200 << 20
    assert shown["said_fits_ran_out"] == 0


def test_a_file_of_truths_counts_the_wrong_verdicts(tmp_path):
    def said(verdict, outcome):
        given = {"name": "a", "device": "h200", "capacity_bytes": 1 << 30}
        return {**given, "verdict": verdict, "outcome": outcome}

    rows = [
        {
            "name": f"case{number}",
            "device": "h200",
            "model_kind": "CNN",
            "estimate": {"reserved": 100 + number},
            "truth": {"reserved": 100},
        }
        for number in range(12)
    ]
    path = tmp_path / "card.json"
    verdicts = [said("fits", "fits"), said("fits", "out_of_memory")]
    document = {"kind": "memory_scorecard", "format": 1, "rows": rows, "verdicts": verdicts}
    path.write_text(json.dumps(document))
    done = trainload("scorecard", "--truth", path)
    assert done.returncode == 0, done.stderr
    assert "said fits, ran out: 1" in done.stdout
    assert "case11" in done.stdout and "case1 " not in done.stdout, "only the worst ten"


def test_the_kept_scorecard_of_the_h200_can_be_shown():
    shown = json.loads(trainload("scorecard", "--truth", CARD, "--json").stdout)
    totals = {row["quantity"]: row for row in shown["totals"]}
    assert totals["reserved"]["count"] >= 20 and totals["allocated"]["count"] >= 20
    assert len(shown["verdicts"]) >= 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "name run directories"),
        ([GOLDEN], "nothing here was both estimated and measured"),
        (["no-such-run"], "no such run"),
        (["--truth", "absent.json"], "no such file"),
        (["--truth", ROOT / "pyproject.toml"], "damaged"),
    ],
)
def test_unsuitable_input_is_one_clear_line(arguments, words):
    done = trainload("scorecard", *arguments)
    assert done.returncode == 2
    assert words in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert done.stdout == ""


def test_a_damaged_estimate_is_one_clear_line(estimated_run):
    (estimated_run / layout.ESTIMATE).write_text("{")
    done = trainload("scorecard", estimated_run)
    assert done.returncode == 2 and "estimate.json is damaged" in done.stderr


def test_a_run_takes_the_estimate_of_its_workload(tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "kept"))
    request = prepare_request(
        "mlp", parse_words("mlp", ["batch_size=64"]), setting="cpu0", out=tmp_path
    )
    assert not adopt_estimate(request, tmp_path)
    keep_estimate(
        workload_identity(request.workload, target="cuda"), RecordedEstimate(model="cuda")
    )
    assert not adopt_estimate(request, tmp_path), "made for another target"
    keep_estimate(workload_identity(request.workload, target="cpu"), RecordedEstimate(model="cpu"))
    assert adopt_estimate(request, tmp_path)
    assert json.loads((tmp_path / layout.ESTIMATE).read_text())["model"] == "cpu"
    other = prepare_request(
        "mlp", parse_words("mlp", ["batch_size=32"]), setting="cpu0", out=tmp_path
    )
    assert not adopt_estimate(other, tmp_path)
    fake = prepare_request(
        "mlp", parse_words("mlp", ["batch_size=64"]), setting="cpu0", out=tmp_path, framework="jax"
    )
    assert not adopt_estimate(fake, tmp_path), "estimates are of torch"
