"""Traces MXNet's operations for the length of one window; labels them after the training.

MXNet's profiler tells kinds of operation, not nodes. So while a window is open the model runs in
a compiled form of its own, which gives out one operation at a time and tells each node by name;
it takes the place of the usual form, so that no memory is held twice. The engine stays as it is.
"""

from __future__ import annotations

import os
import time
from typing import Any, Sequence

import mxnet
from mxnet import nd, profiler
from mxnet.base import NDArrayHandle

from trainload_worker.frameworks.mxnet.profile import LayerNames, Node, Seen, label_profile

_ONE_BY_ONE = [("forward_bulk_size", 0), ("backward_bulk_size", 0)]


class MxnetTracer:
    """Opens and closes one window at a time; the backend tells it the phases of its steps."""

    def __init__(self, model: Any, layers: Sequence[str]) -> None:
        self._model = model
        self._names = LayerNames(layers)
        self._seen: Seen | None = None
        self._kept: list[Seen] = []
        self._phase = ""
        self._bulk: int | None = None
        self._failure: BaseException | None = None

    @property
    def active(self) -> bool:
        """Whether a window is open, so that operations are being traced."""
        return self._seen is not None

    def open(self, folder: str) -> None:
        """Starts the profiler."""
        self._seen = Seen(os.path.join(folder, "profile.json"))
        self._phase, self._failure = "", None
        self._model._cached_op = self._compile_one_by_one()
        # The engine gives the usual form's memory back: before the first step, not in it.
        nd.waitall()
        self._bulk = mxnet.engine.set_bulk_size(0)
        profiler.set_config(
            filename=self._seen.path,
            profile_symbolic=True,
            profile_imperative=True,
            profile_memory=False,
            profile_api=False,
            aggregate_stats=False,
            continuous_dump=False,
        )
        profiler.set_state("run")

    def enter(self, phase: str) -> None:
        """The step comes to its next phase; what the last one gave out is waited for."""
        if self._failure is not None and not isinstance(self._failure, Exception):
            # An order to stop, which the engine's call did not pass on.
            raise self._failure
        if self._seen is not None:
            nd.waitall()
            self._phase = phase
            self._seen.phases.append((phase, _now_us()))

    def mark(self, step: int) -> None:
        """Notes a step's end; raises what went wrong while nodes were told."""
        if self._failure is not None:
            raise self._failure
        assert self._seen is not None
        self._phase = ""
        self._seen.marks.append((step, _now_us()))

    def close(self) -> None:
        """Stops the profiler, which writes its file at once; the usual form is made anew."""
        seen, self._seen = self._seen, None
        if seen is None:
            return
        self._model._cached_op = None
        nd.waitall()
        if self._bulk is not None:
            mxnet.engine.set_bulk_size(self._bulk)
        profiler.set_state("stop")
        profiler.dump(finished=False)
        self._kept.append(seen)

    def label(self, path: str) -> int:
        """Turns the oldest profile kept into a labelled window at `path`; its size in bytes."""
        seen = self._kept.pop(0)
        return label_profile(seen, self._names).save(path)

    def _compile_one_by_one(self) -> Any:
        """The model as the usual form is made, but for bulks of operations."""
        data, output = self._model._cached_graph
        names = {value.name for value in data}
        inputs = list(enumerate(output.list_inputs()))
        flags = [
            ("data_indices", [at for at, name in inputs if name in names]),
            ("param_indices", [at for at, name in inputs if name not in names]),
            *self._model._flags,
            *_ONE_BY_ONE,
        ]
        compiled = mxnet.ndarray.CachedOp(output, flags)
        compiled._register_op_hook(self._note_node)
        return compiled

    def _note_node(self, name: Any, kind: Any, handle: Any) -> None:
        """A node was given out: waits until it has ended. Must not raise into the engine's call."""
        try:
            # Ours to free, which the wrapper does.
            value = nd.NDArray(NDArrayHandle(handle), writable=False)
            if self._seen is not None:
                value.wait_to_read()
                phase = "backward" if self._phase == "backward" else "forward"
                self._seen.nodes.append(Node(_now_us(), _text(name), _text(kind), phase))
        except BaseException as error:  # noqa: BLE001 - told at the step's end
            self._failure = error


def _text(name: Any) -> str:
    return name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)


def _now_us() -> float:
    """The profiler's clock, which is the system's."""
    return time.time_ns() / 1000
