"""Study E's training logs: an epoch each three lines; with the board's tegrastats log beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from trainload.analyse.collect import LogReading, choose_for_file
from trainload.errors import UsageError
from trainload.integrations.imports.runs import ImportedRun, ImportOptions, described
from trainload.integrations.imports.source import digest_of
from trainload.integrations.imports.tegrastats import is_tegrastats, tegrastats_samples
from trainload.record import GivenFigure
from trainload_worker.protocol.outcomes import Outcome

KIND = "edge-training-log"
_PATTERN = "edge-evaluation"
_LAST = {
    "train_accuracy": "train_accuracy",
    "top1_error": "train_top1_error",
    "top5_error": "train_top5_error",
}
"""Figures of the last epoch that a record's epochs have no place for."""


def read_edge_log(paths: Sequence[Path], options: ImportOptions) -> Iterator[ImportedRun]:
    """One run of a training log and, where one is named too, the tegrastats log beside it."""
    digests = {path.name: digest_of(path) for path in paths}
    boards = [path for path in paths if is_tegrastats(path)]
    logs = [path for path in paths if path not in boards]
    if len(logs) != 1 or len(boards) > 1:
        raise UsageError(
            f"{KIND} takes one training log and at most one tegrastats log of the same run; "
            f"these are {len(logs)} and {len(boards)}"
        )
    rows, notes = _read_rows(logs[0], options)
    if not rows:
        raise UsageError(f"{logs[0]} tells no epoch ('Epoch 0. Loss: …', 'Epoch 0 time cost: …')")
    events, length_s = _events(rows, notes)
    samples = None
    if boards:
        samples, more = tegrastats_samples(boards[0], options.interval_s)
        notes += [*more, "the two logs are taken to begin at the same moment"]
    outcome, reason = _outcome(len(events), options.config)
    figures = {
        name: GivenFigure(value=value)
        for column, name in _LAST.items()
        if (value := _number(rows[-1].get(column))) is not None
    }
    yield ImportedRun(
        kind=KIND,
        files=digests,
        **described(options, logs[0].stem),
        length_s=length_s,
        events=events,
        samples=samples,
        figures=figures,
        notes=tuple(notes),
        outcome=outcome,
        outcome_reason=reason,
    )


def _read_rows(path: Path, options: ImportOptions) -> tuple[list[dict[str, Any]], list[str]]:
    choice = choose_for_file(path, forced=_PATTERN)
    with LogReading(path, choice, options.config) as reading:
        rows = [dict(row) for row in reading.rows()]
        return rows, list(reading.experiment().notes)


def _events(
    rows: Sequence[Mapping[str, Any]], notes: list[str]
) -> tuple[list[dict[str, Any]], float]:
    """An event for each epoch whose time is told, one after the other from 0."""
    events: list[dict[str, Any]] = []
    end_s, untimed = 0.0, 0
    for row in rows:
        took_s, epoch = _number(row.get("epoch_time_s")), _number(row.get("epoch"))
        if took_s is None or epoch is None or took_s < 0:
            untimed += 1
            continue
        accuracy = _number(row.get("test_accuracy"))
        events.append(
            {
                "kind": "epoch",
                "epoch": int(epoch),
                "start_s": end_s,
                "end_s": end_s + took_s,
                "steps": None,
                "train_loss": _number(row.get("loss")),
                "validation": {} if accuracy is None else {"accuracy": accuracy},
            }
        )
        end_s += took_s
    if untimed:
        notes.append(f"{untimed} epochs tell no time; left out")
    notes.append("an epoch's time holds its validation, and nobody counted its steps")
    return events, end_s


def _outcome(done: int, config: Mapping[str, str]) -> tuple[Outcome, str | None]:
    """A log that ends before the epochs that were asked for is no whole training."""
    asked = config.get("epochs", "")
    if asked.isdecimal() and done < int(asked):
        return "failed", f"the log ends after {done} of {asked} epochs"
    return "completed", None


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None
