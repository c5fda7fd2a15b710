"""SIGINT that was ignored before us, as under `nohup … &`, stays ignored; else Ctrl-C works."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from trainload.record import load_manifest

TELLS = """import os, signal, subprocess, sys
print("ignored" if signal.getsignal(signal.SIGINT) == signal.SIG_IGN else "handled", flush=True)
child = "import signal; print(signal.getsignal(signal.SIGINT) == signal.SIG_IGN, flush=True)"
subprocess.run([sys.executable, "-c", child], check=True)
if len(sys.argv) > 1:
    os.kill(os.getpid(), signal.SIGINT)
print("went on", flush=True)
"""
WAITS = """import time
print("waits", flush=True)
while True:
    time.sleep(0.05)
"""
RUN = [sys.executable, "-m", "trainload", "run", "--framework", "fake", "--no-layers"]
RUN += ["--no-check-overhead"]


def ignore() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def heed() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def outcome(folder: Path) -> str | None:
    (run_dir,) = folder.iterdir()
    return load_manifest(run_dir).outcome


@pytest.mark.parametrize(("before", "ranks"), [(ignore, 1), (ignore, 2), (heed, 1)])
def test_a_script_sees_sigint_as_without_us(tmp_path, before, ranks):
    script = tmp_path / "train.py"
    script.write_text(TELLS)
    words = ["once"] if before is ignore else []
    alone = subprocess.run(
        [sys.executable, str(script), *words], capture_output=True, text=True, preexec_fn=before
    )
    several = ["--processes", str(ranks)] if ranks > 1 else []
    ours = subprocess.run(
        [*RUN, *several, "--out", str(tmp_path / "runs"), str(script), "--", *words],
        capture_output=True, text=True, preexec_fn=before,
    )  # fmt: skip
    assert ours.returncode == alone.returncode == 0, ours.stderr
    assert alone.stdout.startswith("ignored\nTrue\n" if before is ignore else "handled\nFalse\n")
    (log,) = (tmp_path / "runs").glob("*/worker.log")
    said = log.read_text().replace("[rank 1] ", "")
    assert sorted(said.splitlines()) == sorted(alone.stdout.splitlines() * ranks)
    assert outcome(tmp_path / "runs") == "completed"


@pytest.mark.parametrize(
    ("before", "sent", "reason"),
    [(heed, signal.SIGINT, "Ctrl-C"), (heed, signal.SIGTERM, "SIGTERM"),
     (ignore, signal.SIGTERM, "SIGTERM")],
)  # fmt: skip
def test_the_driver_ends_its_script_in_good_order(tmp_path, before, sent, reason):
    script = tmp_path / "train.py"
    script.write_text(WAITS)
    driver = subprocess.Popen(
        [*RUN, "--out", str(tmp_path / "runs"), str(script)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=before,
    )  # fmt: skip
    deadline_s = time.monotonic() + 60
    while not any(p.read_text() for p in (tmp_path / "runs").glob("*/worker.log")):
        assert time.monotonic() < deadline_s and driver.poll() is None
        time.sleep(0.05)
    if before is ignore:
        os.kill(driver.pid, signal.SIGINT)
        time.sleep(0.5)
        assert driver.poll() is None, "it is ignored"
    os.kill(driver.pid, sent)
    assert driver.wait(60) == 1
    (run_dir,) = (tmp_path / "runs").iterdir()
    manifest = load_manifest(run_dir)
    assert manifest.outcome == "interrupted" and manifest.outcome_reason == reason
