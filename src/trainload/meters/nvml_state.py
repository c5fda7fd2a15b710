"""Clocks, temperature, throttling and the run's memory on NVIDIA GPUs, once a second.

What changes faster is in `nvml`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from trainload.errors import MeterError
from trainload.meters._nvml_session import Gpu, Reading, open_gpu_readings
from trainload.meters._process_stat import is_in_tree
from trainload.meters.meter import Meter, MeterContext, Quantity, Value

_NAME = "nvml_state"
_PERIOD_S = 1.0
_CLOCK_SM = 1
_CLOCK_MEMORY = 2
_TEMPERATURE_GPU = 0
_RUN_MEMORY_REASON = (
    "processes that the driver lists and that belong to the run; missing where it lists none or "
    "only process ids from outside this container"
)


def open_nvml_state_meter(context: MeterContext, library: Any = None) -> Meter:
    """The selected GPUs; absent without driver, binding or GPU. `library` stands in for pynvml."""

    def readings_of(library: Any, gpu: Gpu) -> list[Reading]:
        return [
            _clock(library, gpu, "sm", _CLOCK_SM),
            _clock(library, gpu, "memory", _CLOCK_MEMORY),
            _temperature(library, gpu),
            _throttle(library, gpu),
            _run_memory(library, gpu, context.proc_root, context.target_pid),
        ]

    return open_gpu_readings(context, _NAME, _PERIOD_S, library, readings_of)


def _clock(library: Any, gpu: Gpu, name: str, kind: int) -> Reading:
    call, handle = library.nvmlDeviceGetClockInfo, gpu.handle
    try:
        highest_hz = library.nvmlDeviceGetMaxClockInfo(handle, kind) * 1e6
    except library.NVMLError:
        highest_hz = None
    quantity = Quantity(
        column=f"gpu{gpu.index}_{name}_clock_hz",
        provenance="measured",
        source="nvmlDeviceGetClockInfo",
        capacity=highest_hz,
    )
    return Reading(quantities=(quantity,), read=lambda: (call(handle, kind) * 1_000_000,))


def _temperature(library: Any, gpu: Gpu) -> Reading:
    call, handle = library.nvmlDeviceGetTemperature, gpu.handle
    quantity = Quantity(
        column=f"gpu{gpu.index}_temperature_celsius",
        provenance="measured",
        source="nvmlDeviceGetTemperature",
    )
    return Reading(quantities=(quantity,), read=lambda: (call(handle, _TEMPERATURE_GPU),))


def _throttle(library: Any, gpu: Gpu) -> Reading:
    source = "nvmlDeviceGetCurrentClocksEventReasons"
    if not hasattr(library, source):  # its name before driver 535
        source = "nvmlDeviceGetCurrentClocksThrottleReasons"
    call, handle = getattr(library, source), gpu.handle
    quantity = Quantity(
        column=f"gpu{gpu.index}_throttle_bits",
        provenance="measured",
        source=source,
        reason="one bit for each reason why the clocks are below their maximum",
    )
    return Reading(quantities=(quantity,), read=lambda: (int(call(handle)),))


def _run_memory(library: Any, gpu: Gpu, proc_root: Path, target_pid: int | None) -> Reading:
    quantity = Quantity(
        column=f"gpu{gpu.index}_run_memory_bytes",
        provenance="measured",
        source="nvmlDeviceGetComputeRunningProcesses",
        reason=_RUN_MEMORY_REASON,
    )
    read = _run_memory_reader(library, gpu.handle, proc_root, target_pid)
    return Reading(quantities=(quantity,), read=read)


def _run_memory_reader(
    library: Any, handle: Any, proc_root: Path, target_pid: int | None
) -> Callable[[], tuple[Value]]:
    call = library.nvmlDeviceGetComputeRunningProcesses

    def read() -> tuple[Value]:
        if target_pid is None:
            raise MeterError("no run to watch")
        listed = call(handle)
        own = [process for process in listed if is_in_tree(proc_root, process.pid, target_pid)]
        if own:
            parts = [process.usedGpuMemory for process in own]
            return (None,) if None in parts else (sum(parts),)
        # Nothing of the run: zero if every listed process can be seen here, else unknown.
        if listed and all((proc_root / str(process.pid)).is_dir() for process in listed):
            return (0,)
        return (None,)

    return read
