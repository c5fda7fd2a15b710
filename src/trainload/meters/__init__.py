"""The meters: each reads physical quantities from one source, behind the seam in `meter`.

A source that this machine lacks is an AbsentMeter with its reason, never an error. This room
samples nothing by itself and writes no file: the run decides when to read.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib import import_module

from trainload.errors import MeterError
from trainload.meters.meter import (
    AbsentMeter,
    Meter,
    MeterContext,
    Provenance,
    Quantity,
    Value,
    available_columns,
)
from trainload.meters.tegrastats import TegrastatsReading, parse_tegrastats_line
from trainload.units import unit_of

__all__ = [
    "METERS",
    "AbsentMeter",
    "Meter",
    "MeterContext",
    "Provenance",
    "Quantity",
    "TegrastatsReading",
    "Value",
    "available_columns",
    "describe_meters",
    "open_meters",
    "parse_tegrastats_line",
]

_FILES = {
    "host_cpu": "host_cpu",
    "host_clock": "host_clock",
    "host_memory": "host_memory",
    "cgroup": "cgroup",
    "process_tree": "process_tree",
    "disk": "disk",
    "network": "network",
    "nvml": "nvml",
    "nvml_energy": "nvml_energy",
    "nvml_state": "nvml_state",
    "nvml_run": "nvml_run",
    "nvml_activity": "nvml_activity",
    "rapl": "rapl",
    "hwmon": "hwmon",
    "hwmon_temperature": "hwmon",
    "tegrastats": "tegrastats",
    "replay": "replay",
}
"""The file of each meter; `open_NAME_meter` in it opens the meter NAME."""

METERS: dict[str, Callable[[MeterContext], Meter]] = {
    name: getattr(import_module(f"trainload.meters.{file}"), f"open_{name}_meter")
    for name, file in _FILES.items()
}
"""Every meter's opener, by name."""


def open_meters(context: MeterContext, names: Sequence[str] | None = None) -> list[Meter]:
    """The named meters, present and absent; None means all, `replay` where a recording is named.

    Raises MeterError for an unknown name, and for two meters that give the same column.
    """
    unknown = [name for name in names or () if name not in METERS]
    if unknown:
        raise MeterError(f"no meter is called {', '.join(unknown)}; there are {', '.join(METERS)}")
    if names is None:
        names = [n for n in METERS if n != "replay" or context.replay_path is not None]
    meters: list[Meter] = []
    try:
        for name in names:
            meters.append(METERS[name](context))  # noqa: PERF401 - an error closes those before it
        _check_columns(meters)
    except BaseException:
        for meter in meters:
            meter.close()
        raise
    return meters


def _check_columns(meters: Sequence[Meter]) -> None:
    owner: dict[str, str] = {}
    for meter in meters:
        for column in available_columns(meter):
            if column in owner:
                raise MeterError(f"{owner[column]} and {meter.name} both give {column}")
            owner[column] = meter.name


def describe_meters(meters: Sequence[Meter]) -> list[dict[str, object]]:
    """The meters and their quantities as plain values, ready for JSON.

    `reason` is None for a meter that is there: an absent one may have no quantity to say why.
    """
    return [
        {
            "name": meter.name,
            "period_s": meter.period_s,
            "reason": meter.reason if isinstance(meter, AbsentMeter) else None,
            "quantities": [
                {**asdict(quantity), "unit": unit_of(quantity.column)}
                for quantity in meter.quantities
            ],
        }
        for meter in meters
    ]
