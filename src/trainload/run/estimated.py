"""Puts the estimate that was made of a workload beside its run; starts nothing, fails nothing."""

from pathlib import Path

from trainload.hardware.naming import match_device
from trainload.record.estimates import copy_estimate
from trainload.run.environments.frameworks import find_framework
from trainload.run.request import RunRequest
from trainload.workload import WatchedWorkload
from trainload.workload.identity import workload_identity


def adopt_estimate(request: RunRequest, run_dir: Path) -> bool:
    """Copy the kept estimate of the request's workload into its directory; False without one."""
    try:
        return _adopt(request, run_dir)
    except Exception:  # noqa: BLE001 - the run matters more than what was said before it
        return False


def _adopt(request: RunRequest, run_dir: Path) -> bool:
    workload = request.workload
    estimated = find_framework(request.framework).op_trace
    if not estimated or request.validate_only or request.processes > 1:
        return False
    if isinstance(workload, WatchedWorkload):
        return False
    accelerators = request.setting.accelerators
    target = "cuda" if accelerators else "cpu"
    # One made for this very device is better than one for no device in particular.
    devices = [_catalogued(accelerators[0].name), None] if accelerators else [None]
    keys = [workload_identity(workload, target=target, device=device) for device in devices]
    return copy_estimate(run_dir, keys)


def _catalogued(name: str) -> str | None:
    """The catalogue's name of an accelerator as its driver calls it."""
    found = match_device(name)
    return None if found is None else found.name
