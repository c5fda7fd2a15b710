"""Exports of runs: tables, plots by name, and files that the other tools' libraries read back."""

import importlib.util
import struct

import polars as pl
import pytest

from trainload.api.exporting import IMAGES, KINDS, TABLES, TOOLS, export, plots_of
from trainload.cli.app import run_app
from trainload.errors import MissingPart, UsageError
from trainload.integrations.exporters import EXPORTERS
from trainload.report.export import IMAGE_KINDS, TABLE_KINDS, save_image


def needs(library):
    return pytest.mark.skipif(
        importlib.util.find_spec(library) is None, reason=f"{library} is not installed"
    )


@pytest.fixture
def run(make_run):
    return make_run(epochs=2, hostile=True)


def test_the_kinds_are_those_that_can_be_written():
    assert (*TABLE_KINDS,) == TABLES and IMAGE_KINDS == IMAGES and (*EXPORTERS,) == TOOLS


@pytest.mark.parametrize("kind", ["csv", "parquet", "markdown", "latex"])
def test_the_tables_of_a_run(run, tmp_path, kind):
    written = export(run, to=kind, out=tmp_path / "out")
    assert [path.stem for path in written] == ["figures", "steps", "epochs", "samples"]
    assert all(path.stat().st_size for path in written)
    if kind == "parquet":
        assert pl.read_parquet(written[1]).height == 200
    assert export(run, to=kind, out=tmp_path / "out") == written  # replaced, not refused


def test_the_tables_of_a_folder_of_runs(make_run, tmp_path, capsys):
    for step_s in (0.05, 0.1):
        make_run(epochs=1, step_s=step_s)
    words = ["export", str(tmp_path / "runs"), "--to", "csv", "--out", str(tmp_path / "out")]
    assert run_app([*words, "--metric", "training_s"]) == 0
    names = {line.rsplit("/", 1)[1] for line in capsys.readouterr().out.splitlines()}
    assert names == {"runs.csv", "cells.csv", "effects.csv", "best.csv", "missing.csv"}
    assert pl.read_csv(tmp_path / "out" / "cells.csv")["metric"].unique().to_list() == [
        "training_s"
    ]


def test_what_cannot_be_exported_is_said_in_one_line(run, tmp_path, capsys):
    out = ["--out", str(tmp_path / "out")]
    assert run_app(["export", str(run), "--to", "excel", *out]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and all(kind in said for kind in KINDS)
    assert run_app(["export", str(run), "--to", "png", *out]) == 2
    assert "cpu-load" in capsys.readouterr().err
    assert run_app(["export", str(run), "--to", "png", "--plot", "cpu", *out]) == 2
    assert "--plot cpu: " in capsys.readouterr().err
    assert run_app(["export", str(run), "--to", "csv", "--plot", "cpu-load", *out]) == 2
    assert run_app(["export", str(tmp_path / "none"), "--to", "csv", *out]) == 2
    (tmp_path / "file").touch()
    assert run_app(["export", str(run), "--to", "csv", "--out", str(tmp_path / "file")]) == 2


@pytest.mark.parametrize("tool", ["mlflow", "tensorboard", "wandb"])
def test_a_tool_that_is_not_installed_is_named_with_what_installs_it(
    run, tmp_path, monkeypatch, tool
):
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *a: None if name == tool else real(name, *a),
    )
    with pytest.raises(MissingPart, match=rf"pip install 'trainload\[{tool}\]'"):
        export(run, to=tool, out=tmp_path / "out")


def test_images_need_kaleido(run, tmp_path, monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name == "kaleido" else real(name, *a)
    )
    with pytest.raises(MissingPart, match=r"kaleido.*pip install 'trainload\[plots\]'"):
        save_image(plots_of(run)[0], tmp_path / "plot.svg")


def test_every_plot_of_a_run_is_one_that_plotly_takes(run):
    graph = pytest.importorskip("plotly.graph_objects", reason="plotly is not installed")
    plots = plots_of(run)
    names = [plot.name for plot in plots]
    assert {"training-loss", "cpu-load", "memory-load"} <= set(names)
    assert len(set(names)) == len(names)
    for plot in plots:
        graph.Figure(data=list(plot.traces), layout=dict(plot.layout))
        assert "<script" not in str(plot)


