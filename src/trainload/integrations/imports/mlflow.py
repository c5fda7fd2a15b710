"""CSV of MLflow's metric history: a row a value, with key, value and timestamp in milliseconds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from trainload.errors import UsageError
from trainload.integrations.imports.runs import ImportedRun, ImportOptions, Samples, described
from trainload.integrations.imports.series import quantity, unique_plans
from trainload.integrations.imports.source import digest_of, read_table
from trainload.integrations.imports.units import ColumnPlan, number_of, plan_column

KIND = "mlflow"
_NEEDED = ("key", "value", "timestamp")
_RUNS = ("run_id", "run_uuid", "run")
_SYSTEM = "system/"
_UNITS = {"_percentage": "%", "_megabytes": "MB", "_watts": "W"}
"""Units that MLflow writes into the names of its system metrics."""
_NAMED: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), name)
    for pattern, name in (
        (r"cpu_utilization_percentage", "host_cpu_load_fraction"),
        (r"system_memory_usage_megabytes", "host_ram_used_bytes"),
        (r"system_memory_usage_percentage", "host_ram_load_fraction"),
        (r"gpu_(\d+)_utilization_percentage", r"gpu\1_load_fraction"),
        (r"gpu_(\d+)_memory_usage_megabytes", r"gpu\1_memory_used_bytes"),
        (r"gpu_(\d+)_memory_usage_percentage", r"gpu\1_memory_used_fraction"),
        (r"gpu_(\d+)_power_usage_watts", r"gpu\1_power_w"),
    )
)
_MOST_VALUES = 5_000_000
_MOST_KEYS = 1000

History = dict[str, dict[float, float]]


def read_mlflow(paths: Sequence[Path], options: ImportOptions) -> Iterator[ImportedRun]:
    """A run for each run of the file; UsageError where it is no history of metrics."""
    for path in paths:
        digest = digest_of(path)
        for run, history in _histories(path).items():
            plans = dict(
                zip(history, unique_plans([_plan(k, options) for k in history]), strict=True)
            )
            yield ImportedRun(
                kind=KIND,
                files={path.name: digest},
                place=run or None,
                **described(options, run or path.stem),
                samples=Samples(
                    quantities=tuple(quantity(plan, path.name) for plan in plans.values()),
                    rows=_rows(history, plans),
                ),
                start_wall_s=min(min(values) for values in history.values()) / 1000,
                raw=tuple(plan.source for plan in plans.values() if plan.raw),
            )


def _histories(path: Path) -> dict[str, History]:
    table = read_table(path)
    lacking = [name for name in _NEEDED if name not in table.columns]
    if lacking:
        raise UsageError(f"{path} has no column {lacking[0]}; a metric history of MLflow has it")
    named = next((name for name in _RUNS if name in table.columns), None)
    found: dict[str, History] = {}
    for count, (line, row) in enumerate(table.rows):
        value, stamp = number_of(row.get("value", "")), number_of(row.get("timestamp", ""))
        if stamp is None or not 0 <= stamp < 1e14:
            raise UsageError(f"{path}:{line}: {row.get('timestamp', '')[:40]!r} is no time in ms")
        history = found.setdefault(row.get(named, "") if named else "", {})
        if value is not None and "key" in row:
            history.setdefault(row["key"], {})[stamp] = value
        if count > _MOST_VALUES or len(history) > _MOST_KEYS:
            raise UsageError(
                f"{path}:{line}: more than {_MOST_VALUES:,} values or {_MOST_KEYS} keys"
            )
    return {run: history for run, history in found.items() if history}


def _plan(key: str, options: ImportOptions) -> ColumnPlan:
    name = key.removeprefix(_SYSTEM)
    if key in options.units:
        return plan_column(key, options.units)
    if name == key:
        return ColumnPlan(source=key, column=plan_column(key, {}).column, raw=True)
    suffix = next((suffix for suffix in _UNITS if name.endswith(suffix)), None)
    plan = plan_column(name.removesuffix(suffix or ""), {}, _UNITS[suffix] if suffix else None)
    for pattern, ours in _NAMED:
        if pattern.fullmatch(name):
            column = pattern.sub(ours, name)
            return ColumnPlan(source=key, column=column, factor=plan.factor)
    return ColumnPlan(source=key, column=plan.column, factor=plan.factor, raw=plan.raw)


def _rows(
    history: History, plans: Mapping[str, ColumnPlan]
) -> Iterator[tuple[float, list[float | None]]]:
    stamps = sorted({stamp for values in history.values() for stamp in values})
    for stamp in stamps:
        yield (
            (stamp - stamps[0]) / 1000,
            [
                None if (value := history[key].get(stamp)) is None else value * plan.factor
                for key, plan in plans.items()
            ],
        )
