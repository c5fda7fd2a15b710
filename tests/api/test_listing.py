"""`trainload ls`: runs and studies of a folder, filtered and sorted; why one cannot be read."""

import json
import os
import shutil

import pytest

import trainload
from trainload.api.listing import list_runs
from trainload.cli.app import run_app
from trainload.errors import UsageError
from trainload.record.layout import MANIFEST


@pytest.fixture
def folder(make_run, tmp_path):
    """Two runs that differ in their setting and step time, one failed, one damaged, one link."""
    slow = make_run(epochs=1, step_s=0.2)
    trainload.load(slow)
    trainload.load(make_run(epochs=1, cores=1, step_s=0.02))
    trainload.load(make_run(epochs=1, outcome="failed", reason="it broke", script=True))
    broken = tmp_path / "runs" / "deep" / "broken"
    broken.mkdir(parents=True)
    (broken / MANIFEST).write_text("{")
    os.symlink(slow, tmp_path / "runs" / "link")
    return tmp_path / "runs"


def test_runs_are_named_by_what_differs_and_damaged_ones_keep_a_line(folder):
    found = list_runs(folder)
    assert sorted(run.name for run in found.runs) == [
        "broken", "mlp cpu0-0", "mlp cpu0-1", "own/train",
    ]  # fmt: skip
    damaged = next(run for run in found.runs if run.name == "broken")
    assert damaged.problem and "is damaged" in damaged.problem and damaged.outcome is None


def test_looking_seals_nothing(make_run, tmp_path):
    path = make_run(epochs=1)
    left = make_run(epochs=1, outcome=None)
    before = {run: sorted(file.name for file in run.iterdir()) for run in (path, left)}
    outcomes = {run.path: run.outcome for run in list_runs(tmp_path).runs}
    assert outcomes == {path: "completed", left: "killed"}
    assert {run: sorted(file.name for file in run.iterdir()) for run in before} == before
    found = list_runs(tmp_path)
    assert found.notes == ("2 runs keep no figures yet; trainload analyse works them out",)
    (path / "steps.parquet").write_bytes(b"no table")
    assert [run.problem for run in list_runs(tmp_path).runs] == [None, None]


def test_filters_and_sorting(folder):
    assert [r.name for r in list_runs(folder, where={"outcome": "FAIL*"}).runs] == ["own/train"]
    kept = list_runs(folder, where={"model": "mlp"}, sort="step_s", reverse=True)
    assert [r.value("setting") for r in kept.runs] == ["cpu0-1", "cpu0-0"] and kept.left_out == 2
    assert [r.problem is None for r in list_runs(folder, sort="step_s").runs][-1] is False
    with pytest.raises(UsageError, match="cannot filter nonsense: no run tells it; known: model"):
        list_runs(folder, where={"nonsense": "1"})
    with pytest.raises(UsageError, match="cannot sort by nonsense"):
        list_runs(folder, sort="nonsense")
    with pytest.raises(UsageError, match="is no folder"):
        list_runs(folder / "none")


def test_the_verb_prints_lines_and_json(folder, capsys):
    assert run_app(["ls", str(folder), "--sort", "step_s"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:3] == ["run", "outcome", "when"]
    order = [line.partition("  ")[0] for line in lines]
    assert order.index("mlp cpu0-0") < order.index("mlp cpu0-1") < order.index("broken")
    assert "it broke" in next(line for line in lines if line.startswith("own/train"))
    assert "cannot be read" in next(line for line in lines if line.startswith("broken"))
    assert run_app(["ls", str(folder), "model=mlp", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert len(told["runs"]) == 2 and told["left_out"] == 2
    assert told["runs"][0]["metrics"]["step_s"] > 0 and told["runs"][0]["facts"]["model"] == "mlp"
    for wrong in (["a", "b"], ["=1"], ["/dev/null"], [str(folder), "nonsense=1"]):
        assert run_app(["ls", *wrong]) == 2
        assert capsys.readouterr().err.startswith("error: ")


def test_an_empty_folder_says_so_and_studies_have_a_line(tmp_path, capsys):
    assert run_app(["ls", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "no runs here\n"
    study = tmp_path / "s"
    study.mkdir()
    (study / "cells.jsonl").write_text("")
    assert run_app(["ls", str(tmp_path)]) == 0
    assert "cannot be read" in capsys.readouterr().out
    text = "name: widths\nworkload: {model: mlp, data: synthetic}\nfactors: {batch_size: [8, 16]}\n"
    (study / "study.yaml").write_text(text)
    cell = {"identity": "0", "factors": {"batch_size": 8}, "title": "batch_size=8", "seconds": None}
    (study / "cells.jsonl").write_text(json.dumps(cell) + "\n")
    assert run_app(["ls", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[:4] == ["widths", "0", "of", "1"]
    shutil.rmtree(study)
    assert list_runs(tmp_path).studies == ()
