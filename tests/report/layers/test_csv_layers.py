"""CSV files: times exact, missing cells empty, nothing overwritten or half written."""

import csv
import math
from dataclasses import replace

import polars as pl
import pytest
from layers_samples import make_rank

from trainload.errors import RecordError
from trainload.report.layers.csv_files import (
    LAYER_COLUMNS,
    MODEL_ITSELF,
    STEP_COLUMNS,
    STEP_PARTS,
    write_experiment_csv,
    write_iterations_csv,
    write_layers_csv,
    write_steps_csv,
)


def read(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_columns_are_frozen(tmp_path):
    write_layers_csv([make_rank()], tmp_path / "l.csv")
    write_steps_csv([make_rank()], tmp_path / "s.csv")
    assert tuple(read(tmp_path / "l.csv")[0]) == LAYER_COLUMNS
    assert tuple(read(tmp_path / "s.csv")[0]) == STEP_COLUMNS
    assert LAYER_COLUMNS == (
        "iteration", "device", "rank", "root", "layer", "forward_s", "backward_s", "update_s",
        "idle_s",
    )  # fmt: skip


def test_each_layer_has_a_row_for_each_iteration_and_device(tmp_path):
    ranks = [make_rank(0, device="cuda:0"), make_rank(1, device="cuda:1")]
    write_layers_csv(ranks, tmp_path / "l.csv")
    rows = read(tmp_path / "l.csv")
    assert {row["device"] for row in rows} == {"cuda:0", "cuda:1"}
    steps = ranks[0].rows["step"].unique().to_list()
    names = [node.layer or MODEL_ITSELF for node in ranks[0].nodes]
    first = [
        row for row in rows if row["device"] == "cuda:0" and row["iteration"] == str(min(steps))
    ]
    assert [row["layer"] for row in first] == [n for n in names if n in {r["layer"] for r in first}]
    assert {row["iteration"] for row in rows} == {str(step) for step in steps}
    for rank in ranks:
        for row in (r for r in rows if r["rank"] == str(rank.rank)):
            path = "" if row["layer"] == MODEL_ITSELF else row["layer"]
            own = rank.rows.filter(step=int(row["iteration"]), layer=path)
            idle = own.filter(kind="idle")["time_s"].sum()
            assert float(row["idle_s"]) == pytest.approx(idle, abs=1e-12)
            for phase in ("forward", "backward", "update"):
                expected = own.filter(kind="layer", phase=phase)["time_s"].sum()
                assert float(row[f"{phase}_s"]) == pytest.approx(expected, abs=1e-12)


def test_the_parts_of_a_step_sum_to_its_time(tmp_path):
    rank = make_rank(communication_us=700)
    write_steps_csv([rank], tmp_path / "s.csv")
    rows = read(tmp_path / "s.csv")
    assert len(rows) == rank.rows.select("window", "step").unique().height
    for row in rows:
        parts = [float(row[f"{part.replace(': ', '_')}_s"]) for part in STEP_PARTS]
        assert math.fsum(parts) == pytest.approx(float(row["total_s"]), abs=1e-12)
        traced = rank.rows.filter(step=int(row["iteration"]))["time_s"].sum()
        assert float(row["total_s"]) == pytest.approx(traced, abs=1e-9)
        assert 0 < float(row["explained_fraction"]) < 1
        assert float(row["explained_s"]) + float(row["remainder_s"]) == pytest.approx(
            float(row["total_s"])
        )


def test_an_update_that_was_not_shared_out_is_nobodys_zero(tmp_path):
    rank = make_rank(steps=1)
    update = (pl.col("kind") == "layer") & (pl.col("phase") == "update")
    nobody = pl.when(update).then(None)
    rows = rank.rows.with_columns(
        nobody.otherwise(pl.col("layer")).alias("layer"),
        nobody.otherwise(pl.col("root")).alias("root"),
    )
    write_layers_csv([replace(rank, rows=rows)], tmp_path / "l.csv")
    written = read(tmp_path / "l.csv")
    unknown = [row for row in written if row["layer"] == ""]
    assert len(unknown) == 1 and float(unknown[0]["update_s"]) > 0
    assert unknown[0]["forward_s"] == unknown[0]["backward_s"] == ""
    assert {row["update_s"] for row in written if row["layer"]} == {""}


def test_missing_is_an_empty_cell(tmp_path):
    write_experiment_csv({"model": "a,b", "total_time_s": None, "x_s": 0.1}, tmp_path / "e.csv")
    assert (tmp_path / "e.csv").read_text() == 'model,total_time_s,x_s\n"a,b",,0.1\n'
    write_iterations_csv(("a", "b"), iter([{"b": 2}, {"a": math.pi}]), tmp_path / "i.csv")
    assert (tmp_path / "i.csv").read_text() == f"a,b\n,2\n{math.pi!r},\n"


def test_half_characters_are_written_as_others(tmp_path):
    write_experiment_csv({"model": "\ud800"}, tmp_path / "e.csv")
    assert read(tmp_path / "e.csv") == [{"model": "?"}]


def test_a_file_is_replaced_only_when_asked(tmp_path):
    path = tmp_path / "e.csv"
    path.write_text("mine")
    with pytest.raises(
        RecordError, match="exists; choose another --out, or replace it with --force"
    ):
        write_experiment_csv({"a": 1}, path)
    assert path.read_text() == "mine"
    write_experiment_csv({"a": 1}, path, replace=True)
    assert path.read_text() == "a\n1\n"
    with pytest.raises(RecordError, match="is a folder"):
        write_experiment_csv({"a": 1}, tmp_path, replace=True)


def test_rows_that_fail_leave_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "i.csv"
    path.write_text("mine")

    def rows():
        yield {"a": 1}
        raise RecordError("the disk is gone")

    with pytest.raises(RecordError, match="disk is gone"):
        write_iterations_csv(("a",), rows(), path, replace=True)
    assert path.read_text() == "mine" and [p.name for p in tmp_path.iterdir()] == ["i.csv"]


def test_a_place_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match="cannot write"):
        write_experiment_csv({"a": 1}, tmp_path / "file" / "e.csv")