@needs("kaleido")
@pytest.mark.browser
@pytest.mark.parametrize("kind", ["png", "svg"])
def test_a_plot_as_an_image(run, tmp_path, kind):
    (path,) = export(run, to=kind, plot="cpu-load", out=tmp_path / "out")
    begins = {"png": b"\x89PNG", "svg": b"<svg"}[kind]
    assert path.read_bytes().startswith(begins)


@needs("mlflow")
def test_mlflow_reads_its_store_back(run, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    for _ in range(2):  # the second export takes the place of the first
        (store,) = export(run, to="mlflow", out=tmp_path / "out")
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=store.as_uri())
    place = client.get_experiment_by_name("trainload")
    (found,) = client.search_runs([place.experiment_id])
    assert found.info.status == "FINISHED" and found.data.params["framework"] == "torch"
    assert found.data.metrics["steps"] == 200
    assert len(client.get_metric_history(found.info.run_id, "train/step_s")) == 200


@needs("tensorboard")
def test_tensorboard_reads_its_events_back(run, tmp_path):
    for _ in range(2):
        (folder,) = export(run, to="tensorboard", out=tmp_path / "out")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder))
    found.Reload()
    assert len(found.Scalars("train/step_s")) == 200
    assert found.Scalars("figures/steps")[0].value == 200
    assert b"framework: torch" in found.Tensors("parameters")[0].tensor_proto.string_val[0]


@needs("wandb")
def test_wandb_files_hold_the_run(run, tmp_path):
    (folder,) = export(run, to="wandb", out=tmp_path / "out")
    from wandb.proto import wandb_internal_pb2 as messages

    (file,) = folder.glob("run-*.wandb")
    told = [messages.Record.FromString(one) for one in _log_records(file.read_bytes())]
    history = [one.history for one in told if one.HasField("history")]
    keys = [
        {item.nested_key[0] if item.nested_key else item.key for item in h.item} for h in history
    ]
    assert sum("train/step_s" in one for one in keys) == 200
    assert next(one.run for one in told if one.HasField("run")).display_name == run.name


def _log_records(data):
    """W&B's files are logs in the format of LevelDB: blocks of 32 KiB behind seven bytes."""
    at, held = 7, b""
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        _, length, kind = struct.unpack_from("<IHB", data, at)
        if kind == 0:
            return
        held += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or the last piece
            yield held
            held = b""


def test_an_unknown_kind_is_refused_before_anything_is_made(run, tmp_path):
    with pytest.raises(UsageError, match="known: csv"):
        export(run, to="xls", out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_openmetrics_holds_each_run_s_figures_with_units_and_escaped_names(run, make_run, tmp_path):
    make_run(epochs=1, outcome="failed")
    (path,) = export(run.parent, to="openmetrics", out=tmp_path / "out")
    assert path.name == "trainload.prom"
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[-1] == "# EOF" and len(set(lines)) == len(lines)
    assert "# UNIT trainload_step_seconds seconds" in lines
    told = [line for line in lines if line.startswith("trainload_completed{")]
    assert sorted(line.rsplit(" ", 1)[1] for line in told) == ["0.0", "1.0"]
    steps = [line for line in lines if line.startswith("trainload_step_seconds{")]
    (step,) = [line for line in steps if run.name in line]
    assert float(step.rsplit(" ", 1)[1]) == pytest.approx(0.05, rel=0.1)


def test_openmetrics_escapes_what_the_format_does():
    from trainload.integrations.exporters.openmetrics_file import render_openmetrics
    from trainload.integrations.exporters.told import RunTold

    told = RunTold(
        name='a"b\\c\nd', began_s=0.0, ended_s=1.0, outcome=None, study=None, parameters={},
        figures={"loss": float("nan"), "gpu0 clock_hz": 2.0}, series={},
    )  # fmt: skip
    text = render_openmetrics([told])
    assert r'run="a\"b\\c\nd"' in text and "loss" not in text
    assert "trainload_gpu0_clock_hertz{" in text and text.endswith("# EOF\n")


@needs("prometheus_client")
def test_prometheus_own_parser_reads_openmetrics(run, tmp_path):
    from prometheus_client.openmetrics.parser import text_string_to_metric_families

    (path,) = export(run, to="openmetrics", out=tmp_path / "out")
    families = {one.name: one for one in text_string_to_metric_families(path.read_text())}
    assert families["trainload_step_seconds"].unit == "seconds"
    (sample,) = families["trainload_completed"].samples
    assert sample.value == 1.0 and sample.labels["run"] == run.name
