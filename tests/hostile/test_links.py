"""Links, pipes and paths in a run directory from elsewhere: none is followed, none obeyed."""

import json
import os
import shutil
from pathlib import Path

import pytest

from trainload.api.loading import load
from trainload.cli.app import run_app
from trainload.errors import RecordError
from trainload.record import open_run, parse_manifest, seal_run
from trainload.record.checkpoints import find_checkpoint
from trainload.record.inside import open_inside, read_end
from trainload.report import render_html
from trainload.workload import workload_from_record
from trainload_worker.data.cache import _open_own

GOLDEN = Path(__file__).parents[1] / "golden"
SECRET = "-----BEGIN PRIVATE KEY-----"
FILES = (
    "run.json", "steps.parquet", "epochs.parquet", "samples.parquet", "worker.log", "trace.json.gz",
    "layers.parquet", "estimate.json",
)  # fmt: skip


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return Path(shutil.copytree(GOLDEN / "format-1-sealed", tmp_path / "run"))


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "id_rsa"
    path.write_text(f"{SECRET}\n" * 4)
    return path


def test_a_log_linked_to_a_private_key_stays_out_of_the_page(run: Path, secret: Path) -> None:
    (run / "worker.log").unlink()
    (run / "worker.log").symlink_to(secret)
    found = load(run)
    assert found.worker_log_tail() == ""
    assert SECRET not in render_html(found, found.summary)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("how", ["secret", "pipe", "zero", "folder", "dangling"])
def test_no_file_is_opened_through_a_link_or_as_a_device(
    name: str, how: str, run: Path, secret: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = run / name
    path.unlink(missing_ok=True)
    if how == "pipe":
        os.mkfifo(path)
    elif how == "folder":
        path.mkdir()
    else:
        targets = {"secret": secret, "zero": Path("/dev/zero"), "dangling": run / "none"}
        path.symlink_to(targets[how])
    status = run_app(["show", str(run), "--json"])
    out, err = capfd.readouterr()
    assert SECRET not in out + err
    assert status in (0, 2) and (status == 2) == err.startswith("error: ")
    assert err.count("\n") == (status == 2)
    assert status == 0 or name.endswith((".parquet", ".json"))
    if out:
        json.loads(out)


def test_a_link_is_named_as_the_reason(run: Path, secret: Path) -> None:
    (run / "steps.parquet").unlink()
    (run / "steps.parquet").symlink_to(secret)
    with pytest.raises(RecordError, match="it is a link, and no link in a run directory"):
        _ = load(run).steps
    os.mkfifo(run / "pipe")
    with pytest.raises(OSError, match="no plain file"):
        open_inside(run / "pipe")
    (run / "trace.json.gz").symlink_to(secret)
    assert load(run).traces == {}


def test_the_directory_itself_may_be_a_link(run: Path, tmp_path: Path) -> None:
    (tmp_path / "latest").symlink_to(run)
    assert load(tmp_path / "latest").steps.height == 26


def test_sealing_writes_through_no_link(tmp_path: Path) -> None:
    run = Path(shutil.copytree(GOLDEN / "format-1-lines", tmp_path / "run"))
    precious = tmp_path / "precious"
    precious.write_text("mine")
    for name in ("steps.parquet", "samples.parquet", "epochs.parquet"):
        (run / name).symlink_to(precious)
        (run / f".{name}.{os.getpid()}").symlink_to(precious)
    (run / f".run.json.{os.getpid()}").symlink_to(precious)
    seal_run(run)
    assert precious.read_text() == "mine"
    assert open_run(run).steps.height == 26


def test_a_window_is_no_other_file(tmp_path: Path) -> None:
    """An event may name any file as its window: only those that windows are called join a trace."""
    run = Path(shutil.copytree(GOLDEN / "format-1-lines", tmp_path / "run"))
    document = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**document, "layers": {"budget": 0.03}}))
    event = {"kind": "window", "index": 0, "begin_s": 1.0, "end_s": 2.0, "cost_s": 0.1}
    text = '{"traceEvents": [{"ph": "X", "name": "PRIVATE"}],"traceName": "x"}'
    (tmp_path / "other.json").write_text(text)
    (run / "notes.json").write_text(text)
    (run / "window-0001.json").symlink_to(tmp_path / "other.json")
    with (run / "events.jsonl").open("a") as file:
        for name in ("../other.json", "notes.json", "window-0001.json", "\0", "window-\0.json"):
            file.write(json.dumps({**event, "file": name}) + "\n")
    manifest = seal_run(run)
    assert not (run / "trace.json.gz").exists()
    assert "window-0001.json is not whole and was left out of the trace" in manifest.warnings


def test_a_record_does_not_say_where_to_write(tmp_path: Path) -> None:
    document = json.loads((GOLDEN / "format-1-sealed" / "run.json").read_text())
    document["workload"]["data"] = {
        "kind": "folder", "path": "/data", "shape": [3, 8, 8], "resize": "fit",
        "classes": [*"abcdefghij"], "own_validation": False, "cache": str(tmp_path / "theirs"),
        "example_shape": [75],
    }  # fmt: skip
    read = parse_manifest(json.dumps(document), "run.json")
    workload = workload_from_record(read.workload, "run.json", str(tmp_path / "mine"))
    assert workload.data.cache == str(tmp_path / "mine" / "images")  # type: ignore[union-attr]
    workload = workload_from_record(read.workload, "run.json")
    assert "theirs" not in workload.data.cache  # type: ignore[union-attr]


def test_the_cache_is_built_through_no_link(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (tmp_path / "key.part").symlink_to(precious)
    with pytest.raises(OSError, match="symbolic"):
        _open_own(str(tmp_path / "key.part"), os.O_RDWR | os.O_CREAT)
    assert precious.read_text() == "mine"


def test_a_linked_checkpoint_is_not_found_in_a_directory(run: Path, secret: Path) -> None:
    (run / "checkpoint.safetensors").symlink_to(secret)
    with pytest.raises(RecordError, match="holds no checkpoint"):
        find_checkpoint(run)


def test_the_end_of_a_file_is_read_alone(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"x" * 100 + b"end")
    assert read_end(tmp_path / "log", 3) == (b"end", True)
    assert read_end(tmp_path / "log", 1000)[1] is False
