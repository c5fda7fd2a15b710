"""What each framework offers, in one type; imports no framework.

A framework is a folder of `trainload_worker.frameworks` and its name in FRAMEWORKS; its `offer.py`
states what it can do, and nothing anywhere else tests for its name.
"""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from typing import Any, List, Optional, Tuple

FRAMEWORKS = ("torch", "tensorflow", "jax", "mxnet", "fake")
"""Every framework's folder; the first is used where none is asked for."""

DEFAULT_FRAMEWORK = FRAMEWORKS[0]

_HOME = "trainload_worker.frameworks"


class UnknownFramework(LookupError):
    """No framework has that name; the text lists those that there are."""


@dataclass(frozen=True)
class NativeLoader:
    """The framework's own input pipeline, in words for the record."""

    described: str
    """What brings the rows, with `{}` for the number of its processes, threads or calls."""
    image_files: str
    """Who decodes and resizes image files, and whether pixels are those of the cache."""


@dataclass(frozen=True)
class Offer:
    """What an interpreter must have to serve a framework, and what can be done with it."""

    name: str
    distributions: Tuple[str, ...] = ()
    """Names under which it may be installed; one is enough. Empty: nothing needs installing."""
    lowest: Tuple[int, int] = (0, 0)
    """First version that the backend is written for."""
    below: Tuple[int, int] = (0, 0)
    """First version that it is not written for any more."""
    also: Tuple[str, ...] = ()
    """Other distributions that its backend imports."""
    modules: Tuple[str, ...] = ()
    """What of all those it imports; an import that dies is seen by trying them all."""
    thread_variables: Tuple[str, ...] = ()
    """Environment variables that its number of threads is read from when it is imported."""
    trains: bool = True
    """Whether weights are trained on the data's values, which must then be readable."""
    precisions: Tuple[str, ...] = ("float32",)
    """Those that built-in models can be trained in."""
    scripts: bool = False
    """Whether the steps of a user's unchanged script can be timed (`probe.py`)."""
    told_steps: bool = False
    """Whether a program's steps can be recorded, those at least that it tells (`probe.py`)."""
    script_layers: bool = False
    """Whether layers are told apart in any program, built-in models included (`layers.py`)."""
    graph_layers: Tuple[str, ...] = ()
    """Devices, `cpu` and `cuda`, on which layers of built-in models are told apart."""
    native_loader: Optional[NativeLoader] = None
    """Its own input pipeline (`loader.py`); None where the cache alone brings rows."""
    ranks: bool = False
    """Whether built-in models train in several processes together (`ranks.py`)."""
    op_trace: bool = False
    """Whether a step's operations can be traced without running it (`fake_step/`)."""
    sweep: bool = False
    """Whether a device's kernels can be timed by it (`sweep/`)."""
    limits: bool = False
    """Whether trainings and kernels that tell what a machine reaches run by it (`limits/`)."""
    hidden: bool = False
    """For tests: runs where it is named, but is in no list."""

    @property
    def accepted(self) -> str:
        """The versions that the backend is written for, in words."""
        low, high = (".".join(map(str, bound)) for bound in (self.lowest, self.below))
        return f"from {low} to below {high}"

    @property
    def requirements_file(self) -> str:
        """Path of an environment's pinned requirements; there where something needs installing."""
        return os.path.join(os.path.dirname(_offer_module(self.name).__file__), "requirements.txt")


def find_offer(name: str) -> Offer:
    """What that framework offers; UnknownFramework where there is none of that name."""
    if name not in FRAMEWORKS:
        known = ", ".join(offer.name for offer in list_offers())
        raise UnknownFramework(f"{name}: no such framework; there are {known}")
    offer: Offer = _offer_module(name).OFFER
    return offer


def list_offers() -> List[Offer]:
    """What every framework offers, hidden ones left out."""
    return [offer for offer in map(find_offer, FRAMEWORKS) if not offer.hidden]


def import_part(name: str, part: str) -> Any:
    """A module of that framework's folder, such as `backend`; with it comes the framework."""
    return importlib.import_module(f"{_HOME}.{name}.{part}")


def _offer_module(name: str) -> Any:
    return import_part(name, "offer")
