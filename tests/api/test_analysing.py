"""A folder of runs in tables: figures kept at sealing, made again when stale, and the verb."""

import json
import os
import shutil

import pytest

import trainload
from trainload.api.analysing import analyse
from trainload.api.loading import load_run_figures
from trainload.cli.app import run_app
from trainload.errors import RecordError, UsageError
from trainload.record.figures import load_figures
from trainload.record.layout import FIGURES, MANIFEST


def with_cell(path, name, cell, factors):
    """The run under another name, as a study's runner would have recorded it."""
    other = path.with_name(name)
    shutil.copytree(path, other)
    document = json.loads((other / MANIFEST).read_text())
    document["run_id"] = name
    document["study"] = {"study": "s", "cell": cell, "repetition": 0, "factors": factors}
    (other / MANIFEST).write_text(json.dumps(document))
    return other


@pytest.fixture
def study(make_run, tmp_path):
    """Two levels, three repetitions each; one planned cell was never measured."""
    folder = tmp_path / "s"
    made = [make_run(epochs=1, step_s=step_s) for step_s in (0.05, 0.1)]
    for path in made:
        trainload.load(path)
    for level, path in enumerate(made):
        for repetition in range(3):
            with_cell(path, f"c{level}-{repetition}", str(level), {"width": level})
    shutil.move(made[0].parent, folder / "runs")
    for path in made:
        shutil.rmtree(folder / "runs" / path.name)
    lines = [
        {"identity": str(n), "factors": {"width": n}, "title": f"width={n}", "seconds": None}
        for n in range(3)
    ]
    (folder / "cells.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    doubted = {
        "run": "c1-2", "cell": "1", "repetition": 2, "outcome": "completed",
        "verdict": "untrusted", "doubts": ["it stopped early"],
    }  # fmt: skip
    (folder / "ledger.jsonl").write_text(json.dumps({"end": doubted}) + "\n{broken\n")
    return folder


def test_sealing_leaves_figures_that_are_made_again_when_the_run_changed(make_run):
    path = make_run(epochs=1)
    assert load_figures(path) is None
    run = trainload.load(path)
    kept = load_figures(path)
    assert kept is not None and kept.metrics["step_s"] == run.summary.step_time.median_s
    assert kept.metrics["host_cpu_load_fraction"] > 0 and kept.facts["model"] == "mlp"
    (path / FIGURES).write_text((path / FIGURES).read_text().replace('"step_s"', '"changed"'))
    assert "changed" in load_run_figures(path).metrics  # kept figures are what is read
    (path / MANIFEST).write_text((path / MANIFEST).read_text() + "\n")
    assert load_figures(path) is None and "step_s" in load_run_figures(path).metrics
    for damaged in ("{", "[]", '{"version": 0}'):
        (path / FIGURES).write_text(damaged)
        assert load_run_figures(path).metrics == kept.metrics


def test_a_studys_folder_counts_what_may_count_and_shows_what_is_missing(study):
    tables = analyse(study)
    assert tables.metric == "step_s" and tables.rule == "lowest median step_s"
    assert tables.runs["counts"].sum() == 5
    assert tables.runs.filter(run="c1-2")["reason"].item() == "untrusted: it stopped early"
    assert tables.missing.rows() == [("width=2", "2", "never measured")]
    assert tables.best["cell"][0] == "width=0"
    with pytest.raises(UsageError, match="no run tells nonsense"):
        analyse(study, metric="nonsense")
    with pytest.raises(UsageError, match="no such factor"):
        analyse(study, base={"height": "1"})
    with pytest.raises(UsageError, match="no such level"):
        analyse(study, base={"width": "9"})
    with pytest.raises(UsageError, match="holds no runs"):
        analyse(study / "nothing")


def test_the_verb_prints_tables_json_and_csv(study, capsys, tmp_path):
    assert run_app(["analyse", str(study)]) == 0
    printed = capsys.readouterr().out
    assert "Best: lowest median step_s" in printed and "never measured" in printed
    assert run_app(["analyse", str(study), "--json", "--metric", "duration_s"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["metric"] == "duration_s" and len(told["runs"]) == 6
    out = tmp_path / "tables"
    assert run_app(["analyse", str(study), "--csv", str(out), "--base", "width=1"]) == 0
    assert {path.name for path in out.iterdir()} == {
        "runs.csv", "cells.csv", "effects.csv", "best.csv", "missing.csv",
    }  # fmt: skip
    assert (out / "cells.csv").read_text().startswith("cell,width,metric,n,mean,deviation")
    capsys.readouterr()
    assert run_app(["analyse", str(study), "--base", "width"]) == 2
    assert run_app(["analyse", str(tmp_path / "none")]) == 2
    assert "error:" in capsys.readouterr().err


@pytest.mark.parametrize("place", ["/dev/null", "/proc/self/mem"])
def test_what_is_no_folder_gets_one_line(place):
    with pytest.raises(UsageError, match="holds no runs"):
        analyse(place)


def test_a_journal_that_is_no_plain_file_gets_one_line(tmp_path):
    os.mkfifo(tmp_path / "ledger.jsonl")
    with pytest.raises(RecordError, match="it is no plain file"):
        analyse(tmp_path)
