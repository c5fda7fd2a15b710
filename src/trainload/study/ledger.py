"""The journal of a study's runs: a line when one is started, a line with its figures when it ended.

The run directories are the truth: what the journal lacks or no longer tells right is read from
them again, so that losing the journal loses time alone.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from trainload.errors import RecordError
from trainload.record import LineAppender, Run, open_run
from trainload.record.inside import LARGEST_LINES_BYTES, open_inside, split_lines
from trainload.record.layout import MANIFEST
from trainload.record.lines import parse_line
from trainload.study.trust import Findings, examine_run
from trainload_worker.protocol.checked import CheckError, build_checked

LEDGER = "ledger.jsonl"
RUNS = "runs"

Verdict = Literal["counted", "untrusted", "result", "failed", "lost"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One run that has ended, as the study sees it."""

    run: str
    """Name of its directory."""
    cell: str
    repetition: int
    outcome: str
    verdict: Verdict
    reason: str | None = None
    doubts: tuple[str, ...] = ()
    other_load_fraction: float | None = None
    duration_s: float | None = None
    bytes: int | None = None
    figures: Mapping[str, float] = field(default_factory=dict)
    mark: int = 0
    """When run.json was last changed, in nanoseconds: a run that changed is read again."""


@dataclass(frozen=True, kw_only=True)
class Start:
    """A run that was started and has not been heard of since."""

    cell: str
    repetition: int
    at_s: float
    """Wall-clock time."""


