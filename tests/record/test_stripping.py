"""Runs stripped for others: no host, user, folder or process is left, and the figures stay."""

import getpass
import json
import socket

import polars as pl
import pytest

import trainload
from trainload.errors import RecordError
from trainload.record.stripping import HIDDEN, NO_UUID, find_private, strip_run, strip_text

SECRET = {
    "environment": {"HOME": "/home/lovelace"},
    "job": {"scheduler": "slurm", "id": "7", "name": "lovelace-secret", "group": "turing"},
    "driver": {"pid": 4242, "worker_pid": 4243},
    "warnings": [
        "cannot read /home/lovelace/data/x.csv",
        "lovelace@turing.example.org was slow",
        "10.1.2.3",
    ],
    "unknown_field": "/home/lovelace/unknown",
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cannot read /home/ada/data/x.csv: no", "cannot read x.csv: no"),
        ("--data=/srv/ada/set", "--data=set"),
        ("/proc/stat and /sys/class/hwmon", "/proc/stat and /sys/class/hwmon"),
        ("ada@turing.example.org:/home", HIDDEN),
        ("s3://bucket/ada/key", f"s3://{HIDDEN}"),
        ("at 192.168.0.17 port 22", f"at {HIDDEN} port 22"),
        ("C:\\Users\\ada\\x.py", "x.py"),
        ("~/ada/run.py", "run.py"),
        ("2.11.0+cu130, examples/s", "2.11.0+cu130, examples/s"),
        ("", ""),
    ],
)
def test_words(text, expected):
    assert strip_text(text) == expected
    assert strip_text(strip_text(text)) == strip_text(text)


def test_own_words_are_hidden_whatever_their_case():
    assert strip_text("on Turing-07 today", hide=["turing-07"]) == f"on {HIDDEN} today"
    assert strip_text("turing-070", hide=["turing-07"]) == "turing-070"


def test_a_stripped_run_keeps_its_figures_and_no_names(make_run, tmp_path):
    source = make_run(gpu=True, changes=SECRET)
    copy = strip_run(source, tmp_path / "given")
    text = (copy.path / "run.json").read_text()
    for word in ("lovelace", "turing", "/home", "4242", "unknown_field", "10.1.2.3", "GPU-1"):
        assert word not in text, word
    assert NO_UUID in text and not find_private(text)
    names = {path.name for path in copy.path.iterdir()}
    assert names == {"run.json", "steps.parquet", "epochs.parquet", "samples.parquet"}
    before, after = trainload.load(source), trainload.load(copy.path)
    assert after.summary.step_time.median_s == before.summary.step_time.median_s
    assert after.summary.peaks == before.summary.peaks
    driver, other = (r.manifest.setting.resolved.accelerators[0].driver for r in (before, after))
    assert driver == other is not None
    assert after.steps.equals(before.steps) and after.samples.height == before.samples.height
    assert all(
        dtype.is_numeric() for dtype in pl.read_parquet(copy.path / "samples.parquet").dtypes
    )


def test_a_script_keeps_its_name_and_loses_its_folders(make_run, tmp_path):
    source = make_run(script=True)
    document = json.loads((source / "run.json").read_text())
    document["workload"]["script"] |= {
        "path": "secret/project/train.py",
        "folder": "project",
        "arguments": ["--data", "inner/set", "--out=/tmp/ada/x", "--lr", "0.1"],
    }
    (source / "run.json").write_text(json.dumps(document))
    copy = strip_run(source, tmp_path / "given", hide=["project"])
    script = json.loads((copy.path / "run.json").read_text())["workload"]["script"]
    assert script["path"] == "train.py" and script["folder"] == HIDDEN
    assert script["arguments"] == ["--data", "set", "--out=x", "--lr", "0.1"]


def test_names_of_this_machine_go(make_run, tmp_path, monkeypatch):
    from trainload.record import stripping

    monkeypatch.setattr(socket, "gethostname", lambda: "h200.example")
    monkeypatch.setattr(getpass, "getuser", lambda: "lovelace")
    stripping._own_names.cache_clear()
    try:
        assert strip_text("lovelace on h200") == f"{HIDDEN} on {HIDDEN}"
        source = make_run(gpu=True, changes={"warnings": ["h200 was hot"]})
        copy = strip_run(source, tmp_path / "given").manifest
        assert copy.warnings == (f"{HIDDEN} was hot",)
        # The machine is called after its GPU, whose name stays.
        assert "H200" in copy.setting.resolved.accelerators[0].name
    finally:
        stripping._own_names.cache_clear()


def test_what_is_refused(make_run, tmp_path):
    failed = make_run(outcome="failed", reason="it broke")
    with pytest.raises(RecordError, match="completed runs alone"):
        strip_run(failed, tmp_path / "given")
    whole = make_run()
    strip_run(whole, tmp_path / "given")
    with pytest.raises(RecordError, match="exists already"):
        strip_run(whole, tmp_path / "given")
    with pytest.raises(RecordError, match="no such run"):
        strip_run(tmp_path / "nowhere", tmp_path / "other")
