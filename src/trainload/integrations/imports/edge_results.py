"""Tables of results as study E publishes them: a row a cell, means with deviations, no samples.

A second file with `published_energy_wh` joins by hardware configuration, framework and model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from trainload.errors import UsageError
from trainload.integrations.imports.runs import ImportedRun, ImportOptions, framework_word
from trainload.integrations.imports.source import digest_of, read_table
from trainload.integrations.imports.units import number_of, plan_column
from trainload.record import GivenFigure

KIND = "edge-results"
_KEY = ("hardware_config", "framework", "model")
_FIGURES: Mapping[str, tuple[str, str | None, float]] = {
    "total_time_s": ("duration_s", None, 1.0),
    "epoch_time_s": ("epoch_s", "epoch_time_sd_s", 1.0),
    "power_w": ("mean_power_w", "power_sd_w", 1.0),
    "loss": ("mean_loss", "loss_sd", 1.0),
    "val_accuracy": ("mean_validation_accuracy", "val_accuracy_sd", 1.0),
    "top5_accuracy": ("mean_top5_accuracy", None, 1.0),
    "published_energy_wh": ("energy_j", None, 3600.0),
}
"""Metric of each column, the column of its deviation, and what one of its unit is in ours.

Scores are means over epochs there, so they are not called as the last epoch's are here.
"""
_KNOWN = {*_KEY, *_FIGURES, *(sd for _, sd, _ in _FIGURES.values() if sd)}
_REPEATED = ("power_times_time_wh",)
"""What follows from other columns and is worked out anew."""

Key = tuple[str, ...]


def read_edge_results(paths: Sequence[Path], options: ImportOptions) -> Iterator[ImportedRun]:
    """A run for each row of the results; UsageError where a file is no such table."""
    cells: dict[Key, tuple[str, dict[str, str]]] = {}
    files = {path.name: digest_of(path) for path in paths}
    for path in paths:
        table = read_table(path)
        lacking = [name for name in _KEY if name not in table.columns]
        if lacking:
            raise UsageError(f"{path} has no column {lacking[0]}; a table of results needs it")
        seen: set[Key] = set()
        for line, row in table.rows:
            key = tuple(row.get(name, "") for name in _KEY)
            if not all(key) or key in seen:
                fault = "stands there twice" if all(key) else f"lacks one of {', '.join(_KEY)}"
                raise UsageError(f"{path}:{line}: {' '.join(key)[:80]} {fault}; mend the line")
            seen.add(key)
            place, before = cells.get(key, ("", {}))
            told = f"{path.name} line {line}"
            cells[key] = (f"{place}, {told}" if place else told, {**before, **row})
    for key, (place, row) in cells.items():
        yield _run(key, place, row, files, options)


def _run(
    key: Key, place: str, row: Mapping[str, str], files: Mapping[str, str], options: ImportOptions
) -> ImportedRun:
    setting, framework, model = key
    figures: dict[str, GivenFigure] = {}
    for column, (metric, deviation, factor) in _FIGURES.items():
        value = _figure(row, column, place)
        if value is not None:
            spread = _figure(row, deviation, place) if deviation else None
            figures[metric] = GivenFigure(value=value * factor, deviation=spread)
    labels = {"framework": framework}
    raw: list[str] = []
    for column, text in row.items():
        if column in _KNOWN or column in _REPEATED:
            continue
        value, plan = number_of(text), plan_column(column, options.units)
        if value is None:
            labels[column] = text
        elif plan.column not in figures:
            figures[plan.column] = GivenFigure(value=value * plan.factor)
            raw += [column] if plan.raw else []
    power, time_s = figures.get("mean_power_w"), figures.get("duration_s")
    if "energy_j" not in figures and power is not None and time_s is not None:
        figures["energy_j"] = GivenFigure(value=power.value * time_s.value, derived=True)
    return ImportedRun(
        kind=KIND,
        files=files,
        place=place,
        model=model,
        framework=framework_word(framework),
        setting=setting,
        config=dict(options.config),
        figures=figures,
        raw=tuple(raw),
        labels=labels,
    )


def _figure(row: Mapping[str, str], column: str, place: str) -> float | None:
    if column not in row:
        return None
    value = number_of(row[column])
    if value is None:
        raise UsageError(f"{place}: {column} is {row[column][:40]!r}, which is no number")
    return value
