"""`trainload collect` as a user meets it: on logs, on traces, and on what is neither."""

import csv
import gzip
import json
import os
import random
import subprocess
import sys

import pytest

LOG = "".join(
    f"Epoch {epoch}. Loss: 1.5, Train acc 0.25, Test acc 0.5\n"
    f"Epoch {epoch} training: err-top1=0.75 err-top5=0.25\n"
    f"Epoch {epoch} time cost: {epoch + 1}.500000\n"
    for epoch in range(4)
)
WIDE = os.environ | {"COLUMNS": "200"}


def collect(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "trainload", "collect", *map(str, arguments)],
        capture_output=True, text=True, timeout=120, **{"env": WIDE, **options},
    )  # fmt: skip


def read(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "train.log.gz"
    path.write_bytes(gzip.compress(LOG.encode()))
    return path


def test_a_log_gives_iterations_and_one_row(log, tmp_path):
    done = collect(log, "--config", "board=tx2", "--config", "batch_size=4", cwd=tmp_path)
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert "log of kind edge-evaluation: 4 rows from 12 of 12 lines" in done.stdout
    folder = tmp_path / "train-collected"
    rows = read(folder / "iterations.csv")
    assert [row["epoch_time_s"] for row in rows] == ["1.5", "2.5", "3.5", "4.5"]
    assert rows[0]["iteration"] == rows[0]["time_s"] == ""
    (row,) = read(folder / "experiment.csv")
    assert row["board"] == "tx2" and row["batch_size"] == "4" and row["validation_time_s"] == ""
    times = [row[f"time_at_{p}_percent_s"] for p in (25, 50, 75, 100)]
    assert times == ["1.5", "4.0", "7.5", "12.0"] and row["total_time_s"] == "12.0"


def test_json_says_the_same(log, tmp_path):
    found = json.loads(collect(log, "--out", tmp_path / "o", "--json").stdout)
    assert found["kind"] == "log" and found["experiment"]["total_time_s"] == 12.0
    assert found["experiment"]["validation_time_s"] is None and found["rows"] == 4
    assert [os.path.basename(name) for name in found["files"]] == [
        "iterations.csv",
        "experiment.csv",
    ]


def test_existing_files_stay_unless_forced(log, tmp_path):
    (tmp_path / "o").mkdir()
    (tmp_path / "o" / "experiment.csv").write_text("mine")
    done = collect(log, "--out", tmp_path / "o")
    assert done.returncode == 2 and "--force" in done.stderr
    assert [p.name for p in (tmp_path / "o").iterdir()] == ["experiment.csv"]
    assert collect(log, "--out", tmp_path / "o", "--force").returncode == 0
    assert (tmp_path / "o" / "experiment.csv").read_text() != "mine"


def test_patterns_of_ones_own(tmp_path):
    log, own = tmp_path / "odd.txt", tmp_path / "own.json"
    log.write_text("tick 1 took 20 ms\ntick 2 took 30 ms\n")
    refused = collect(log, "--out", tmp_path / "o")
    assert refused.returncode == 2 and "--pattern-file" in refused.stderr
    assert "tried edge-evaluation, tensorflow, huggingface" in refused.stderr
    assert not (tmp_path / "o").exists()
    expression = r"^tick (?P<iteration>\d+) took (?P<time_ms>\d+) ms"
    own.write_text(json.dumps({"name": "tick", "expressions": [expression]}))
    done = collect(log, "--out", tmp_path / "o", "--pattern-file", own)
    assert done.returncode == 0, done.stderr
    assert [row["time_s"] for row in read(tmp_path / "o" / "iterations.csv")] == ["0.02", "0.03"]


def test_wrong_input_is_one_line_and_status_2(log, tmp_path):
    binary, empty, file = tmp_path / "m.pt", tmp_path / "empty.log", tmp_path / "file"
    binary.write_bytes(random.Random(0).randbytes(5000))
    empty.write_bytes(b"")
    file.write_text("")
    for arguments, words in (
        ([tmp_path / "none.log"], "cannot read"),
        ([tmp_path], "is a folder"),
        (["/dev/null"], "is no plain file"),
        ([binary], "is binary"),
        ([empty], "is empty"),
        ([log, "--out", file], "cannot make"),
        ([log, "--out", "/proc/nowhere"], "cannot make"),
        ([log, "--pattern", "kears"], "unknown; known are edge-evaluation"),
        ([log, "--pattern", "keras"], "tried keras"),
        ([log, "--pattern-file", tmp_path / "none.json"], "cannot read pattern file"),
        ([log, "--config", "batch"], "write NAME=VALUE"),
        ([log, "--config", "a=1", "--config", "a=2"], "given twice"),
        ([log, "--config", "total_time_s=2"], "rename it"),
    ):
        done = collect(*arguments, cwd=tmp_path)
        assert done.returncode == 2 and words in done.stderr, (arguments, done.stderr)
        assert len(done.stderr.splitlines()) == 1 and not done.stdout


def test_text_of_the_log_cannot_command_the_terminal(tmp_path):
    log = tmp_path / "a.log"
    log.write_text("arch=x\nEpoch 0 time cost: 3\n")
    done = collect(log, "--out", tmp_path / "o", "--config", "name=\x1b[31mred\u202e")
    assert done.returncode == 0 and "\x1b" not in done.stdout and "\u202e" not in done.stdout


def test_a_trace_of_another_program_is_refused(tmp_path):
    path = tmp_path / "chrome.json"
    path.write_text('{"traceEvents": [{"ph": "X", "name": "paint", "ts": 1, "dur": 2, "pid": 1}]}')
    done = collect(path, "--out", tmp_path / "o")
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "o").exists()


