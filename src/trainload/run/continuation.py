"""A run that begins from another one's checkpoint: what it trains, and how far it is already.

Reads the record that is continued and the checkpoint's header; starts nothing.
"""

import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trainload.checked import check_value
from trainload.errors import UsageError
from trainload.record import load_manifest
from trainload.record.checkpoints import Checkpoint, check_fits, load_checkpoint
from trainload.workload import (
    Training,
    Workload,
    assemble_workload,
    looks_like_script,
    refit_data,
    workload_from_record,
)
from trainload_worker.protocol.offers import DEFAULT_FRAMEWORK

FREE_OPTIONS = ("epochs", "max_steps", "validate", "top", "loader", "loader_workers")
"""What may be said anew of a training that goes on as it was."""


@dataclass(frozen=True, kw_only=True)
class Continuation:
    """A workload and the checkpoint it begins from, which fit each other."""

    workload: Workload
    checkpoint: Checkpoint
    framework: str
    """That of the run continued, unless another is chosen."""


def plan_continuation(
    place: Path,
    model: str | None,
    options: Mapping[str, Any],
    *,
    arguments: Sequence[str] = (),
    seed: int = 0,
) -> Continuation:
    """What continuing that run or file means; errors say why it cannot be, before anything starts.

    Without a model the training goes on as its record has it. With one the options describe it
    anew, and only the weights and the position are the checkpoint's.
    """
    if arguments or (model is not None and looks_like_script(model)):
        raise UsageError("--resume is for the built-in models; a script resumes by itself")
    checkpoint = load_checkpoint(place)
    if model is None:
        options = dict(options)
        workload = _recorded(checkpoint, options.pop("cache", None))
        if seed:
            raise UsageError(_decided("--seed"))
        workload = _change_training(workload, options)
    else:
        workload = assemble_workload(model, options, seed=seed)
    check_fits(checkpoint, workload.graph)
    if workload.training.epochs <= checkpoint.epoch:
        raise UsageError(
            f"{checkpoint.path} has {checkpoint.epoch} epochs behind it; "
            f"say with --epochs how many there are to be in all, such as --epochs "
            f"{2 * checkpoint.epoch}"
        )
    return _continue(checkpoint, workload)


def plan_validation(
    place: Path, *, data: str | None = None, cache: str | None = None, top: tuple[int, ...] = ()
) -> Continuation:
    """What scoring that run's or file's checkpoint means, on its own data or on other data."""
    checkpoint = load_checkpoint(place)
    workload = _recorded(checkpoint, cache)
    if data is not None:
        workload = refit_data(workload, data, cache)
    changes = {"validate": "end", **({"top": top} if top else {})}
    workload = _change_training(workload, changes)
    check_fits(checkpoint, workload.graph)
    return _continue(checkpoint, workload)


def _continue(checkpoint: Checkpoint, workload: Workload) -> Continuation:
    framework = checkpoint.framework or DEFAULT_FRAMEWORK
    return Continuation(workload=workload, checkpoint=checkpoint, framework=framework)


def _recorded(checkpoint: Checkpoint, cache: str | None) -> Workload:
    """The workload of the run that left the checkpoint; its images are decoded into our cache."""
    if checkpoint.run_dir is None:
        raise UsageError(
            f"{checkpoint.path} stands in no run directory: name the model and the options it "
            f"was trained with, as in: trainload run {checkpoint.graph} --resume …"
        )
    manifest = load_manifest(checkpoint.run_dir)
    return workload_from_record(manifest.workload, str(checkpoint.run_dir), cache)


def _change_training(workload: Workload, options: Mapping[str, Any]) -> Workload:
    """The training with options said anew; a limit of steps was that run's own."""
    hints = typing.get_type_hints(Training, include_extras=True)
    changes: dict[str, Any] = {"max_steps": None}
    for name, value in options.items():
        if name not in FREE_OPTIONS:
            raise UsageError(_decided(f"--{name.replace('_', '-')}"))
        changes[name] = check_value(hints[name], value, name)
    return replace(workload, training=replace(workload.training, **changes))


def _decided(option: str) -> str:
    return (
        f"{option}: the run that is continued decides it; "
        "name the model too, to describe the training anew"
    )
