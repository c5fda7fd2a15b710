"""Times CUDA steps by the device's own events, without ever holding the training up."""

from __future__ import annotations

from collections import deque
from time import monotonic
from typing import Any

import torch

from trainload_worker.frameworks.backends import StepBatch

_ANCHOR_TRIES = 5


class StepLoss:
    """The scalars whose sum is a step's loss; those of a device are kept there until they are read.

    They share their memory with the program's own: one that it has changed since is not known.
    """

    __slots__ = ("_kept", "_value")

    def __init__(self, scalar: Any, value: float = 0.0) -> None:
        """Begins with one; `value` is the sum of others, read where that costs nothing."""
        self._value = value
        self._kept = [(scalar.detach(), scalar._version)]

    def add(self, scalar: Any) -> None:
        """Keeps one more."""
        if scalar.is_cpu:
            self._value += scalar.item()
        else:
            self._kept.append((scalar.detach(), scalar._version))

    def known(self) -> tuple[float, list[Any]] | None:
        """A sum, and tensors to add to it; None where one of them has been changed."""
        for scalar, version in self._kept:
            if scalar._version != version:
                return None
        return self._value, [scalar for scalar, _ in self._kept]

    def item(self) -> float | None:
        """The sum, which is waited for."""
        found = self.known()
        return None if found is None else found[0] + sum(scalar.item() for scalar in found[1])


def keep_loss(scalar: Any) -> float | StepLoss:
    """A step's loss from its first scalar: a number where that is on the CPU."""
    return scalar.item() if scalar.is_cpu else StepLoss(scalar)


def add_loss(summed: float | StepLoss, scalar: Any) -> float | StepLoss:
    """The sum with one more scalar; a number as long as all of them were on the CPU."""
    if isinstance(summed, StepLoss):
        summed.add(scalar)
        return summed
    return summed + scalar.item() if scalar.is_cpu else StepLoss(scalar, summed)


class _Rested:
    """Steps of which the host alone tells the time; stands where a loss would."""

    __slots__ = ("_begin_s", "ends_s")

    def __init__(self, begin_s: float, ends_s: list[float]) -> None:
        self._begin_s = begin_s
        self.ends_s = ends_s

    def spread(self, begin_s: float, end_s: float) -> list[float]:
        """Their ends, at the same pace between two other moments."""
        host_s = max(self.ends_s[-1] - self._begin_s, 1e-9)
        pace = (end_s - begin_s) / host_s
        spread_s = [begin_s + (one - self._begin_s) * pace for one in self.ends_s[:-1]]
        return [*spread_s, end_s]


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
        """Notes that a step has been given to the device; the loss as kept here, or a scalar."""
        event = self._spare.pop() if self._spare else torch.cuda.Event(enable_timing=True)
        event.record(self._stream)
        if isinstance(loss, torch.Tensor):
            loss = keep_loss(loss)
        self._pending.append((event, loss))

    def mark_rested(self, begin_s: float, ends_s: list[float]) -> None:
        """Notes steps that the host has given to the device since a moment, up to this one.

        Between what the device tells of the first and the last they end at the host's pace.
        """
        event = self._spare.pop() if self._spare else torch.cuda.Event(enable_timing=True)
        event.record(self._stream)
        self._pending.append((event, _Rested(begin_s, ends_s)))

    def collect(self, drain: bool) -> StepBatch:
        """Steps whose event has passed; `drain` waits for all of them."""
        if drain:
            self._stream.synchronize()
        done = [self._pending.popleft() for _ in range(self._count_done())]
        batch = StepBatch([], [])
        if done:
            batch = StepBatch(self._ends_s(done), self._losses(done))
        if drain:
            self._set_anchor()
        return batch

    def _count_done(self) -> int:
        """Steps whose event has passed; they pass in their order, so that few are asked."""
        low, high = 0, len(self._pending)
        while low < high:
            # The last first: where the host is the slower one, all have passed.
            middle = high - 1 if high == len(self._pending) else (low + high) // 2
            if self._pending[middle][0].query():
                low = middle + 1
            else:
                high = middle
        return low

    def _ends_s(self, done: list[tuple[Any, Any]]) -> list[float]:
        ends_s = []
        for event, loss in done:
            begin_s = self._last_s
            end_s = self._anchor_s + self._anchor.elapsed_time(event) / 1000.0
            self._last_s = max(self._last_s, end_s)
            if isinstance(loss, _Rested):
                ends_s.extend(loss.spread(begin_s, self._last_s))
            else:
                ends_s.append(self._last_s)
        self._spare.append(self._anchor)
        self._spare.extend(event for event, _ in done[:-1])
        self._anchor, self._anchor_s = done[-1][0], self._last_s
        return ends_s

    def _losses(self, done: list[tuple[Any, Any]]) -> list[float | None]:
        """Copies losses on a stream of their own: the training stream is not waited for."""
        parts: list[Any] = []
        for _, loss in done:
            if isinstance(loss, _Rested):
                parts.extend([None] * len(loss.ends_s))
            elif isinstance(loss, StepLoss):
                parts.append(loss.known())
            else:
                parts.append(None if loss is None else (loss, ()))
        kept = [scalar for part in parts if part is not None for scalar in part[1]]
        values = iter(self._read(kept, done[-1][0]) if kept else [])
        return [
            None if part is None else part[0] + sum(next(values) for _ in part[1]) for part in parts
        ]

    def _read(self, scalars: list[Any], event: Any) -> list[float]:
        dtype, index = scalars[0].dtype, self._stream.device_index
        alike = all(s.dtype is dtype and s.dim() == 0 and s.get_device() == index for s in scalars)
        if any(scalar.dtype != dtype for scalar in scalars):
            dtype = torch.float32
        with torch.cuda.stream(self._side_stream):
            self._side_stream.wait_event(event)
            if not alike:
                scalars = [scalar.to(self._device, dtype).reshape(()) for scalar in scalars]
            values: list[float] = torch.stack(scalars).tolist()
        return values

    def _set_anchor(self) -> None:
        """Ties the device's clock to the host's; the device must be idle."""
        best_s = float("inf")
        for _ in range(_ANCHOR_TRIES):
            event = torch.cuda.Event(enable_timing=True)
            before_s = monotonic()
            event.record(self._stream)
            event.synchronize()
            after_s = monotonic()
            if after_s - before_s < best_s:
                best_s = after_s - before_s
                self._anchor, self._anchor_s = event, (before_s + after_s) / 2
