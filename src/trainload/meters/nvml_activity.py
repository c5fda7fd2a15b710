"""How busy the multiprocessors of NVIDIA GPUs are, where the driver counts it (Hopper and later).

A GPU's load says that some kernel ran: one that waits for ever, or that fills one multiprocessor
of many, is 100 % too. These are the hardware's own counters, between two readings.
"""

import time
from typing import Any

from trainload.errors import MeterError
from trainload.meters._nvml_session import Gpu, NvmlMeter, NvmlReadings, Reading, open_nvml_session
from trainload.meters.meter import AbsentMeter, Meter, MeterContext, Quantity, Value
from trainload.meters.nvml_energy import period_for_cost_s

_NAME = "nvml_activity"
_LEAST_PERIOD_S = 0.5
_METRICS = {
    "sm_active": ("SM_UTIL", "multiprocessors had at least one warp at work, mean over all"),
    "sm_occupancy": ("SM_OCCUPANCY", "warps at work, of those the multiprocessors could hold"),
    "tensor_active": ("ANY_TENSOR_UTIL", "cycles in which the tensor units worked"),
    "memory_bandwidth": ("DRAM_BW_UTIL", "bandwidth of the device's memory that was used"),
}
"""Name in the column; NVML's name; what it is the share of."""


def open_nvml_activity_meter(context: MeterContext, library: Any = None) -> Meter:
    """The selected GPUs; absent without driver, binding or GPU. `library` stands in for pynvml."""
    session = open_nvml_session(context, _NAME, library)
    if isinstance(session, AbsentMeter):
        return session
    readings = NvmlReadings(session, [_activity(session.library, gpu) for gpu in session.gpus])
    start_s = time.thread_time()
    readings.read()
    cost_s = time.thread_time() - start_s
    period_s = period_for_cost_s(cost_s, max(context.interval_s, _LEAST_PERIOD_S))
    return NvmlMeter(_NAME, period_s, readings)


def _activity(library: Any, gpu: Gpu) -> Reading:
    counters = _Counters(library, gpu.handle)
    quantities = tuple(
        Quantity(
            column=f"gpu{gpu.index}_{name}_fraction",
            provenance="measured",
            source=f"nvmlGpmMetricsGet({metric})",
            reason=f"{what}; of all processes on the device, since the last reading",
            capacity=1.0,
        )
        for name, (metric, what) in _METRICS.items()
    )
    return Reading(quantities=quantities, read=counters.read)


class _Counters:
    """Two samples of a device's counters, by turns the earlier and the later one."""

    def __init__(self, library: Any, handle: Any) -> None:
        self._library, self._handle = library, handle
        self._samples: list[Any] = []

    def read(self) -> tuple[Value, ...]:
        """The shares since the last reading; MeterError where the device does not count them."""
        if not self._samples:
            self._open()
            return (None,) * len(_METRICS)
        library = self._library
        earlier, later = self._samples
        library.nvmlGpmSampleGet(self._handle, later)
        asked = library.c_nvmlGpmMetricsGet_t()
        asked.version = library.NVML_GPM_METRICS_GET_VERSION
        asked.numMetrics = len(_METRICS)
        asked.sample1, asked.sample2 = earlier, later
        for at, (metric, _) in enumerate(_METRICS.values()):
            asked.metrics[at].metricId = getattr(library, f"NVML_GPM_METRIC_{metric}")
        library.nvmlGpmMetricsGet(asked)
        self._samples.reverse()
        return tuple(_fraction(asked.metrics[at]) for at in range(len(_METRICS)))

    def _open(self) -> None:
        library = self._library
        if not hasattr(library, "nvmlGpmQueryDeviceSupport"):
            raise MeterError("this nvidia-ml-py does not know the counters of multiprocessors")
        if not library.nvmlGpmQueryDeviceSupport(self._handle).isSupportedDevice:
            raise MeterError("this GPU's driver does not count it: Hopper and later do")
        samples = [library.nvmlGpmSampleAlloc() for _ in range(2)]
        library.nvmlGpmSampleGet(self._handle, samples[0])
        self._samples = samples


def _fraction(metric: Any) -> Value:
    """From per cent; None where the driver has no answer for this one."""
    if metric.nvmlReturn != 0 or not 0 <= metric.value <= 200:
        return None
    return min(float(metric.value) / 100, 1.0)
