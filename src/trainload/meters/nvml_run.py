"""The run's own share of NVIDIA GPUs that others may use too, once a second.

The load of the whole device is in `nvml`, the run's memory in `nvml_state`.
"""

from pathlib import Path
from typing import Any

from trainload.errors import MeterError
from trainload.meters._nvml_session import Gpu, Reading, open_gpu_readings
from trainload.meters._process_stat import is_in_tree
from trainload.meters.meter import Meter, MeterContext, Quantity, Value

_NAME = "nvml_run"
_PERIOD_S = 1.0
_LOAD_REASON = (
    "share of the driver's window in which kernels of the run ran, mean over its samples since the "
    "last reading; missing where the driver lists no process that can be seen here"
)
_OTHERS_REASON = "processes with memory on the device that do not belong to the run"


def open_nvml_run_meter(context: MeterContext, library: Any = None) -> Meter:
    """The selected GPUs; absent without driver, binding or GPU. `library` stands in for pynvml."""

    def readings_of(library: Any, gpu: Gpu) -> list[Reading]:
        return [
            _load(library, gpu, context.proc_root, context.target_pid),
            _others(library, gpu, context.proc_root, context.target_pid),
        ]

    return open_gpu_readings(context, _NAME, _PERIOD_S, library, readings_of)


def _load(library: Any, gpu: Gpu, proc_root: Path, target_pid: int | None) -> Reading:
    quantity = Quantity(
        column=f"gpu{gpu.index}_run_load_fraction",
        provenance="measured",
        source="nvmlDeviceGetProcessUtilization",
        reason=_LOAD_REASON,
        capacity=1.0,
    )
    reader = _LoadReader(library, gpu.handle, proc_root, target_pid)
    return Reading(quantities=(quantity,), read=reader.read)


class _LoadReader:
    """Asks for the samples since the last one seen."""

    def __init__(self, library: Any, handle: Any, proc_root: Path, target_pid: int | None) -> None:
        self._library, self._handle = library, handle
        self._proc_root, self._target_pid = proc_root, target_pid
        self._seen_us = 0

    def read(self) -> tuple[Value]:
        if self._target_pid is None:
            raise MeterError("no run to watch")
        if not hasattr(self._library, "nvmlDeviceGetProcessUtilization"):
            raise MeterError("this nvidia-ml-py does not tell processes apart")
        try:
            samples = self._library.nvmlDeviceGetProcessUtilization(self._handle, self._seen_us)
        except self._library.NVMLError as error:
            # Of a device on which nothing ran the driver says that it found nothing.
            missing = getattr(self._library, "NVML_ERROR_NOT_FOUND", 6)
            if getattr(error, "value", None) == missing:
                return (None,)
            raise
        self._seen_us = max([self._seen_us, *(sample.timeStamp for sample in samples)])
        seen = [s for s in samples if (self._proc_root / str(s.pid)).is_dir()]
        if not seen:
            return (None,)
        by_process: dict[int, list[int]] = {}
        for sample in seen:
            if is_in_tree(self._proc_root, sample.pid, self._target_pid):
                by_process.setdefault(sample.pid, []).append(sample.smUtil)
        return (min(sum(sum(v) / len(v) for v in by_process.values()) / 100, 1.0),)


def _others(library: Any, gpu: Gpu, proc_root: Path, target_pid: int | None) -> Reading:
    call, handle = library.nvmlDeviceGetComputeRunningProcesses, gpu.handle
    quantity = Quantity(
        column=f"gpu{gpu.index}_other_processes_count",
        provenance="measured",
        source="nvmlDeviceGetComputeRunningProcesses",
        reason=_OTHERS_REASON,
    )

    def read() -> tuple[Value]:
        if target_pid is None:
            raise MeterError("no run to watch")
        listed = call(handle)
        if not all((proc_root / str(process.pid)).is_dir() for process in listed):
            return (None,)  # numbers from outside this container: the run's own are unknown
        return (sum(not is_in_tree(proc_root, process.pid, target_pid) for process in listed),)

    return Reading(quantities=(quantity,), read=read)
