"""Traces steps with TensorFlow's own profiler, and labels what it saved; trains nothing.

While a window is open the profiler notes each operation's beginning and end. Whose they are is
worked out after the training.
"""

from __future__ import annotations

import tensorflow as tf

from trainload_worker.frameworks.tensorflow.owners import Owners, original_name
from trainload_worker.frameworks.tensorflow.profile import STEP, Operation, Profile, load_profile
from trainload_worker.windows.labelled_events import (
    INPUT,
    OPERATION,
    RANGE,
    LabelledWindow,
    Owner,
    layer,
)

_HOST = "host"
"""Lane of what was done around operations."""
_GAP_US = 20.0
"""A shorter gap is taken for the way into the next operation by whoever reads the window."""


class Tracer:
    """Opens and closes one window at a time; `owners` is asked when windows are labelled."""

    def __init__(self, owners: Owners) -> None:
        self._owners = owners
        self._open: str | None = None
        self._kept: list[str] = []

    def open(self, folder: str) -> None:
        """Starts the profiler; it notes operations that take time, and no Python."""
        options = tf.profiler.experimental.ProfilerOptions(
            host_tracer_level=1, python_tracer_level=0, device_tracer_level=0
        )
        tf.profiler.experimental.start(folder, options)
        self._open = folder

    def mark(self, step: int) -> None:
        """Notes that a step has ended."""
        with tf.profiler.experimental.Trace(f"{STEP}{step}"):
            pass

    def close(self) -> None:
        """Stops the profiler, which saves the profile."""
        folder, self._open = self._open, None
        if folder is not None:
            tf.profiler.experimental.stop()
            self._kept.append(folder)

    def label(self, path: str) -> int:
        """Turns the oldest profile kept into a labelled window; its size in bytes."""
        return label_profile(load_profile(self._kept.pop(0)), self._owners).save(path)


def label_profile(profile: Profile, owners: Owners) -> LabelledWindow:
    """The window with each operation's owner, and what the host did around operations."""
    window = LabelledWindow()
    for step, at_us in profile.marks:
        window.mark(step, at_us)
    executed = {original_name(operation.name) for operation in profile.operations}
    known: dict[tuple[str, str], Owner] = {}
    for one in profile.operations:
        key = (one.name, one.kind)
        if key not in known:
            known[key] = owners.find(*key, executed)
        window.add(one.name, one.start_us, one.end_us, one.lane, known[key], OPERATION)
    for start_us, end_us in profile.inputs:
        window.add("take rows", start_us, end_us, _HOST, INPUT, RANGE)
    for start_us, end_us in profile.calls:
        _add_call(window, profile.operations, start_us, end_us, known)
    return window


def _add_call(
    window: LabelledWindow,
    operations: list[Operation],
    start_us: float,
    end_us: float,
    owners: dict[tuple[str, str], Owner],
) -> None:
    """What TensorFlow did in the call of a step while no operation ran.

    Between two of them it makes the second ready, if only by operations too small to be noted.
    Before the first and after the last it does what belongs to the model as a whole.
    """
    inside = [one for one in operations if start_us <= one.start_us < end_us]
    if not inside:
        return
    window.add("call", start_us, inside[0].start_us, _HOST, layer("", "forward"), RANGE)
    busy_us = inside[0].start_us
    for one in inside:
        if one.start_us - busy_us > _GAP_US:
            owner = owners[one.name, one.kind]
            window.add("make ready", busy_us, one.start_us, _HOST, owner, RANGE)
        busy_us = max(busy_us, one.end_us)
    if busy_us < end_us:
        window.add("return", busy_us, end_us, _HOST, layer("", "update"), RANGE)
