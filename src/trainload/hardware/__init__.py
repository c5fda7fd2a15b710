"""What a run runs on: the inventory of this machine and settings.

Standard library and psutil, with NVML where it is installed; reads, never changes the machine.
"""

from trainload.hardware.accelerators import Accelerator, read_accelerators, visible_accelerators
from trainload.hardware.cgroup import CgroupLimits, read_cgroup_limits
from trainload.hardware.inventory import Machine, allowed_cores, read_machine
from trainload.hardware.jobs import Job, read_job
from trainload.hardware.settings import Setting, parse_setting, render_ranges, resolve_setting

__all__ = [
    "Accelerator",
    "CgroupLimits",
    "Job",
    "Machine",
    "Setting",
    "allowed_cores",
    "parse_setting",
    "read_accelerators",
    "read_cgroup_limits",
    "read_job",
    "read_machine",
    "render_ranges",
    "resolve_setting",
    "visible_accelerators",
]
