"""The seam every meter stands behind; reads no device itself.

A meter states what it measures (`quantities`) once, then answers `read` with one value for each
available quantity. A value that cannot be had this time is None, never 0.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

Provenance = Literal["measured", "derived", "unavailable"]
Value = float | int | None
AT_EACH_READ = 0.0
"""The refresh period of a source that the kernel works out when it is read."""


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """One column a meter gives, and where its value comes from."""

    column: str
    """Name with the unit as suffix, unique over all meters: `host_cpu_load_fraction`."""
    provenance: Provenance
    source: str
    """The file or call read: `/proc/stat`, `nvmlDeviceGetPowerUsage`."""
    refresh_s: float | None = None
    """How often the source really changes, in seconds: 0 where it is worked out anew at each
    read, None where unknown."""
    reason: str | None = None
    """Why unavailable, or how derived; None for a plainly measured value."""
    capacity: float | None = None
    """The value that counts as 1.0 load, in the column's unit; None where there is none."""
    cumulative: bool = False
    """A counter that only grows, such as bytes or joules since some start."""


@dataclass(frozen=True, kw_only=True)
class MeterContext:
    """What a meter is opened with: process, GPUs, cores, sampling period and paths to read."""

    proc_root: Path = Path("/proc")
    sys_root: Path = Path("/sys")
    target_pid: int | None = None
    """Root of the run's own process tree; None when nothing runs (detect)."""
    accelerator_uuids: tuple[str, ...] | None = None
    """The GPUs to read, by UUID; None means all that NVML shows."""
    accelerator_indices: tuple[int, ...] | None = None
    """Number of each of accelerator_uuids in column names, as settings count them; None numbers
    by NVML index."""
    replay_path: Path | None = None
    """A recorded samples file, for the replay meter."""
    tegrastats_path: Path | None = None
    """The tegrastats program, or a file of its lines; None looks on PATH."""
    interval_s: float = 0.1
    """The sampler's period: what a meter with its own clock should match."""
    cores: tuple[int, ...] | None = None
    """Cores the run may use; None means all."""

    def __post_init__(self) -> None:
        if self.accelerator_uuids is not None and self.accelerator_indices is not None:
            assert len(self.accelerator_indices) == len(self.accelerator_uuids)


class Meter(Protocol):
    """One source of readings."""

    name: str
    period_s: float
    """Shortest useful time between reads; 0 means at every sample."""
    quantities: tuple[Quantity, ...]

    def read(self, t_s: float) -> list[Value]:
        """One value for each available quantity, in order; `t_s` is the monotonic time."""
        ...

    def close(self) -> None:
        """Give back files and handles; harmless when called twice."""
        ...


@dataclass(kw_only=True)
class AbsentMeter:
    """A meter whose source is not on this machine: it says why and reads nothing."""

    name: str
    reason: str
    source: str
    columns: tuple[str, ...] = ()
    period_s: float = 0.0
    quantities: tuple[Quantity, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.quantities = tuple(
            Quantity(
                column=column, provenance="unavailable", source=self.source, reason=self.reason
            )
            for column in self.columns
        )

    def read(self, t_s: float) -> list[Value]:  # noqa: ARG002 - the seam's signature
        """Nothing: there is no available quantity."""
        return []

    def close(self) -> None:
        """Nothing to give back."""


def available_columns(meter: Meter) -> list[str]:
    """The columns `read` answers, in its order."""
    return [q.column for q in meter.quantities if q.provenance != "unavailable"]
