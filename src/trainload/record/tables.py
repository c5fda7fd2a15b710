"""Appended lines as columns: the steps, epochs and samples of a run as polars frames.

Times in tables are seconds since the run's start. Polars is imported when a table is made.
"""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainload.errors import MissingPart, RecordError
from trainload.record.inside import LARGEST_LINES_BYTES, open_inside, split_lines
from trainload.record.lines import is_number, parse_line, read_events
from trainload_worker.protocol.events import EpochDone, StepMarks, StepsDone

if TYPE_CHECKING:
    import polars as pl

SAMPLE_HEAD = ("tick", "t_s", "read_s", "sampler_cpu_s")
"""The first columns of every samples table; the meters' columns follow."""


_ROWS_AT_ONCE = 20_000


def require_polars() -> None:
    """MissingPart, with the command that mends it, where polars is not installed."""
    if importlib.util.find_spec("polars") is None:
        raise MissingPart("reading tables needs polars, which is not installed; pip install polars")


def step_tables(events_path: Path, start_s: float) -> tuple[pl.DataFrame, pl.DataFrame, int]:
    """Steps and epochs of an events file, and how many of its lines are damaged.

    Steps that backward passes ended count only where no optimizer stepped after them: one table
    holds one kind.
    """
    require_polars()
    events, damaged = read_events(events_path)
    steps: dict[str, list[Any]] = {
        name: [] for name in ("step", "epoch", "start_s", "end_s", "loss", "examples", "tokens")
    }
    epochs: list[dict[str, Any]] = []
    for event in events:
        if isinstance(event, StepsDone):
            damaged += not _add_steps(steps, event, start_s)
        elif isinstance(event, StepMarks) and event.by == "optimizer":
            for column in steps.values():
                column.clear()
        elif isinstance(event, EpochDone):
            epochs.append(_epoch_row(event, start_s))
    return _steps_frame(steps), _epochs_frame(epochs), damaged


def _add_steps(steps: dict[str, list[Any]], event: StepsDone, start_s: float) -> bool:
    count = len(event.end_s)
    if len(event.loss) != count or any(
        len(counts) not in (0, count) for counts in (event.examples, event.tokens)
    ):
        return False
    relative = [end - start_s for end in event.end_s]
    steps["step"] += range(event.first_step, event.first_step + count)
    steps["epoch"] += [event.epoch] * count
    steps["start_s"] += [event.start_s - start_s, *relative[:-1]] if count else []
    steps["end_s"] += relative
    steps["loss"] += event.loss
    steps["examples"] += event.examples or [None] * count
    steps["tokens"] += event.tokens or [None] * count
    return True


def _steps_frame(steps: dict[str, list[Any]]) -> pl.DataFrame:
    import polars as pl

    schema = {
        "step": pl.Int64,
        "epoch": pl.Int64,
        "start_s": pl.Float64,
        "end_s": pl.Float64,
        "loss": pl.Float64,
        "examples": pl.Int64,
        "tokens": pl.Int64,
    }
    frame = pl.DataFrame(steps, schema=schema, strict=False)
    return frame.select(
        "step",
        "epoch",
        "start_s",
        "end_s",
        (pl.col("end_s") - pl.col("start_s")).alias("step_s"),
        "loss",
        "examples",
        "tokens",
    )


EPOCH_METRICS = ("loss", "accuracy", "f1_weighted", "f1_macro", "top5_accuracy")


def _epoch_row(event: EpochDone, start_s: float) -> dict[str, Any]:
    begin_s, end_s = event.validation_start_s, event.validation_end_s
    metrics = event.validation
    return {
        "epoch": event.epoch,
        "start_s": event.start_s - start_s,
        "end_s": event.end_s - start_s,
        "train_s": event.end_s - event.start_s,
        "validation_s": None if begin_s is None or end_s is None else end_s - begin_s,
        "steps": event.steps,
        "train_loss": event.train_loss,
        "input_wait_s": event.input_wait_s,
        **{f"validation_{m}": _number_or_none(metrics.get(m)) for m in EPOCH_METRICS},
        **{f"validation_{m}": value for m, value in _top_scores(metrics.get("top_n")).items()},
    }


