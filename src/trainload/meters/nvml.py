"""Load, memory and power of NVIDIA GPUs at every sample.

What changes slowly is in `nvml_state`, what is dear to ask in `nvml_energy`.
"""

from collections.abc import Callable
from typing import Any

from trainload.errors import MeterError
from trainload.meters._nvml_session import Gpu, Reading, open_gpu_readings
from trainload.meters.meter import Meter, MeterContext, Quantity, Value

_NAME = "nvml"
_WINDOW_REASON = (
    "share of the driver's window in which {what}; the window lasts between 1/6 s and 1 s by "
    "product, so that faster reads repeat a value"
)
_AVERAGE_REASON = "Ampere (but not GA100) and later average it over 1 s; earlier ones do not"


def open_nvml_meter(context: MeterContext, library: Any = None) -> Meter:
    """The selected GPUs; absent without driver, binding or GPU. `library` stands in for pynvml."""

    def readings_of(library: Any, gpu: Gpu) -> list[Reading]:
        return [_utilisation(library, gpu), _memory(library, gpu), _power(library, gpu)]

    return open_gpu_readings(context, _NAME, 0.0, library, readings_of)


def _utilisation(library: Any, gpu: Gpu) -> Reading:
    call, handle = library.nvmlDeviceGetUtilizationRates, gpu.handle

    def read() -> tuple[Value, Value]:
        rates = call(handle)
        return rates.gpu / 100, rates.memory / 100

    whats = {
        "load": "at least one kernel ran",
        "memory_busy": "device memory was being read or written",
    }
    return Reading(
        quantities=tuple(
            Quantity(
                column=f"gpu{gpu.index}_{name}_fraction",
                provenance="measured",
                source="nvmlDeviceGetUtilizationRates",
                reason=_WINDOW_REASON.format(what=what),
                capacity=1.0,
            )
            for name, what in whats.items()
        ),
        read=read,
    )


def _memory(library: Any, gpu: Gpu) -> Reading:
    call, handle = library.nvmlDeviceGetMemoryInfo, gpu.handle

    def read() -> tuple[Value, Value]:
        info = call(handle)
        return info.used, info.used / info.total if info.total else None

    try:
        total = float(call(handle).total)
    except library.NVMLError:
        total = None
    return Reading(
        quantities=(
            Quantity(
                column=f"gpu{gpu.index}_memory_used_bytes",
                provenance="measured",
                source="nvmlDeviceGetMemoryInfo",
                reason="of all processes on the device, the driver's own reserve included",
                capacity=total,
            ),
            Quantity(
                column=f"gpu{gpu.index}_memory_used_fraction",
                provenance="derived",
                source="nvmlDeviceGetMemoryInfo",
                reason="used over total",
                capacity=1.0,
            ),
        ),
        read=read,
    )


def _instant_power_w(library: Any, handle: Any) -> Callable[[], float]:
    """A reader of the instantaneous power; it raises MeterError where that is not supported."""
    field_id = getattr(library, "NVML_FI_DEV_POWER_INSTANT", None)
    call = getattr(library, "nvmlDeviceGetFieldValues", None)

    def read() -> float:
        if field_id is None or call is None:
            raise MeterError("this nvidia-ml-py does not know the instantaneous power")
        field = call(handle, [field_id])[0]
        if field.nvmlReturn != 0:
            raise MeterError(f"the driver answers {field.nvmlReturn} for the instantaneous power")
        return float(field.value.uiVal) / 1000

    return read


def _power(library: Any, gpu: Gpu) -> Reading:
    call, handle = library.nvmlDeviceGetPowerUsage, gpu.handle
    instant = _instant_power_w(library, handle)
    source, reason = "nvmlDeviceGetFieldValues(NVML_FI_DEV_POWER_INSTANT)", "instantaneous"
    reads: Callable[[], float] = instant
    try:
        instant()
    except (library.NVMLError, MeterError):
        source, reason = "nvmlDeviceGetPowerUsage", _AVERAGE_REASON

        def reads() -> float:
            return float(call(handle)) / 1000

    try:
        limit_w = library.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000
    except library.NVMLError:
        limit_w = None
    quantity = Quantity(
        column=f"gpu{gpu.index}_power_w",
        provenance="measured",
        source=source,
        reason=reason,
        capacity=limit_w,
    )
    return Reading(quantities=(quantity,), read=lambda: (reads(),))
