"""Hostile scripts by plain Python and under `trainload run`: same exit, output, losses and files.

The scripts stand in tests/hostile/scripts; the first line of each says what it does. One whose line
begins with `torch:` trains with torch, the others have a framework that does nothing.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from chaos_parts.tally import Tally

SCRIPTS = Path(__file__).resolve().parents[2] / "tests" / "hostile" / "scripts"
LIMIT_S = 120.0
SHOWN, QUIET = "shown", "quiet"
"""What a script prints goes to our own streams, or into its log alone beside a JSON document."""

_OURS = ("trainload_worker/", "/trainload/")
# Where an object lies and how deep Python went is otherwise each time.
_CHANCE = re.compile(rb"0x[0-9a-f]{6,}|repeated \d+ more times|refcount : \d+")


@dataclass(frozen=True, kw_only=True)
class Ran:
    """What came of one process; the files are those of the folder it was started in."""

    status: int
    stdout: bytes
    stderr: bytes
    files: dict[str, bytes]
    peak_mb: float


def count_scripts() -> int:
    """How many there are."""
    return sum(1 for _ in SCRIPTS.glob("*.py"))


def run(minutes: float, seed: int, count: int | None = None) -> Tally:
    """Every script with its words shown, then quiet, in an order by chance, while there is time.

    At most `count` of them.
    """
    tally = Tally(part="scripts")
    until_s = time.monotonic() + 60 * minutes
    draw = random.Random(seed)
    while True:
        for mode in (SHOWN, QUIET):
            scripts = sorted(SCRIPTS.glob("*.py"))
            draw.shuffle(scripts)
            for script in scripts:
                if time.monotonic() >= until_s or tally.trials == count:
                    return tally
                with tempfile.TemporaryDirectory() as folder:
                    try_script(script, mode, Path(folder), tally)


def try_script(script: Path, mode: str, folder: Path, tally: Tally) -> None:
    """One script both ways; what differs goes into the tally."""
    tally.trials += 1
    name = f"{script.stem} ({mode})"
    torch = "torch:" in script.read_text("latin-1").partition("\n")[0]
    words = ["--framework", "torch" if torch else "fake", "--no-check-overhead"]
    words += ["--layers" if torch and mode == QUIET else "--no-layers"]
    words += ["--out", str(folder / "runs"), *(["--json"] if mode == QUIET else [])]
    try:
        alone = start([str(script), "first", "sécond"], folder / "alone")
        ours = start(
            ["-m", "trainload", "run", *words, str(script), "--", "first", "sécond"],
            folder / "ours",
        )
    except subprocess.TimeoutExpired:
        tally.complain("hangs", name)
        return
    if not torch:
        tally.see_peak(ours.peak_mb)
    for defect, what in compare(alone, ours, mode, folder / "runs"):
        tally.complain(defect, f"{name}: {what}")


def start(words: Sequence[str], folder: Path) -> Ran:
    """Python with these words in a new folder; TimeoutExpired where it does not end."""
    folder.mkdir()
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "1"}
    process = subprocess.Popen(
        [sys.executable, *words],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None and process.stderr is not None
    with process.stdout, process.stderr, ThreadPoolExecutor(2) as pool:
        out, err = pool.submit(process.stdout.read), pool.submit(process.stderr.read)
        deadline_s = time.monotonic() + LIMIT_S
        while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
            if time.monotonic() > deadline_s:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                raise subprocess.TimeoutExpired(list(words), LIMIT_S)
            time.sleep(0.01)
        process.returncode = os.waitstatus_to_exitcode(ended[1])
        return Ran(
            status=process.returncode,
            stdout=_CHANCE.sub(b"?", out.result()),
            stderr=_CHANCE.sub(b"?", err.result()),
            files={p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()},
            peak_mb=ended[2].ru_maxrss / 1024,
        )


def compare(alone: Ran, ours: Ran, mode: str, runs: Path) -> list[tuple[str, str]]:
    """What is otherwise under trainload than without it, as defects of a tally."""
    found = []
    logs = list(runs.glob("*/worker.log"))
    log = _CHANCE.sub(b"?", logs[0].read_bytes()) if logs else b""
    text = (ours.stderr + log).decode("utf-8", "replace")
    if (
        any(
            line.lstrip().startswith("File ") and any(o in line for o in _OURS)
            for line in text.splitlines()
        )
        and alone.status >= 0
    ):
        found.append(("tracebacks", text[-600:]))
    if ours.status != (0 if alone.status == 0 else 1):
        said = ours.stderr.decode("utf-8", "replace")[-300:]
        found.append(
            ("runs_lost", f"Python ends with {alone.status}, we with {ours.status} {said}")
        )
    if alone.files != ours.files:
        differ = [
            n for n in {**alone.files, **ours.files} if alone.files.get(n) != ours.files.get(n)
        ]
        found.append(("touched_outside", f"its own files differ: {sorted(differ)}"))
    found += [("runs_lost", words) for words in _compare_output(alone, ours, mode, log)]
    return found + _read_back(alone, ours, mode, runs)


def _compare_output(alone: Ran, ours: Ran, mode: str, log: bytes) -> list[str]:
    """Standard output as it was; errors too, unless Python itself was killed while it spoke."""
    told = []
    if mode == SHOWN:
        if not ours.stdout.startswith(alone.stdout):
            told.append(f"printed {ours.stdout[:200]!r} for {alone.stdout[:200]!r}")
        if alone.status >= 0 and alone.stderr not in ours.stderr:
            told.append(f"errors {ours.stderr[-400:]!r} for {alone.stderr[-400:]!r}")
    wanted = alone.stdout + (alone.stderr if alone.status >= 0 else b"")
    # Two streams may meet in the middle of a line: the same bytes in another order.
    lacking = Counter(wanted) - Counter(log)
    if lacking:
        told.append(f"its log lacks {lacking.total()} bytes of {wanted[-200:]!r}")
    return told


def _read_back(alone: Ran, ours: Ran, mode: str, runs: Path) -> list[tuple[str, str]]:
    """The record says what Python's status says, and reads as JSON."""
    found = list(runs.glob("*/run.json"))
    if len(found) != 1:
        return [("runs_lost", f"{len(found)} records")]
    try:
        outcome = json.loads(found[0].read_text(encoding="utf-8"))["outcome"]
        shown = json.loads(ours.stdout)["outcome"] if mode == QUIET else outcome
    except ValueError as error:
        return [("invalid_json", f"{error}: {ours.stdout[:200]!r}")]
    if shown != outcome or (outcome == "completed") != (alone.status == 0) or outcome is None:
        return [("runs_lost", f"Python ends with {alone.status}, the record says {outcome}")]
    return []
