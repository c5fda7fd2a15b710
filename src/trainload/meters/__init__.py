"""The meters: each reads physical quantities from one source, behind the seam in `meter`.

A source that this machine lacks is an AbsentMeter with its reason, never an error. This room
samples nothing by itself and writes no file: the run decides when to read.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict

from trainload.errors import MeterError
from trainload.meters.cgroup import open_cgroup_meter
from trainload.meters.disk import open_disk_meter
from trainload.meters.host_clock import open_host_clock_meter
from trainload.meters.host_cpu import open_host_cpu_meter
from trainload.meters.host_memory import open_host_memory_meter
from trainload.meters.hwmon import open_hwmon_meter, open_hwmon_temperature_meter
from trainload.meters.meter import (
    AbsentMeter,
    Meter,
    MeterContext,
    Provenance,
    Quantity,
    Value,
    available_columns,
)
from trainload.meters.network import open_network_meter
from trainload.meters.nvml import open_nvml_meter
from trainload.meters.nvml_energy import open_nvml_energy_meter
from trainload.meters.nvml_state import open_nvml_state_meter
from trainload.meters.process_tree import open_process_tree_meter
from trainload.meters.rapl import open_rapl_meter
from trainload.meters.replay import open_replay_meter
from trainload.meters.tegrastats import (
    TegrastatsReading,
    open_tegrastats_meter,
    parse_tegrastats_line,
)
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

METERS: dict[str, Callable[[MeterContext], Meter]] = {
    "host_cpu": open_host_cpu_meter,
    "host_clock": open_host_clock_meter,
    "host_memory": open_host_memory_meter,
    "cgroup": open_cgroup_meter,
    "process_tree": open_process_tree_meter,
    "disk": open_disk_meter,
    "network": open_network_meter,
    "nvml": open_nvml_meter,
    "nvml_energy": open_nvml_energy_meter,
    "nvml_state": open_nvml_state_meter,
    "rapl": open_rapl_meter,
    "hwmon": open_hwmon_meter,
    "hwmon_temperature": open_hwmon_temperature_meter,
    "tegrastats": open_tegrastats_meter,
    "replay": open_replay_meter,
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
