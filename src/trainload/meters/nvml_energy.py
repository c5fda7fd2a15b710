"""Energy counters of NVIDIA GPUs, asked as seldom as they are dear; power is in `nvml`."""

import time
from typing import Any

from trainload.meters._nvml_session import Gpu, NvmlMeter, NvmlReadings, Reading, open_nvml_session
from trainload.meters.meter import AbsentMeter, Meter, MeterContext, Quantity

_NAME = "nvml_energy"
_COST_SHARE = 0.002
"""Share of a core the counter may cost. On an H200 (driver 580) the processor spins some 4 ms in
each call, where power takes 6 µs: at ten reads a second the counter alone would take 4 %."""
_LONGEST_PERIOD_S = 5.0
_REASON = (
    "since the driver was loaded; NVML does not document how often it is updated (0.1 s seen on "
    "an H200); read as seldom as keeps its cost to 0.2 % of a core, at least every 5 s"
)


def period_for_cost_s(cost_s: float, interval_s: float) -> float:
    """Time between reads that keeps their cost to its share; never under the sampler's own."""
    return min(max(interval_s, cost_s / _COST_SHARE), max(interval_s, _LONGEST_PERIOD_S))


def open_nvml_energy_meter(context: MeterContext, library: Any = None) -> Meter:
    """The selected GPUs; absent without driver, binding or GPU. `library` stands in for pynvml."""
    session = open_nvml_session(context, _NAME, library)
    if isinstance(session, AbsentMeter):
        return session
    wanted = [_energy(session.library, gpu) for gpu in session.gpus]
    readings = NvmlReadings(session, wanted)
    start_s = time.thread_time()
    readings.read()
    cost_s = time.thread_time() - start_s
    return NvmlMeter(_NAME, period_for_cost_s(cost_s, context.interval_s), readings)


def _energy(library: Any, gpu: Gpu) -> Reading:
    call, handle = library.nvmlDeviceGetTotalEnergyConsumption, gpu.handle
    quantity = Quantity(
        column=f"gpu{gpu.index}_energy_j",
        provenance="measured",
        source="nvmlDeviceGetTotalEnergyConsumption",
        reason=_REASON,
        cumulative=True,
    )
    return Reading(quantities=(quantity,), read=lambda: (call(handle) / 1000,))