class Ledger:
    """The journal of one study, held by the process that runs it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            (folder / RUNS).mkdir(parents=True, exist_ok=True)
            self._lines = LineAppender(folder / LEDGER)
            self._append({"session": time.time()})
        except OSError as error:
            raise RecordError(f"cannot write into {folder}: {error.strerror}") from error

    def start(self, cell: str, repetition: int) -> None:
        """Note that a run begins."""
        self._append({"start": {"cell": cell, "repetition": repetition, "at_s": time.time()}})

    def lose(self, cell: str, repetition: int) -> None:
        """Note that a run went away without a record."""
        self._append({"lost": {"cell": cell, "repetition": repetition, "at_s": time.time()}})

    def finish(self, entry: Entry) -> None:
        """Note how a run ended."""
        self._append({"end": asdict(entry)})

    def refuse(self, cell: str, repetition: int, reason: str) -> Entry:
        """Note a run that could not even be started."""
        entry = Entry(
            run="",
            cell=cell,
            repetition=repetition,
            outcome="failed",
            verdict="failed",
            reason=reason,
        )
        self.finish(entry)
        return entry

    def close(self) -> None:
        """Close the file; harmless when called twice."""
        self._lines.close()

    def _append(self, line: Mapping[str, Any]) -> None:
        if not self._lines.append(line):
            raise RecordError(f"cannot write {self.folder / LEDGER}: {self._lines.last_error}")


def read_ledger(
    folder: Path, figures: Collection[str] | None = None
) -> tuple[dict[str, Entry], list[Entry], list[Start]]:
    """Ended runs by name, those that never began, and the starts without an end.

    With `figures` only those are kept, so that thousands of runs stay small in memory. Damaged
    lines are passed over: the runs that they told of are read again.
    """
    ended: dict[str, Entry] = {}
    refused: list[Entry] = []
    started: dict[tuple[str, int], Start] = {}
    for line in _lines(folder / LEDGER):
        try:
            if "session" in line:
                started.clear()  # what ran in the one before has ended with it
                continue
            if "start" in line or "lost" in line:
                told = build_checked(Start, line.get("start") or line["lost"], "")
                started[told.cell, told.repetition] = told
                if "lost" in line:
                    del started[told.cell, told.repetition]
                continue
            entry = _entry(line["end"], figures)
        except (CheckError, KeyError, TypeError):
            continue
        started.pop((entry.cell, entry.repetition), None)
        if entry.run:
            ended[entry.run] = entry
        else:
            refused.append(entry)
    return ended, refused, list(started.values())


def _entry(told: dict[str, Any], figures: Collection[str] | None) -> Entry:
    if figures is not None:
        kept = {name: told["figures"][name] for name in figures if name in told["figures"]}
        told = {**told, "figures": kept}
    # The same words in thousands of lines are kept once.
    told = {**told, **{name: sys.intern(told[name]) for name in ("cell", "outcome", "verdict")}}
    return build_checked(Entry, told, "")


def reconcile(
    folder: Path, ledger: Ledger, figures: Collection[str] | None = None
) -> tuple[list[Entry], list[str]]:
    """Every ended run of the study, and what was mended; who calls holds the study.

    Runs that the journal does not know, or that changed since, are read and judged; those whose
    driver was lost are closed by that. A folder that never became a run is removed.
    """
    known, refused, _ = read_ledger(folder, figures)
    entries, mended = list(refused), []
    for name, mark in _run_folders(folder):
        entry = known.get(name)
        if entry is not None and entry.mark == mark:
            entries.append(entry)
            continue
        path = folder / RUNS / name
        if mark is None:
            shutil.rmtree(path, ignore_errors=True)
            mended.append(f"{name}: removed, it had not become a run yet")
            continue
        try:
            entry = judge_run(open_run(path))
        except RecordError as error:
            mended.append(f"{name}: cannot be read and does not count: {error}")
            continue
        if entry is None:
            continue
        ledger.finish(entry)
        entries.append(entry)
        mended.append(f"{name}: {entry.verdict}")
    return entries, mended


def judge_run(run: Run) -> Entry | None:
    """What a run means for its study; None for one that belongs to none or still goes on."""
    manifest = run.manifest
    told, outcome = manifest.study, manifest.outcome
    if told is None or outcome is None:
        return None
    findings = Findings()
    if outcome == "completed":
        findings = examine_run(run)
    clock = manifest.clock
    length_s = None if clock is None or clock.end_s is None else clock.end_s - clock.start_s
    return Entry(
        run=run.path.name,
        cell=told.cell,
        repetition=told.repetition,
        outcome=outcome,
        verdict=_verdict(outcome, manifest.outcome_reason, findings),
        reason=manifest.outcome_reason,
        doubts=findings.doubts,
        other_load_fraction=findings.other_load_fraction,
        duration_s=length_s,
        bytes=_size_bytes(run.path),
        figures=findings.figures,
        mark=_mark(run.path) or 0,
    )


def _verdict(outcome: str, reason: str | None, findings: Findings) -> Verdict:
    if outcome == "completed":
        return "untrusted" if findings.doubts else "counted"
    if outcome in ("out_of_memory", "timed_out"):
        return "result"
    if outcome == "interrupted" or (outcome == "killed" and _was_abandoned(reason)):
        return "lost"
    return "failed"


def _was_abandoned(reason: str | None) -> bool:
    """Whether the driver died, rather than its worker."""
    return reason is not None and reason.startswith("the driver ended")


def _run_folders(folder: Path) -> Iterator[tuple[str, int | None]]:
    """Each folder under runs/ in the order of names, with the mark of its run.json."""
    try:
        with os.scandir(folder / RUNS) as found:
            names = sorted(one.name for one in found if one.is_dir(follow_symlinks=False))
    except (FileNotFoundError, NotADirectoryError):
        return
    for name in names:
        yield name, _mark(folder / RUNS / name)


def _mark(run_dir: Path) -> int | None:
    try:
        return (run_dir / MANIFEST).stat().st_mtime_ns
    except OSError:
        return None


def _size_bytes(run_dir: Path) -> int:
    with os.scandir(run_dir) as found:
        return sum(one.stat(follow_symlinks=False).st_size for one in found)


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with open_inside(path, largest_bytes=LARGEST_LINES_BYTES) as file:
            for line, _ in split_lines(file):
                value = parse_line(line) if line else None
                if isinstance(value, dict):
                    yield value
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise RecordError(f"cannot read {path}: {error.strerror}") from error
