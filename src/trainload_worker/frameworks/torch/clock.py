"""Times CUDA steps by the device's own events, without ever holding the training up."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

import torch

from trainload_worker.frameworks.backends import StepBatch

_ANCHOR_TRIES = 5


class StepLoss:
    """The scalars whose sum is a step's loss, kept as they are on their device until they are read.

    They share their memory with the program's own: one that it has changed since is not known.
    """

    def __init__(self, *scalars: Any) -> None:
        self._kept = [(scalar.detach(), scalar._version) for scalar in scalars]

    def add(self, scalar: Any) -> None:
        """Keeps one more."""
        self._kept.append((scalar.detach(), scalar._version))

    def first(self) -> StepLoss:
        """The first alone."""
        return StepLoss(*(scalar for scalar, _ in self._kept[:1]))

    def scalars(self) -> list[Any]:
        """Tensors to add up; [] where one of them has been changed."""
        same = all(scalar._version == version for scalar, version in self._kept)
        return [scalar for scalar, _ in self._kept] if same else []

    def item(self) -> float | None:
        """The sum, read at once: for scalars of the CPU; None where it is not known."""
        found = self.scalars()
        return sum(scalar.item() for scalar in found) if found else None


class CudaStepClock:
    """Puts an event behind each step and turns finished ones into ends on the monotonic clock.

    An anchor is an event whose moment on the host's clock is known: set while the device is idle,
    moved on to the last finished step at each collection (a float of milliseconds, as CUDA gives
    it, grows coarse over long spans) and set anew whenever the device has been drained.
    """

    def __init__(self, device: Any) -> None:
        self._stream = torch.cuda.current_stream(device)
        self._side_stream = torch.cuda.Stream(device)
        self._device = device
        self._pending: deque[tuple[Any, Any]] = deque()
        self._spare: list[Any] = []
        self._anchor: Any = None
        self._anchor_s = 0.0
        self._last_s = 0.0
        self._set_anchor()

    def mark(self, loss: Any) -> None:
        """Notes that a step has been given to the device."""
        event = self._spare.pop() if self._spare else torch.cuda.Event(enable_timing=True)
        event.record(self._stream)
        if loss is not None and not isinstance(loss, StepLoss):
            loss = StepLoss(loss)
        self._pending.append((event, loss))

    def collect(self, drain: bool) -> StepBatch:
        """Steps whose event has passed; `drain` waits for all of them."""
        if drain:
            self._stream.synchronize()
        done = []
        while self._pending and self._pending[0][0].query():
            done.append(self._pending.popleft())
        batch = StepBatch([], [])
        if done:
            batch = StepBatch(self._ends_s([event for event, _ in done]), self._losses(done))
        if drain:
            self._set_anchor()
        return batch

    def _ends_s(self, events: list[Any]) -> list[float]:
        ends_s = []
        for event in events:
            end_s = self._anchor_s + self._anchor.elapsed_time(event) / 1000.0
            self._last_s = max(self._last_s, end_s)
            ends_s.append(self._last_s)
        self._spare.append(self._anchor)
        self._spare.extend(events[:-1])
        self._anchor, self._anchor_s = events[-1], self._last_s
        return ends_s

    def _losses(self, done: list[tuple[Any, Any]]) -> list[float | None]:
        """Copies losses on a stream of their own: the training stream is not waited for."""
        parts = [[] if loss is None else loss.scalars() for _, loss in done]
        known = [scalar for scalars in parts for scalar in scalars]
        if not known:
            return [None] * len(done)
        dtype = known[0].dtype if len({scalar.dtype for scalar in known}) == 1 else torch.float32
        with torch.cuda.stream(self._side_stream):
            self._side_stream.wait_event(done[-1][0])
            moved = [scalar.to(self._device, dtype).reshape(()) for scalar in known]
            values = iter(torch.stack(moved).tolist())
        return [sum(next(values) for _ in scalars) if scalars else None for scalars in parts]

    def _set_anchor(self) -> None:
        """Ties the device's clock to the host's; the device must be idle."""
        best_s = float("inf")
        for _ in range(_ANCHOR_TRIES):
            event = torch.cuda.Event(enable_timing=True)
            before_s = time.monotonic()
            event.record(self._stream)
            event.synchronize()
            after_s = time.monotonic()
            if after_s - before_s < best_s:
                best_s = after_s - before_s
                self._anchor, self._anchor_s = event, (before_s + after_s) / 2
