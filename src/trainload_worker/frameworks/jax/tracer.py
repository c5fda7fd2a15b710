"""Traces steps of a JAX training with XLA's own profiler, and labels its events by layer.

XLA names each event after an instruction of the compiled program, whose text tells the layer. The
text is read when windows are labelled, after the training; while it lasts a profile is only kept.
"""

from __future__ import annotations

import os
from typing import Any, Collection, Mapping

import jax

# Not jax.profiler.stop_trace, which would also write the trace in two more forms while training.
from jax._src.lib import _profiler

from trainload_worker.frameworks.xla.graph_kernels import GraphKernels
from trainload_worker.frameworks.xla.layers import Weights, find_owners
from trainload_worker.frameworks.xla.profile import (
    INPUT_MARK,
    KERNEL,
    STEP_MARK,
    label_profile,
    read_threads,
)
from trainload_worker.frameworks.xla.text import parse_program
from trainload_worker.windows.labelled_events import INPUT, UNKNOWN, UPDATE, Owner, loss, share


def mark_taking(rows: int) -> Any:
    """A context that tells a profile, if one is being made, that so many rows are taken."""
    return jax.profiler.TraceAnnotation(f"{INPUT_MARK}{rows}")


class JaxTracer:
    """Keeps a profile for each window; `programs` gives the compiled step of a number of rows."""

    def __init__(self, programs: Mapping[int, Any], layers: Collection[str]) -> None:
        self._programs, self._layers = programs, frozenset(layers)
        self._owners: dict[int, dict[str, Owner]] = {}
        self._kernels: dict[int, GraphKernels] = {}
        self._options = _profiler.ProfileOptions()
        # Instructions and the tasks of threads, which are few; no calls of Python, no programs.
        self._options.host_tracer_level = 1
        self._options.python_tracer_level = 0
        self._options.enable_hlo_proto = False
        self._session: Any = None
        self._path = ""
        self._kept: list[str] = []

    def open(self, folder: str) -> None:
        """Starts the profiler."""
        self._path = os.path.join(folder, "profile.pb")
        self._session = _profiler.ProfilerSession(self._options)

    def mark(self, step: int) -> None:
        """Puts the end of a step into the profile."""
        with _profiler.TraceMe(f"{STEP_MARK}{step}"):
            pass

    def close(self) -> None:
        """Stops the profiler and saves its profile to be labelled after the training."""
        session, self._session = self._session, None
        if session is None:
            return
        profile = session.stop()
        with open(self._path, "wb") as file:
            file.write(profile)
        self._kept.append(self._path)

    def label(self, path: str) -> int:
        """Turns the oldest profile kept into a labelled window at `path`; its size in bytes."""
        source = self._kept.pop(0)
        try:
            with open(source, "rb") as file:
                profile = jax.profiler.ProfileData.from_serialized_xspace(file.read())
        finally:
            os.remove(source)
        return label_profile(read_threads(profile), self._owner_of).save(path)

    def _owner_of(self, rows: int, instruction: str) -> Owner:
        if rows not in self._programs:
            return UNKNOWN
        if rows not in self._owners:
            text = self._programs[rows].as_text()
            found = find_owners(text, self._layers)
            self._owners[rows] = {name: as_label(weights) for name, weights in found.items()}
            self._kernels[rows] = GraphKernels(parse_program(text))
        if instruction.startswith(KERNEL):
            instruction = self._kernels[rows].find(instruction[len(KERNEL) :])
        else:
            self._kernels[rows].pass_by(instruction)
        return self._owners[rows].get(instruction, UNKNOWN)


def as_label(weights: Weights) -> Owner:
    """The owners of an instruction as an event's label.

    Only layers share an event: what is fused with the loss or the input is the larger one's.
    """
    if not weights:
        return UNKNOWN
    largest = max(weights, key=lambda owner: weights[owner])
    if largest.layer is None:
        plain = {"loss": loss(largest.phase), "input": INPUT, "update": UPDATE}
        return plain[largest.kind]
    return share(
        [
            (owner.layer, owner.phase, weight)
            for owner, weight in weights.items()
            if owner.layer is not None
        ]
    )
