"""One opened NVML library with the GPUs a run may use; names no quantity.

NVML counts its initialisations, so that each meter holds its own session. The library is an
argument throughout: tests pass one of their own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trainload.errors import MeterError
from trainload.meters.meter import AbsentMeter, MeterContext, Quantity, Value

SOURCE = "NVML"


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """One device: its number in column names and its cached handle."""

    index: int
    handle: Any


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One NVML call and the quantities it answers."""

    quantities: tuple[Quantity, ...]
    read: Callable[[], Sequence[Value]]


class NvmlSession:
    """The library between its initialisation and its shutdown."""

    def __init__(self, library: Any, gpus: list[Gpu]) -> None:
        self.library = library
        self.gpus = gpus
        self._open = True

    def close(self) -> None:
        """Shut the library down, once; errors of a driver that is already gone are ignored."""
        if self._open:
            self._open = False
            try:
                self.library.nvmlShutdown()
            except self.library.NVMLError:
                pass


def open_nvml_session(context: MeterContext, name: str, library: Any) -> NvmlSession | AbsentMeter:
    """A session with the selected GPUs, or the reason why there is none."""
    if context.accelerator_uuids == ():
        return _absent(name, "no accelerator in this setting")
    if library is None:
        try:
            import pynvml
        except ImportError:
            return _absent(name, "nvidia-ml-py is not installed; pip install 'trainload[nvidia]'")
        library = pynvml
    try:
        library.nvmlInit()
    except library.NVMLError as error:
        return _absent(name, f"no NVIDIA driver answers: {error}")
    session = NvmlSession(library, [])
    try:
        session.gpus = _select_gpus(library, context)
        reason = "NVML shows no GPU"
        if context.accelerator_uuids is not None:
            reason = f"NVML shows no GPU with UUID {', '.join(context.accelerator_uuids)}"
    except library.NVMLError as error:
        reason = f"the GPUs cannot be listed: {error}"
    if session.gpus:
        return session
    session.close()
    return _absent(name, reason)


def _absent(name: str, reason: str) -> AbsentMeter:
    return AbsentMeter(name=name, reason=reason, source=SOURCE)


def _select_gpus(library: Any, context: MeterContext) -> list[Gpu]:
    """The wanted GPUs in the order of their column numbers."""
    uuids, indices = context.accelerator_uuids, context.accelerator_indices
    gpus = []
    for nvml_index in range(library.nvmlDeviceGetCount()):
        handle = library.nvmlDeviceGetHandleByIndex(nvml_index)
        index = nvml_index
        if uuids is not None:
            answer = library.nvmlDeviceGetUUID(handle)
            # Older bindings answer bytes.
            uuid = answer.decode() if isinstance(answer, bytes) else answer
            if uuid not in uuids:
                continue
            if indices is not None:
                index = indices[uuids.index(uuid)]
        gpus.append(Gpu(index=index, handle=handle))
    return sorted(gpus, key=lambda gpu: gpu.index)


class NvmlReadings:
    """The NVML calls that succeeded at opening; each is made again at every read."""

    def __init__(self, session: NvmlSession, wanted: Sequence[Reading]) -> None:
        self._session = session
        self._errors: type[Exception] = session.library.NVMLError
        self._active: list[tuple[Callable[[], Sequence[Value]], int]] = []
        quantities: list[Quantity] = []
        for reading in wanted:
            reason = self._probe(reading)
            if reason is None:
                self._active.append((reading.read, len(reading.quantities)))
                quantities += reading.quantities
            else:
                quantities += [
                    replace(quantity, provenance="unavailable", reason=reason)
                    for quantity in reading.quantities
                ]
        self.quantities = tuple(quantities)

    def _probe(self, reading: Reading) -> str | None:
        """Why the call has no answer on this GPU; None where it answers."""
        try:
            reading.read()
        except (self._errors, MeterError) as error:
            return str(error)
        return None

    def read(self) -> list[Value]:
        """The values in order; None for those of a call that fails this time."""
        values: list[Value] = []
        for read, count in self._active:
            try:
                values += read()
            except (self._errors, MeterError):
                values += [None] * count
        return values

    def close(self) -> None:
        """Shut the session down."""
        self._session.close()


class NvmlMeter:
    """Reads some quantities of the selected GPUs through cached handles."""

    def __init__(self, name: str, period_s: float, readings: NvmlReadings) -> None:
        self.name = name
        self.period_s = period_s
        self._readings = readings
        self.quantities = readings.quantities

    def read(self, t_s: float) -> list[Value]:  # noqa: ARG002 - NVML states present values
        """The available quantities of each GPU in turn."""
        return self._readings.read()

    def close(self) -> None:
        """Shut this meter's NVML session down."""
        self._readings.close()


def open_gpu_readings(
    context: MeterContext,
    name: str,
    period_s: float,
    library: Any,
    readings_of: Callable[[Any, Gpu], Sequence[Reading]],
) -> NvmlMeter | AbsentMeter:
    """A meter of the selected GPUs; absent without driver, binding or GPU."""
    session = open_nvml_session(context, name, library)
    if isinstance(session, AbsentMeter):
        return session
    wanted = [reading for gpu in session.gpus for reading in readings_of(session.library, gpu)]
    return NvmlMeter(name, period_s, NvmlReadings(session, wanted))
