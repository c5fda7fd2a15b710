"""Puts what was estimated and predicted of a workload beside its run; fails nothing."""

from pathlib import Path

from trainload.hardware import resolve_setting
from trainload.hardware.inventory import cpu_name
from trainload.hardware.naming import device_key, match_device
from trainload.record.estimates import copy_estimate
from trainload.record.predictions import copy_prediction
from trainload.run.environments.frameworks import find_framework
from trainload.run.request import RunRequest
from trainload.workload import ScriptWorkload, WatchedWorkload, Workload
from trainload.workload.identity import timed_identity, workload_identity


def adopt_estimate(request: RunRequest, run_dir: Path) -> bool:
    """Copy the kept estimate of the request's workload into its directory; False without one."""
    try:
        return _adopt_estimate(request, run_dir)
    except Exception:  # noqa: BLE001 - the run matters more than what was said before it
        return False


def adopt_prediction(request: RunRequest, run_dir: Path) -> bool:
    """Copy the kept prediction for the request's workload and device; False without one."""
    try:
        return _adopt_prediction(request, run_dir)
    except Exception:  # noqa: BLE001 - the run matters more than what was said before it
        return False


def _adopt_estimate(request: RunRequest, run_dir: Path) -> bool:
    workload = _foretold(request)
    if workload is None:
        return False
    accelerators = request.setting.accelerators
    target = "cuda" if accelerators else "cpu"
    # One made for this very device is better than one for no device in particular.
    devices = [_catalogued(accelerators[0].name), None] if accelerators else [None]
    keys = [workload_identity(workload, target=target, device=device) for device in devices]
    return copy_estimate(run_dir, keys)


def _adopt_prediction(request: RunRequest, run_dir: Path) -> bool:
    workload = _foretold(request)
    if workload is None:
        return False
    accelerators, machine = request.setting.accelerators, request.machine
    if not accelerators and not _has_whole_cpu(request):
        return False  # a processor is predicted with all of its cores
    name = accelerators[0].name if accelerators else cpu_name(machine)
    return copy_prediction(run_dir, [timed_identity(workload, device_key(name))])


def _has_whole_cpu(request: RunRequest) -> bool:
    whole = resolve_setting("all", None, request.machine)
    return (request.setting.cores, request.setting.threads) == (whole.cores, whole.threads)


def _foretold(request: RunRequest) -> Workload | ScriptWorkload | None:
    """The workload where it is of a kind that is estimated and predicted; None of another."""
    traced = find_framework(request.framework).op_trace
    if not traced or request.validate_only or request.processes > 1:
        return None
    return None if isinstance(request.workload, WatchedWorkload) else request.workload


def _catalogued(name: str) -> str | None:
    """The catalogue's name of an accelerator as its driver calls it."""
    found = match_device(name)
    return None if found is None else found.name
