"""CSV of `nvidia-smi --query-gpu=… --format=csv -l`: units stand in the names of its columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from trainload.errors import UsageError
from trainload.integrations.imports.runs import ImportedRun, ImportOptions, Samples, described
from trainload.integrations.imports.series import quantity, wall_time_s
from trainload.integrations.imports.source import Table, digest_of, read_table
from trainload.integrations.imports.units import (
    ColumnPlan,
    is_unit,
    number_of,
    plan_column,
    slug,
)

KIND = "nvidia-smi"
_NAMED: Mapping[str, str] = {
    "utilization.gpu": "load_fraction",
    "utilization.memory": "memory_load_fraction",
    "memory.used": "memory_used_bytes",
    "memory.total": "memory_total_bytes",
    "power.draw": "power_w",
    "temperature.gpu": "temperature_celsius",
    "clocks.sm": "sm_clock_hz",
    "clocks.current.sm": "sm_clock_hz",
    "clocks.mem": "memory_clock_hz",
    "clocks.current.memory": "memory_clock_hz",
}
"""Columns that trainload's own meter of NVIDIA GPUs gives under these names."""
_OWN_UNITS = {"temperature.gpu": "C", "temperature.memory": "C"}
"""Units that nvidia-smi's manual states and its header does not."""
_HEADED = re.compile(r"(?P<name>[^\[\]]+?) ?\[(?P<unit>[^\[\]]+)\]")
_LABELS = ("name", "uuid", "gpu_uuid", "driver_version", "pci.bus_id", "gpu_name", "pstate")
_MOST_GPUS = 64


def read_smi(paths: Sequence[Path], options: ImportOptions) -> Iterator[ImportedRun]:
    """A run for each file; UsageError where it has no line of column names or no times."""
    for path in paths:
        digest = digest_of(path)
        table = read_table(path)
        if "timestamp" not in table.columns and options.interval_s is None:
            raise UsageError(
                f"{path} has no column timestamp; query it too, or say --interval SECONDS"
            )
        if not any(_HEADED.fullmatch(name) or name in _NAMED for name in table.columns):
            raise UsageError(f"{path} names no column of nvidia-smi; leave out its noheader")
        gpus, labels = _survey(table)
        plans = {gpu: _plans(table.columns, gpu, options) for gpu in gpus}
        flat = [plan for gpu in gpus for plan in plans[gpu].values()]
        yield ImportedRun(
            kind=KIND,
            files={path.name: digest},
            **described(options, path.stem),
            samples=Samples(
                quantities=tuple(quantity(plan, path.name) for plan in flat),
                rows=_rows(path, plans, options.interval_s),
            ),
            raw=tuple(dict.fromkeys(plan.source for plan in flat if plan.raw)),
            labels=labels,
        )


def _survey(table: Table) -> tuple[list[str], dict[str, str]]:
    """The GPUs of a file in the order they come, and what it says of them in words."""
    gpus: dict[str, None] = {}
    labels: dict[str, str] = {}
    for line, row in table.rows:
        gpu = row.get("index", "0")
        if not re.fullmatch(r"\d{1,4}", gpu):
            raise UsageError(f"{table.path}:{line}: the index of a GPU is {gpu[:40]!r}")
        gpus[gpu] = None
        labels.update((f"gpu{gpu} {name}", row[name]) for name in _LABELS if name in row)
        if len(gpus) > _MOST_GPUS:
            raise UsageError(f"{table.path}:{line}: over {_MOST_GPUS} GPUs in one file")
    if not gpus:
        raise UsageError(f"{table.path} holds no readings")
    return list(gpus), labels


def _plans(columns: Sequence[str], gpu: str, options: ImportOptions) -> dict[str, ColumnPlan]:
    found: dict[str, ColumnPlan] = {}
    for header in columns:
        if header in ("timestamp", "index", *_LABELS):
            continue
        match = _HEADED.fullmatch(header)
        name = match["name"] if match else header
        told = match["unit"] if match else _OWN_UNITS.get(name)
        unit = told if told is not None and is_unit(told) else None
        asked = options.units.get(header) or options.units.get(name)
        plan = plan_column(name, {}, asked or unit)
        known = _NAMED.get(name)
        column = f"gpu{gpu}_{plan.column if known is None or plan.raw else known}"
        found[header] = ColumnPlan(source=header, column=column, factor=plan.factor, raw=plan.raw)
    names = [plan.column for plan in found.values()]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"two columns of {KIND} mean {slug(twice)}; leave one out")
    return found


def _rows(
    path: Path, plans: Mapping[str, Mapping[str, ColumnPlan]], interval_s: float | None
) -> Iterator[tuple[float, list[float | None]]]:
    """Lines joined to samples: one begins where a GPU comes again."""
    width = [(gpu, header) for gpu, mine in plans.items() for header in mine]
    first_s: float | None = None
    number, t_s = 0, 0.0
    seen: dict[str, dict[str, str]] = {}

    def values() -> list[float | None]:
        told = []
        for gpu, header in width:
            value = _reading(seen.get(gpu, {}).get(header))
            told.append(None if value is None else value * plans[gpu][header].factor)
        return told

    for line, row in read_table(path).rows:
        gpu = row.get("index", "0")
        if gpu in seen:
            yield t_s, values()
            seen, number = {}, number + 1
        if not seen and interval_s is not None:
            t_s = number * interval_s
        elif not seen:
            now_s = wall_time_s(row.get("timestamp", ""))
            if now_s is None:
                raise UsageError(f"{path}:{line}: {row.get('timestamp', '')[:40]!r} is no time")
            first_s = now_s if first_s is None else first_s
            t_s = now_s - first_s
        seen[gpu] = row
    if seen:
        yield t_s, values()


def _reading(text: str | None) -> float | None:
    """A cell without its unit; `[N/A]` and `[Not Supported]` are missing."""
    return None if text is None else number_of(text.partition(" ")[0])
