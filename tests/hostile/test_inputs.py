"""Words and data from elsewhere that once took minutes or ended in a traceback: now one line."""

import json
import os
import struct
import time
from pathlib import Path
from typing import Any

import pytest

from trainload.cli.app import run_app
from trainload.errors import RecordError, WorkloadError
from trainload.record import Manifest, create_run_directory
from trainload.record.checkpoints import load_checkpoint
from trainload.workload.data.choose import recognise
from trainload.workload.data.datasets import scan_csv
from trainload.workload.data.npy import read_header
from trainload_worker.data.table import load_csv
from trainload_worker.errors import CheckpointError, DataError
from trainload_worker.training.safetensors_file import load_tensors

COLUMNS = 100_000


def test_a_table_of_very_many_columns_is_read_in_one_pass(tmp_path: Path) -> None:
    table = tmp_path / "wide.csv"
    names = [f"c{at}" for at in range(COLUMNS)]
    row = ",".join(["1"] * COLUMNS)
    table.write_text(f"label,{','.join(names)}\na,{row}\nb,{row}\n")
    begun_s = time.process_time()
    data = scan_csv(table)
    assert len(data.feature_columns) == COLUMNS and load_csv(data).feature_count == COLUMNS
    # Column by column through the header it took minutes; no matter how slow the machine is.
    assert time.process_time() - begun_s < 30
    table.write_text(f"label,{','.join(names)},c7\n")
    with pytest.raises(WorkloadError, match="column 'c7' is named twice"):
        scan_csv(table)


def test_a_line_without_an_end_is_no_table(tmp_path: Path) -> None:
    table = tmp_path / "long.csv"
    table.write_text("x" * (17 << 20))
    with pytest.raises(WorkloadError, match="a line of over 16,777,216 characters"):
        scan_csv(table)


@pytest.mark.parametrize("place", ["/dev/zero", "pipe"])
def test_a_device_or_a_pipe_is_no_table(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "pipe")
    path = tmp_path / place
    status = run_app(["run", "mlp", "--data", str(path), "--out", str(tmp_path / "runs")])
    assert status == 2 and "is no plain file; give a file" in capsys.readouterr().err
    with pytest.raises(WorkloadError, match="no plain file"):
        read_header(path)


def test_a_record_cannot_make_a_worker_read_a_device() -> None:
    from trainload_worker.protocol.data import CsvData

    spec = CsvData(
        path="/dev/zero", label_column="l", feature_columns=("f",), classes=("a", "b"), rows=2
    )
    with pytest.raises(DataError, match="no plain file"):
        load_csv(spec)


@pytest.mark.parametrize(
    ("version", "header"),
    [
        (2, "-" * 1_000_000 + "1"),
        (1, "-" * 9_000 + "1"),
        (1, "(" * 9_000),
        (1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2.5, 2)}"),
        (1, "{'descr': '<f4', 'fortran_order': False, 'shape': (-2, -2)}"),
        (1, "{'descr': '<f4', 'fortran_order': False, 'shape': (True,)}"),
        (1, "{'descr': '<f4', 'fortran_order': False, 'shape': 7}"),
    ],
)
def test_an_npy_header_that_is_none_is_one_line(version: int, header: str, tmp_path: Path) -> None:
    path = tmp_path / "features.npy"
    length = struct.pack("<H" if version == 1 else "<I", len(header))
    path.write_bytes(b"\x93NUMPY" + bytes((version, 0)) + length + header.encode() + bytes(16))
    with pytest.raises(WorkloadError) as error:
        read_header(path)
    assert "\n" not in str(error.value) and len(str(error.value)) < 400


@pytest.mark.parametrize("words", [["show"], ["seal"], ["report"]])
def test_a_name_that_is_too_long_is_one_line(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_app([*words, "x" * 300]) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ") and err.count("\n") == 1


def test_data_of_a_name_that_is_too_long_is_one_line() -> None:
    with pytest.raises(WorkloadError, match="File name too long"):
        recognise(Path("x" * 300), "x" * 300)


def test_a_run_of_a_long_name_has_a_directory(tmp_path: Path) -> None:
    made = create_run_directory(tmp_path, "é" * 200, Manifest())
    assert len(made.path.name.encode()) < 200 and (made.path / "run.json").is_file()
    made.lock.free()


def write_checkpoint(path: Path, header: dict[str, Any], values: int, **metadata: str) -> None:
    told = {"format": "trainload checkpoint 1", "epoch": "1", "step": "2", **metadata}
    text = json.dumps({"__metadata__": told, **header}).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(values))


def entry(begin: Any, end: Any, shape: Any) -> dict[str, Any]:
    return {"dtype": "F32", "shape": shape, "data_offsets": [begin, end]}


@pytest.mark.parametrize("epoch", ["-5", "1e3", "²", "9" * 400, "", " 1"])
def test_a_checkpoint_of_no_epoch_is_refused(epoch: str, tmp_path: Path) -> None:
    path = tmp_path / "c.safetensors"
    write_checkpoint(path, {"a": entry(0, 8, [2])}, 8, epoch=epoch)
    with pytest.raises(RecordError, match=r"its epoch is .*, no count"):
        load_checkpoint(path)


@pytest.mark.parametrize(
    "header",
    [
        {"a": entry(0, 8, [2]), "b": entry(0, 8, [2])},
        {"a": entry(0, 8, [2]), "b": entry(4, 12, [2])},
        {"a": entry(0, 4, [1]), "b": entry(8, 12, [1])},
        {"a": entry(-4, 4, [2])},
        {"a": entry(0, 8, [2.0])},
        {"a": entry(0, 8, [-1, -2])},
        {"a": entry(0, 8, [1 << 60, 1 << 60])},
        {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0]}},
        {"a": None},
    ],
)
def test_tensors_that_overlap_or_lie_elsewhere_are_refused(
    header: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "c.safetensors"
    write_checkpoint(path, header, 12)
    with pytest.raises(RecordError, match="is damaged") as error:
        load_checkpoint(path)
    assert "\n" not in str(error.value)


def test_the_worker_trains_no_value_twice(tmp_path: Path) -> None:
    path = tmp_path / "c.safetensors"
    write_checkpoint(path, {"a": entry(0, 8, [2]), "b": entry(4, 12, [2])}, 12)
    with pytest.raises(CheckpointError, match="belong to two tensors"):
        load_tensors(str(path))


@pytest.mark.parametrize(
    "line",
    [
        "epoch 1 loss " + "9" * 300_000,
        "step " + "1" * 300_000 + " loss 0.5",
        '{"epoch": ' + "9" * 300_000 + ', "loss": 0.5}',
        "loss 0." + "1" * 300_000,
    ],
)
def test_very_many_digits_in_a_log_cost_nothing(
    line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "train.log"
    log.write_text("\n".join(f"epoch {n} loss 0.{n}" for n in range(1, 9)) + f"\n{line}\n")
    begun_s = time.process_time()
    status = run_app(["collect", str(log), "--out", str(tmp_path / "out"), "--json"])
    assert time.process_time() - begun_s < 20
    out, err = capsys.readouterr()
    assert status in (0, 2) and (status == 0 or err.count("\n") == 1)
    if status == 0:
        json.loads(out, parse_constant=pytest.fail)