def test_a_log_needs_no_tables_library_and_a_trace_says_that_it_does(log, tmp_path):
    code = (
        "import sys\nfor name in ('polars', 'plotly', 'numpy', 'torch'): sys.modules[name] = None\n"
        "from trainload.cli import main; main()"
    )
    trace = tmp_path / "t.json"
    trace.write_text('{"schemaVersion": 1, "traceEvents": []}')
    for path, status in ((log, 0), (trace, 2)):
        done = subprocess.run(
            [sys.executable, "-c", code, "collect", str(path), "--out", str(tmp_path / "o")],
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert done.returncode == status, done.stderr
    assert "pip install polars" in done.stderr


MAKE_TRACE = """
import sys, torch
from torch.profiler import profile, ProfilerActivity, record_function, schedule

model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(32, 64), torch.randint(0, 10, (32,))
with profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=1, warmup=1, active=4),
             with_modules=True) as p:
    for _ in range(6):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        p.step()
p.export_chrome_trace(sys.argv[1])
"""


@pytest.mark.framework("torch")
def test_a_trace_that_torch_profiler_made(tmp_path):
    pytest.importorskip("torch")
    path = tmp_path / "trace.json"
    subprocess.run(
        [sys.executable, "-c", MAKE_TRACE, str(path)], check=True, timeout=120, capture_output=True
    )
    done = collect(path, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    steps = read(tmp_path / "trace-collected" / "steps.csv")
    assert len(steps) >= 3 and {row["device"] for row in steps} == {"cpu"}
    for row in steps:
        parts = [
            float(v)
            for k, v in row.items()
            if k.endswith("_s") and k not in ("total_s", "explained_s")
        ]
        assert sum(parts) == pytest.approx(float(row["total_s"]), abs=1e-9)
    assert (tmp_path / "trace-collected" / "layers.csv").exists() and "step" in done.stdout
    found = json.loads(collect(path, "--out", tmp_path / "j", "--json").stdout)
    assert found["kind"] == "trace" and found["layers"]["ranks"][0]["device"] == "cpu"
    refused = collect(path, "--out", tmp_path / "k", "--pattern", "keras")
    assert refused.returncode == 2 and "is a trace" in refused.stderr
    cut = tmp_path / "cut.json"
    cut.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    half = collect(cut, "--out", tmp_path / "half")
    assert half.returncode == 0 and "truncated" in half.stdout, half.stderr
