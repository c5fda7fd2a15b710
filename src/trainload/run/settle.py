"""Between two runs: wait until load and temperature have settled, and drop caches where asked."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from trainload.errors import StudyError
from trainload.units import render_percent, render_seconds
from trainload_worker.protocol.checked import Bounds

LOOK_S = 0.1
DROP_CACHES = Path("/proc/sys/vm/drop_caches")


@dataclass(frozen=True, kw_only=True)
class CoolDown:
    """Between two runs: wait until the machine is quiet, but not longer than `limit_s`."""

    load_fraction: Annotated[float, Bounds(above=0, high=1)] = 0.25
    temperature_celsius: Annotated[float, Bounds(above=0)] | None = None
    """Of the hottest sensor; None waits for the load alone."""
    limit_s: Annotated[float, Bounds(low=0)] = 10.0


@dataclass(frozen=True, kw_only=True)
class Settled:
    """How the machine was when the next run began."""

    waited_s: float
    load_fraction: float | None
    temperature_celsius: float | None
    in_time: bool

    @property
    def words(self) -> str | None:
        """What a reader should know; None where all was quiet."""
        if self.in_time:
            return None
        load = (
            "" if self.load_fraction is None else f" at load {render_percent(self.load_fraction)}"
        )
        return f"begun{load} after waiting {render_seconds(self.waited_s)}"


def wait_until_settled(
    wanted: CoolDown,
    *,
    load: Callable[[float], float | None] | None = None,
    temperature: Callable[[], float | None] | None = None,
    stopped: Callable[[], bool] = lambda: False,
    tell: Callable[[str], None] = lambda _text: None,
) -> Settled:
    """Wait for quiet, `limit_s` at most; at once where the limit is 0. `tell` hears what for."""
    start_s = time.monotonic()
    if wanted.limit_s == 0:
        return Settled(waited_s=0.0, load_fraction=None, temperature_celsius=None, in_time=True)
    while True:
        seen = (load or read_load)(LOOK_S)
        degrees = (temperature or read_temperature)() if wanted.temperature_celsius else None
        warm = (
            degrees is not None
            and wanted.temperature_celsius is not None
            and degrees > wanted.temperature_celsius
        )
        quiet = (seen is None or seen <= wanted.load_fraction) and not warm
        waited_s = time.monotonic() - start_s
        if quiet or waited_s >= wanted.limit_s or stopped():
            return Settled(
                waited_s=waited_s, load_fraction=seen, temperature_celsius=degrees, in_time=quiet
            )
        tell(_waiting(wanted, seen, degrees if warm else None, waited_s))


def _waiting(wanted: CoolDown, load: float | None, degrees: float | None, waited_s: float) -> str:
    """What is waited for, and for how long at most."""
    said = []
    if load is not None and load > wanted.load_fraction:
        asked = render_percent(wanted.load_fraction)
        said.append(f"load {render_percent(load)}, {asked} asked")
    if degrees is not None:
        said.append(f"{degrees:.0f} °C, {wanted.temperature_celsius:g} °C asked")
    spent = f"{render_seconds(waited_s)} of at most {render_seconds(wanted.limit_s)}"
    return f"waiting for a quiet machine: {'; '.join(said)} · {spent}"


def read_load(over_s: float) -> float | None:
    """Load of all cores over the next so many seconds."""
    import psutil

    return float(psutil.cpu_percent(interval=over_s)) / 100


def read_temperature() -> float | None:
    """The hottest sensor that the machine shows; None where it shows none."""
    import psutil

    if not hasattr(psutil, "sensors_temperatures"):
        return None
    chips = psutil.sensors_temperatures().values()
    found = [float(one.current) for chip in chips for one in chip if one.current is not None]
    return max(found, default=None)


def check_drop_caches(path: Path = DROP_CACHES) -> None:
    """StudyError where this process may not drop the system's caches."""
    import os

    if not os.access(path, os.W_OK):
        raise StudyError("drop_caches: this process may not; run as root or leave it out")


def drop_caches(path: Path = DROP_CACHES) -> None:
    """Drop clean caches of files; what is not written yet stays. StudyError where refused."""
    try:
        path.write_text("3\n", encoding="ascii")
    except OSError as error:
        raise StudyError(f"drop_caches: {error.strerror}; run as root or leave it out") from error
