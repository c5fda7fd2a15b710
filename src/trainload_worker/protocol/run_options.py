"""Options of a run beside its graph and data: checkpoints, validation, loader; reads no file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping

VALIDATIONS = ("epoch", "end", "never")
LOADERS = ("cache", "native")


@dataclass(frozen=True)
class SaveSpec:
    """Where checkpoints are left: at the end, and after every `every` epochs where told."""

    path: str
    every: int | None
    epoch_form: str
    """Path of a checkpoint between epochs, with `{epoch}` for the epochs that are done."""
    metadata: Mapping[str, str]
    """What the driver knows of the run, written into the file as it is."""


@dataclass(frozen=True)
class ResumeSpec:
    """The checkpoint that the training continues."""

    path: str


@dataclass(frozen=True)
class ValidationSpec:
    """When the validation rows are run over, and which top-n accuracies are counted."""

    when: str = "epoch"
    top: tuple[int, ...] = ()


@dataclass(frozen=True)
class LoaderSpec:
    """Who brings the training rows: our cache, or the framework's own pipeline."""

    kind: str = "cache"
    workers: int = 2


def parse_save(root: Any) -> SaveSpec | None:
    """The `save` object of the specification; None without one."""
    if not root.has("save"):
        return None
    node = root.node("save")
    return SaveSpec(
        path=node.text("path"),
        every=node.optional_whole("every", at_least=1),
        epoch_form=node.text("epoch_form"),
        metadata={name: str(value) for name, value in node.mapping("metadata").items()},
    )


def parse_resume(root: Any) -> ResumeSpec | None:
    """The `resume` object of the specification; None without one."""
    return ResumeSpec(path=root.node("resume").text("path")) if root.has("resume") else None


def parse_validation(training: Any) -> ValidationSpec:
    """`validate` and `top` of the training's object."""
    return ValidationSpec(
        when=training.choice("validate", VALIDATIONS) if training.has("validate") else "epoch",
        top=training.wholes("top") if training.has("top") else (),
    )


def parse_loader(training: Any) -> LoaderSpec:
    """`loader` and `loader_workers` of the training's object."""
    return LoaderSpec(
        kind=training.choice("loader", LOADERS) if training.has("loader") else "cache",
        workers=training.whole("loader_workers", 0) if training.has("loader_workers") else 2,
    )
