"""CodeCarbon's emissions.csv: a row a run, totals without samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from trainload.errors import UsageError
from trainload.integrations.imports.runs import ImportedRun, ImportOptions, described
from trainload.integrations.imports.source import digest_of, read_table
from trainload.integrations.imports.units import number_of, plan_column
from trainload.record import GivenFigure

KIND = "codecarbon"
_KWH_J = 3.6e6
_FIGURES: Mapping[str, tuple[str, float]] = {
    "duration": ("duration_s", 1.0),
    "emissions": ("emissions_kg", 1.0),
    "emissions_rate": ("emissions_kg_per_s", 1.0),
    "energy_consumed": ("energy_j", _KWH_J),
    "cpu_energy": ("cpu_energy_j", _KWH_J),
    "gpu_energy": ("gpu_energy_j", _KWH_J),
    "ram_energy": ("ram_energy_j", _KWH_J),
    "cpu_power": ("cpu_power_w", 1.0),
    "gpu_power": ("gpu_power_w", 1.0),
    "ram_power": ("ram_power_w", 1.0),
    "cpu_count": ("cpu_count", 1.0),
    "gpu_count": ("gpu_count", 1.0),
}
"""Metric of each column and what one of its unit is in ours, as CodeCarbon documents them."""
_NEEDED = ("duration", "energy_consumed")


def read_codecarbon(paths: Sequence[Path], options: ImportOptions) -> Iterator[ImportedRun]:
    """A run for each row; UsageError where a file is none of CodeCarbon's."""
    for path in paths:
        digest = digest_of(path)
        table = read_table(path)
        lacking = [name for name in _NEEDED if name not in table.columns]
        if lacking:
            raise UsageError(f"{path} has no column {lacking[0]}; is it an emissions.csv?")
        for line, row in table.rows:
            yield _run(row, f"line {line}", {path.name: digest}, path.stem, options)


def _run(
    row: Mapping[str, str],
    place: str,
    files: Mapping[str, str],
    stem: str,
    options: ImportOptions,
) -> ImportedRun:
    figures: dict[str, GivenFigure] = {}
    labels: dict[str, str] = {}
    raw: list[str] = []
    for column, text in row.items():
        value = number_of(text)
        if value is None:
            labels[column] = text
        elif column in _FIGURES and column not in options.units:
            metric, factor = _FIGURES[column]
            figures[metric] = GivenFigure(value=value * factor)
        else:
            plan = plan_column(column, options.units)
            figures.setdefault(plan.column, GivenFigure(value=value * plan.factor))
            raw += [column] if plan.raw else []
    energy, length = figures.get("energy_j"), figures.get("duration_s")
    if energy is not None and length is not None and length.value > 0:
        mean_w = energy.value / length.value
        figures["mean_power_w"] = GivenFigure(value=mean_w, derived=True)
    told = described(options, row.get("project_name", stem))
    return ImportedRun(
        kind=KIND, files=files, place=place, **told, figures=figures, labels=labels, raw=tuple(raw)
    )
