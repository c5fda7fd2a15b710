"""Files that are far more than they seem: each is refused in one line, in little memory.

Every command runs in a process of its own under a limit of memory, and tells what it took.
"""

import gzip
import json
import os
import shutil
import struct
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from trainload.api.loading import load
from trainload.errors import RecordError, WorkloadError
from trainload.record.sound import read_table
from trainload.workload.data.images import scan_images
from trainload.workload.data.remote import fetch_remote

GOLDEN = Path(__file__).parents[1] / "golden"
MOST_MB = 500
SCRIPT = """
import sys
from trainload.cli.app import run_app
status = run_app(sys.argv[1:])
peak = next(row.split()[1] for row in open("/proc/self/status") if row.startswith("VmHWM"))
sys.stderr.write(f"peak {int(peak) // 1024}\\n")
sys.exit(status)
"""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return Path(shutil.copytree(GOLDEN / "format-1-sealed", tmp_path / "run"))


def trainload(*words: str) -> tuple[int, str, str]:
    """Status, output and complaint of a command; fails where it took too much memory."""
    environment = {**os.environ, "POLARS_MAX_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *words],
        capture_output=True, text=True, timeout=120, env=environment,
    )  # fmt: skip
    *complaint, peak = done.stderr.splitlines()
    assert int(peak.split()[1]) <= MOST_MB, peak
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, "\n".join(complaint)


def test_a_hundred_million_equal_rows_are_not_read(run: Path) -> None:
    path = run / "steps.parquet"
    columns = {n: pl.lit(1.0) for n in pl.read_parquet_schema(path)}
    pl.select(pl.repeat(1.0, 20_000_000).alias("step")).with_columns(
        [value.alias(name) for name, value in columns.items()]
    ).write_parquet(path, compression="zstd")
    assert path.stat().st_size < 2_000_000
    status, out, err = trainload("show", str(run))
    assert status == 2 and not out
    assert err.startswith("error: ") and "20,000,000 rows" in err and "\n" not in err
    with pytest.raises(RecordError, match="it is not read"):
        read_table(path)


def test_a_log_of_a_gigabyte_is_read_at_its_end(run: Path) -> None:
    with (run / "worker.log").open("wb") as file:
        file.truncate(1 << 30)
        file.seek(0, 2)
        file.write(b"\nthe last line\n")
    assert load(run).worker_log_tail(1) == "the last line"
    status, _, err = trainload("report", str(run), "--html", str(run.parent / "p.html"))
    assert status == 0 and not err


@pytest.mark.parametrize("name", ["run.json", "events.jsonl", "samples.jsonl", "estimate.json"])
def test_a_file_of_gigabytes_is_refused_by_its_size(name: str, tmp_path: Path) -> None:
    run = Path(shutil.copytree(GOLDEN / "format-1-lines", tmp_path / "run"))
    with (run / name).open("ab") as file:
        file.truncate(3 << 30)
    verb = "scorecard" if name == "estimate.json" else "show"
    status, out, err = trainload(verb, str(run))
    assert status == 2 and not out
    assert "3,221,225,472 bytes; at most" in err and "\n" not in err


def test_a_long_line_is_passed_over_in_pieces(tmp_path: Path) -> None:
    run = Path(shutil.copytree(GOLDEN / "format-1-lines", tmp_path / "run"))
    with (run / "events.jsonl").open("ab") as file:
        file.truncate(file.tell() + (300 << 20))
    status, out, _ = trainload("show", str(run), "--json")
    assert status == 0 and json.loads(out)["steps"] == 26


def test_a_packed_trace_of_gigabytes_ends_early(run: Path) -> None:
    piece = gzip.compress(b'{"ph": "X"},' * 100_000, 9)
    with (run / "trace.json.gz").open("wb") as file:
        file.write(gzip.compress(b'{"traceEvents": ['))
        for _ in range(40):
            file.write(piece)
    status, _, err = trainload("show", str(run))
    assert status == 2 and "trace.json.gz" in err and "\n" not in err
    status, _, err = trainload("report", str(run), "--trace", str(run.parent / "out.json"))
    assert status == 2 and "unpack to over" in err
    assert not (run.parent / "out.json").exists()


def write_idx(path: Path, count: int, labels: Any) -> None:
    path.mkdir()
    head = struct.pack(">4B3I", 0, 0, 8, 3, count, 2, 2)
    (path / "train-images-idx3-ubyte").write_bytes(head + bytes(4 * count))
    with gzip.open(path / "train-labels-idx1-ubyte.gz", "wb") as file:
        labels(file)


def test_labels_that_unpack_to_far_more_are_refused(tmp_path: Path) -> None:
    def endless(file: Any) -> None:
        file.write(struct.pack(">4BI", 0, 0, 8, 1, 10))
        for _ in range(200):
            file.write(bytes(1 << 20))

    write_idx(tmp_path / "more", 10, endless)
    with pytest.raises(WorkloadError, match="over 10 labels"):
        scan_images("mnist", tmp_path / "more")

    def stated(file: Any) -> None:
        file.write(struct.pack(">4BI", 0, 0, 8, 1, 4_000_000_000) + bytes(1000))

    write_idx(tmp_path / "stated", 10, stated)
    with pytest.raises(WorkloadError, match="states 4,000,000,000 bytes of values"):
        scan_images("mnist", tmp_path / "stated")


def test_an_archive_that_unpacks_to_far_more_is_not_fetched(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.zip"
    with (
        zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("table.csv", "w", force_zip64=True) as file,
    ):
        for _ in range(1100):
            file.write(bytes(1 << 20))
    with pytest.raises(WorkloadError, match="in an archive of"):
        fetch_remote(f"zip://::file://{bomb}", tmp_path / "cache")
    assert sum(p.stat().st_size for p in (tmp_path / "cache").rglob("*") if p.is_file()) < 1000


@pytest.mark.parametrize("address", ["file:///", "local:///"])
def test_a_whole_machine_is_no_data(address: str, tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="this whole machine"):
        fetch_remote(address, tmp_path / "cache")
