"""CSV files of layers, steps, iterations and experiments: written whole, then put in place.

Only lays out what `analyse` has found; a missing value is an empty cell, never 0.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainload.errors import RecordError
from trainload.files import replacing

if TYPE_CHECKING:
    from trainload.analyse.attribution.types import RankLayers

LAYER_COLUMNS = (
    "iteration", "device", "rank", "root", "layer", "forward_s", "backward_s", "update_s",
    "idle_s",
)  # fmt: skip
STEP_PARTS = (
    "forward", "backward", "update", "loss", "input", "copy", "communication", "script",
    "idle: host", "idle: input", "idle: synchronise", "python", "remainder",
)  # fmt: skip
STEP_COLUMNS = (
    "iteration", "device", "rank", "total_s", "explained_s", "explained_fraction",
    *(f"{part.replace(': ', '_')}_s" for part in STEP_PARTS),
)  # fmt: skip
HOST_COLUMNS = (
    "device", "rank", "part", "what", "package", "file", "line", "function", "time_s", "samples",
)  # fmt: skip
MODEL_ITSELF = "(model)"
"""Stands for the empty path of the model itself: an empty cell says that the layer is unknown."""

_PHASES = ("forward", "backward", "update", "idle")
_NS = 1_000_000_000


def write_layers_csv(ranks: Sequence[RankLayers], path: Path, *, replace: bool = False) -> None:
    """Each layer's forward, backward, update and idle time by iteration and device, in seconds."""
    write_table(LAYER_COLUMNS, _layer_rows(ranks), path, replace=replace)


def write_steps_csv(ranks: Sequence[RankLayers], path: Path, *, replace: bool = False) -> None:
    """Each iteration's time in all, explained, and by part, in seconds."""
    write_table(STEP_COLUMNS, _step_rows(ranks), path, replace=replace)


def write_host_csv(ranks: Sequence[RankLayers], path: Path, *, replace: bool = False) -> None:
    """What the host did between operations, by place of the source, in seconds of a step."""
    rows = (
        [rank.device, rank.rank, *(getattr(one, name) for name in HOST_COLUMNS[2:])]
        for rank in ranks
        for one in rank.host
    )
    write_table(HOST_COLUMNS, rows, path, replace=replace)


def write_iterations_csv(
    columns: Sequence[str],
    rows: Iterable[Mapping[str, Any]],
    path: Path,
    *,
    replace: bool = False,
) -> None:
    """Rows of a log as they come, in any number."""
    write_table(columns, ([row.get(c) for c in columns] for row in rows), path, replace=replace)


def write_experiment_csv(row: Mapping[str, Any], path: Path, *, replace: bool = False) -> None:
    """One row: configuration, total and validation time, time at 25, 50, 75 and 100 %."""
    write_table(tuple(row), [list(row.values())], path, replace=replace)


def check_free(paths: Iterable[Path], *, replace: bool = False) -> None:
    """An error where a file would be overwritten that nobody asked to overwrite."""
    for path in paths:
        if path.is_dir():
            raise RecordError(f"cannot write {path}: it is a folder")
        if not replace and path.exists():
            raise RecordError(f"{path} exists; choose another --out, or replace it with --force")


def write_table(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], path: Path, *, replace: bool = False
) -> None:
    """Write a CSV file beside its place and swap it in; nothing is left of a failed one."""
    check_free([path], replace=replace)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            text = io.TextIOWrapper(file, "utf-8", newline="")
            try:
                writer = csv.writer(text, lineterminator="\n")
                writer.writerow(columns)
                writer.writerows([_cell(value) for value in row] for row in rows)
            finally:
                text.detach()  # the file is closed by who opened it
    except OSError as error:
        raise RecordError(f"cannot write {path}: {error.strerror or error}") from error


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        # A lone surrogate, as JSON may hold one, cannot be written as UTF-8.
        return value.encode("utf-8", "replace").decode("utf-8")
    return value


def _layer_rows(ranks: Sequence[RankLayers]) -> Iterable[list[Any]]:
    for rank in ranks:
        places = {(node.root, node.layer): index for index, node in enumerate(rank.nodes)}
        times: dict[tuple[int, int], dict[tuple[Any, Any], list[int]]] = {}
        unshared: set[str] = set()
        for row in rank.rows.iter_rows(named=True):
            phase = _layer_phase(row)
            if phase is None:
                continue
            if row["layer"] is None:
                unshared.add(phase)
            layers = times.setdefault((row["step"], row["window"]), {})
            sums = layers.setdefault((row["root"], row["layer"]), [0] * len(_PHASES))
            sums[_PHASES.index(phase)] += round(row["time_s"] * _NS)
        for (step, _), layers in sorted(times.items()):
            ordered = sorted(layers, key=lambda layer: places.get(layer, len(places)))
            for root, layer in ordered:
                name = MODEL_ITSELF if layer == "" else layer
                seconds = [ns / _NS for ns in layers[root, layer]]
                yield [step, rank.device, rank.rank, root, name, *_known(seconds, layer, unshared)]


def _known(seconds: list[float], layer: str | None, unshared: set[str]) -> list[float | None]:
    """A layer's times by phase; None where the time of that phase could not be shared out.

    What is not shared out stands in a row without a layer, which knows of no other phase.
    """
    return [
        None if not time and (layer is None or phase in unshared) else time
        for phase, time in zip(_PHASES, seconds, strict=True)
    ]


def _layer_phase(row: Mapping[str, Any]) -> str | None:
    """The column a part of a step goes to; None for what belongs to no layer."""
    if row["kind"] == "layer":
        return str(row["phase"])
    return "idle" if row["kind"] == "idle" and row["layer"] is not None else None


def _step_rows(ranks: Sequence[RankLayers]) -> Iterable[list[Any]]:
    for rank in ranks:
        steps: dict[tuple[int, int], dict[str, int]] = {}
        for row in rank.rows.iter_rows(named=True):
            parts = steps.setdefault((row["step"], row["window"]), dict.fromkeys(STEP_PARTS, 0))
            parts[_part(row)] += round(row["time_s"] * _NS)
        for (step, _), parts in sorted(steps.items()):
            total = sum(parts.values())
            explained = total - parts["remainder"]
            fraction = explained / total if total else None
            seconds = [ns / _NS for ns in parts.values()]
            yield [step, rank.device, rank.rank, total / _NS, explained / _NS, fraction, *seconds]


def _part(row: Mapping[str, Any]) -> str:
    if row["kind"] == "layer":
        return str(row["phase"])
    return f"idle: {row['cause']}" if row["kind"] == "idle" else str(row["kind"])
