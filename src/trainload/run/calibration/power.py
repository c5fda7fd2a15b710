"""Power and throttling of a device while its kernels are timed, by the ordinary meters.

Keeps what the meters said; when to read is for others to decide.
"""

import re
import time
from collections.abc import Callable, Sequence
from statistics import fmean

from trainload.hardware.throttling import SLOWED_BITS, THROTTLE_REASONS
from trainload.meters import Meter, MeterContext, available_columns, open_meters
from trainload.run.calibration.target import CalibrationTarget
from trainload.units import render_percent

_SETTLE = 0.4
"""Share of a window that passes before its power counts: clocks and the meter's own mean follow."""
_HOLD_INSTANT_S = 0.7
_HOLD_AVERAGED_S = 2.5
"""For a meter that averages over a second."""


class PowerLog:
    """The device's power, load and throttling at each reading."""

    def __init__(self, meters: Sequence[Meter], clock: Callable[[], float]) -> None:
        self._meters, self._clock = meters, clock
        columns = [available_columns(meter) for meter in meters]
        self._power_columns = {
            column
            for group in columns
            for column in group
            if re.fullmatch(r"(gpu\d+|rapl_package_\d+)_power_w", column)
        }
        self._columns = columns
        self._due_s = [0.0] * len(meters)
        self._powers: list[tuple[float, float]] = []
        self._bits: list[int] = []
        self.latest: dict[str, float] = {}

    @property
    def hold_s(self) -> float:
        """How long a call must be repeated for its power to be known; 0 where nothing reads it."""
        if not self._power_columns:
            return 0.0
        sources = [
            quantity.source
            for meter in self._meters
            for quantity in meter.quantities
            if quantity.column in self._power_columns
        ]
        averaged = any(source == "nvmlDeviceGetPowerUsage" for source in sources)
        return _HOLD_AVERAGED_S if averaged else _HOLD_INSTANT_S

    def read(self) -> None:
        """Ask the meters once, those that are dear no oftener than they say."""
        now_s = self._clock()
        found: dict[str, float] = {}
        for n, (meter, columns) in enumerate(zip(self._meters, self._columns, strict=True)):
            if now_s < self._due_s[n]:
                continue
            self._due_s[n] = now_s + meter.period_s
            values = meter.read(now_s)
            found.update(
                (column, value)
                for column, value in zip(columns, values, strict=True)
                if value is not None
            )
        self.latest.update(found)
        powers = [value for column, value in found.items() if column in self._power_columns]
        if self._power_columns and len(powers) == len(self._power_columns):
            self._powers.append((now_s, sum(powers)))
        self._bits += [
            int(value) for column, value in found.items() if column.endswith("_throttle_bits")
        ]

    def mean_w(self, begin_s: float, end_s: float) -> float | None:
        """Mean power between two times, the beginning left out; None with under three readings."""
        from_s = begin_s + _SETTLE * (end_s - begin_s)
        inside = [power for t_s, power in self._powers if from_s <= t_s <= end_s]
        return fmean(inside) if len(inside) >= 3 else None

    def throttling(self) -> str | None:
        """How the device was slowed down by heat or supply; None where it was not."""
        slowed = [bits for bits in self._bits if bits & SLOWED_BITS]
        if not slowed:
            return None
        reasons = [
            name
            for bit, name in THROTTLE_REASONS.items()
            if bit & SLOWED_BITS and any(bits & bit for bits in slowed)
        ]
        share = render_percent(len(slowed) / len(self._bits))
        return f"throttled in {share} of readings: {', '.join(reasons)}"

    def close(self) -> None:
        """Give the meters back."""
        for meter in self._meters:
            meter.close()


def open_power_log(
    target: CalibrationTarget, clock: Callable[[], float] = time.monotonic
) -> PowerLog:
    """The meters of the device; a log of nothing where it has none."""
    gpu = target.accelerator
    names = ["rapl"] if gpu is None else ["nvml", "nvml_state"]
    context = MeterContext(
        accelerator_uuids=() if gpu is None else (gpu.uuid,),
        accelerator_indices=() if gpu is None else (gpu.index,),
    )
    return PowerLog(open_meters(context, names), clock)
