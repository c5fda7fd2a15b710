"""What this machine is: cores, memory, limits of its control group, accelerators.

Read once before a run; nothing here is read again while training goes on.
"""

import os
import platform
from dataclasses import dataclass
from pathlib import Path

from trainload.errors import MeterError
from trainload.hardware.accelerators import Accelerator, read_accelerators
from trainload.hardware.cgroup import read_cgroup_limits


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What a run can use here."""

    cpu_model: str | None
    architecture: str | None
    logical_cores: int
    physical_cores: int | None
    allowed_cores: tuple[int, ...]
    """Cores this process may run on, by affinity."""
    cpu_quota_cores: float | None
    """The control group's CPU quota in cores; None without one."""
    memory_total_bytes: int | None
    memory_limit_bytes: int | None
    """The control group's memory limit; None without one."""
    swap_total_bytes: int | None
    operating_system: str | None
    kernel: str | None
    accelerators: tuple[Accelerator, ...]
    accelerator_note: str | None
    """Why no accelerator is listed; None where there is one."""


def cpu_name(machine: Machine) -> str:
    """What a machine's processor is called; its architecture where no model is told."""
    return machine.cpu_model or machine.architecture or "CPU"


def read_machine(proc_root: Path = Path("/proc"), sys_root: Path = Path("/sys")) -> Machine:
    """The inventory of this machine; what it does not tell is None."""
    import psutil

    limits = read_cgroup_limits(proc_root, sys_root)
    found = read_accelerators()
    try:
        memory, swap = psutil.virtual_memory(), psutil.swap_memory()
        physical_cores = psutil.cpu_count(logical=False)
    except OSError as error:
        raise MeterError(
            f"this machine does not tell what it is ({error}); is /proc mounted here?"
        ) from error
    return Machine(
        cpu_model=_cpu_model(proc_root),
        architecture=platform.machine(),
        logical_cores=os.cpu_count() or 1,
        physical_cores=physical_cores,
        allowed_cores=allowed_cores(),
        cpu_quota_cores=limits.cpu_quota_cores,
        memory_total_bytes=memory.total,
        memory_limit_bytes=limits.memory_limit_bytes,
        swap_total_bytes=swap.total,
        operating_system=_operating_system(),
        kernel=platform.release(),
        accelerators=found.accelerators,
        accelerator_note=found.note,
    )


def allowed_cores() -> tuple[int, ...]:
    """Cores this process may run on; all of them where the system has no affinity."""
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def _cpu_model(proc_root: Path) -> str | None:
    try:
        lines = (proc_root / "cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return platform.processor() or None
    fields = {
        key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)
    }
    # ARM boards state the model elsewhere: the device tree names the whole board.
    model = fields.get("model name") or fields.get("Hardware")
    if model:
        return model
    try:
        return Path("/proc/device-tree/model").read_text(errors="replace").strip("\0\n ") or None
    except OSError:
        return platform.processor() or None


def _operating_system() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    except OSError:
        return platform.system()