def _top_scores(scores: Any) -> dict[str, float | None]:
    """The top-n accuracies that a run was asked for, by name; top5's is counted in any run."""
    if not isinstance(scores, Mapping):
        return {}
    asked = sorted(int(n) for n in scores if isinstance(n, str) and n.isdecimal() and len(n) < 10)
    return {f"top{n}_accuracy": _number_or_none(scores.get(str(n))) for n in asked}


def _epochs_frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    import polars as pl

    schema = {
        "epoch": pl.Int64,
        "start_s": pl.Float64,
        "end_s": pl.Float64,
        "train_s": pl.Float64,
        "validation_s": pl.Float64,
        "steps": pl.Int64,
        "train_loss": pl.Float64,
        "input_wait_s": pl.Float64,
        **{f"validation_{metric}": pl.Float64 for metric in EPOCH_METRICS},
        **{name: pl.Float64 for row in rows for name in row if name.startswith("validation_")},
    }
    return pl.DataFrame(rows, schema=schema, orient="row", strict=False)


def sample_table(samples_path: Path, start_s: float) -> tuple[pl.DataFrame, int]:
    """Samples of a file, and how many of its lines are damaged.

    A restarted sampler writes a new header; its rows join the same table.
    """
    require_polars()
    import polars as pl

    frames, damaged = [], 0
    columns: list[str] | None = None
    rows: list[bytes] = []

    def flush() -> int:
        """Turn the rows so far into a frame; how many were damaged."""
        frame, bad = _rows_frame(columns or [], rows)
        frames.append(frame)
        rows.clear()
        return bad

    try:
        with open_inside(samples_path, largest_bytes=LARGEST_LINES_BYTES) as file:
            end = 0
            for line, after in split_lines(file):
                end = after
                if line is None:
                    damaged += 1
                elif line.startswith(b"["):
                    if columns is None:
                        damaged += 1
                        continue
                    rows.append(line)
                    if len(rows) >= _ROWS_AT_ONCE:
                        damaged += flush()
                elif line:
                    value = parse_line(line)
                    if not isinstance(value, dict):
                        damaged += 1
                    elif is_header(value):
                        damaged += flush() if columns is not None else 0
                        columns = value["columns"]
            damaged += file.tell() > end
    except FileNotFoundError:
        pass  # a run that was never sampled
    except OSError as error:
        raise RecordError(f"cannot read {samples_path}: {error.strerror}") from error
    if columns is not None:
        damaged += flush()
    if not frames:
        return pl.DataFrame(schema=dict.fromkeys(SAMPLE_HEAD, pl.Float64)), damaged
    table = pl.concat(frames, how="diagonal").with_columns(pl.col("t_s") - start_s)
    return table, damaged


def is_header(value: Mapping[str, Any]) -> bool:
    """Whether a line of samples names their columns."""
    columns = value.get("columns")
    return (
        isinstance(columns, list)
        and all(isinstance(c, str) for c in columns)
        and tuple(columns[: len(SAMPLE_HEAD)]) == SAMPLE_HEAD
        and len(set(columns)) == len(columns)
    )


def _rows_frame(columns: list[str], rows: list[bytes]) -> tuple[pl.DataFrame, int]:
    """Rows as a frame of floats: through polars' CSV reader when all are sound, else one by one."""
    import polars as pl

    commas = len(columns) - 1
    sound = [r[1:-1] for r in rows if r.endswith(b"]") and r.count(b",") == commas]
    schema = dict.fromkeys(columns, pl.Float64)
    if not sound:
        return pl.DataFrame(schema=schema), len(rows)
    try:
        frame = pl.read_csv(
            io.BytesIO(b"\n".join(sound)),
            has_header=False,
            schema=schema,
            null_values="null",
            quote_char=None,
        )
        return frame, len(rows) - len(sound)
    except pl.exceptions.PolarsError:
        values = [v for v in map(parse_line, rows) if _is_row(v, len(columns))]
        return pl.DataFrame(values, schema=schema, orient="row", strict=False), len(rows) - len(
            values
        )


def _is_row(value: Any, length: int) -> bool:
    return (
        isinstance(value, list)
        and len(value) == length
        and all(v is None or is_number(v) for v in value)
    )


def _number_or_none(value: Any) -> float | None:
    return float(value) if is_number(value) else None
