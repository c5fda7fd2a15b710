"""Runs as objects: tables, summary, faces, and many at once."""

from pathlib import Path

import polars as pl
import pytest

import trainload
from trainload.analyse.headline import COLUMNS
from trainload.errors import RecordError


def test_a_run_gives_frames_a_summary_and_a_short_face(make_run) -> None:
    run = trainload.load(make_run(epochs=2))
    assert isinstance(run.steps, pl.DataFrame) and run.steps.height == 200
    assert run.epochs.height == 2 and "host_cpu_load_fraction" in run.samples.columns
    assert run.layers.is_empty() and "time_s" in run.layers.columns
    assert run.outcome == "completed" and run.summary.steps == 200
    assert repr(run) == f"Run({str(run.path)!r}, completed)" and len(repr(run)) < 200


def test_a_face_in_a_notebook_escapes_what_a_stranger_wrote(make_run) -> None:
    html = trainload.load(make_run(hostile=True))._repr_html_()
    assert "<script" not in html and "&lt;script&gt;" in html and "step time" in html


def test_a_run_that_goes_on_says_so(make_run) -> None:
    path = make_run(outcome=None)
    assert trainload.load(path).outcome == "killed"  # nobody holds it any more


def test_no_run_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="no such run"):
        trainload.load(tmp_path / "none")


def test_many_runs_are_read_when_looked_at(make_run, tmp_path: Path) -> None:
    paths = sorted((make_run(epochs=1), make_run(epochs=2), make_run(epochs=1, gpu=True)))
    broken = paths[0].parent / "mlp-broken"
    broken.mkdir()
    (broken / "run.json").write_text("{")
    for where in (paths[0].parent, f"{paths[0].parent}/*", str(paths[0].parent)):
        runs = trainload.load_all(where)
        assert len(runs) == 4 and repr(runs) == "Runs(4)"
    assert runs[0].path == paths[0] and len(runs[1:]) == 3
    table = runs.table()
    assert table.columns == [*COLUMNS, "problem"] and table.height == 4
    good = table.filter(pl.col("problem").is_null())
    assert good["outcome"].to_list() == ["completed"] * 3
    assert good["step_s"].null_count() == 0 and good["examples_per_s"].null_count() == 0
    assert good["energy_j"].null_count() == 2, "only the one with a GPU has a joule counter"
    problem = table.filter(pl.col("problem").is_not_null()).row(0, named=True)
    assert problem["run_id"] == "mlp-broken" and "damaged" in problem["problem"]


def test_one_run_a_list_and_nothing(make_run, tmp_path: Path) -> None:
    path = make_run()
    assert [run.path for run in trainload.load_all(path)] == [path]
    assert [run.path for run in trainload.load_all([path, str(path)])] == [path, path]
    patterns = [f"{path.parent}/*", path.parent / f"{path.name[:3]}*", tmp_path / "nowhere/*"]
    assert [run.path for run in trainload.load_all(patterns)] == [path, path]
    assert len(trainload.load_all(tmp_path / "nowhere/*")) == 0
    assert trainload.load_all(tmp_path / "nowhere/*").table().height == 0
