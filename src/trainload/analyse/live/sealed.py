"""A run that has ended, as a live view shows it: its tables thinned into the same curves.

Needs polars, as every reading of sealed tables does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainload.analyse.live.channels import choose_columns
from trainload.analyse.live.curve import MOST_POINTS
from trainload.analyse.live.state import LiveState
from trainload.record import SAMPLE_HEAD, Run

if TYPE_CHECKING:
    import polars as pl

MOST_ROWS = 20_000
"""Of a table that are looked at: evenly over the run."""


def state_of_tables(run: Run) -> LiveState:
    """All that a live view shows of a run whose lines have become tables."""
    state = LiveState(run.manifest)
    _take_steps(state, run.steps)
    for row in run.epochs.iter_rows(named=True):
        scores = {"loss": row["validation_loss"], "accuracy": row["validation_accuracy"]}
        if row["end_s"] is not None:
            state.add_validation(row["end_s"], scores)
    columns = [quantity.column for meter in run.manifest.meters for quantity in meter.quantities]
    drawn = [name for names in choose_columns(columns).values() for name in names]
    samples = _thinned(run.samples_of(drawn))
    origin_s, empty = run.manifest.origin_s, [None] * (len(SAMPLE_HEAD) - 2)
    found = [name for name in samples.columns if name != "t_s"]
    rows = [[None, t_s + origin_s, *empty, *values] for t_s, *values in samples.iter_rows()]
    state.take_samples([*SAMPLE_HEAD, *found], rows)
    for mark in run.manifest.marks:
        state.add_mark(mark.t_s, mark.words)
    return state


def _take_steps(state: LiveState, steps: pl.DataFrame) -> None:
    if steps.is_empty():
        return
    for t_s, loss in _thinned(steps.select("end_s", "loss")).iter_rows():
        state.add("loss", t_s, loss)
    size = max(1, steps.height // MOST_POINTS)
    for piece in steps.iter_slices(size):
        start_s, end_s = piece["start_s"][0], piece["end_s"][-1]
        if end_s > start_s:
            state.add("steps_per_s", (start_s + end_s) / 2, piece.height / (end_s - start_s))
    last = steps.row(-1, named=True)
    state.add_steps(last["epoch"], last["step"] + 1, steps["start_s"][0], last["end_s"])


def _thinned(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.gather_every(max(1, frame.height // MOST_ROWS))
