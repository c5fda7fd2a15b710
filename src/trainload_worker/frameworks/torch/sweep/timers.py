"""Times calls on a CPU by its clock and on a GPU by the device's own events; imports no framework.

What the GPU's timer needs of CUDA is handed to it, so that it can be tried without one.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from time import monotonic, perf_counter
from typing import Any, Callable, List, Protocol, Sequence

Call = Callable[[], Any]
_SAMPLES = 7
_MOST_CALLS = 100
"""In one sample on a GPU: what is queued must fit into the driver's queue of launches."""
_SPIN_SPARE_S = 100e-6


@dataclass(frozen=True)
class Timing:
    """Seconds of one call: median of samples, and half the quartiles' range as a share of it."""

    seconds: float
    spread: float


@dataclass(frozen=True)
class Hold:
    """A call was repeated between two times of the monotonic clock."""

    begin_s: float
    end_s: float
    seconds: float
    """Of one call, over the whole time."""


class Timer(Protocol):
    """Times calls on a device."""

    def measure(self, calls: Sequence[Call], budget_s: float) -> Timing:
        """One call's time, from several samples within about the budget."""
        ...

    def hold(self, calls: Sequence[Call], seconds: float, hold_s: float) -> Hold:
        """Repeats calls of about `seconds` each for `hold_s`."""
        ...


class CpuTimer:
    """By the process's clock; each call has ended when it returns."""

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock

    def measure(self, calls: Sequence[Call], budget_s: float) -> Timing:
        """Medians of samples that last a fifth of a millisecond or more."""
        first_s = self._time(calls[:1])
        if first_s > budget_s:  # it is long: one more call that finds everything warm
            return _timing([self._time(calls[-1:])])
        once_s = self._time(calls[-1:])
        batch = _batch(calls, _clamp(2e-4 / max(once_s, 1e-9), 1, 10_000))
        samples: List[float] = []
        start_s = self._clock()
        while len(samples) < 3 or (
            len(samples) < 4 * _SAMPLES and self._clock() - start_s < budget_s
        ):
            samples.append(self._time(batch))
        return _timing(samples)

    def hold(self, calls: Sequence[Call], seconds: float, hold_s: float) -> Hold:  # noqa: ARG002
        """One call after the other."""
        begin_s, count = monotonic(), 0
        while not count or monotonic() - begin_s < hold_s:
            for call in calls:
                call()
            count += len(calls)
        end_s = monotonic()
        return Hold(begin_s, end_s, (end_s - begin_s) / count)

    def _time(self, batch: Sequence[Call]) -> float:
        start_s = self._clock()
        for call in batch:
            call()
        return (self._clock() - start_s) / len(batch)


class Cuda(Protocol):
    """What the timer needs of CUDA."""

    def event(self) -> Any:
        """A new event that keeps its time: `record`, `elapsed_time` in milliseconds."""
        ...

    def spin(self, cycles: int) -> None:
        """Has the device wait for so many cycles of its clock, in the stream."""
        ...

    def synchronize(self) -> None:
        """Waits until the device has done everything."""
        ...


class CudaTimer:
    """By events around calls that wait in the stream behind a spinning kernel.

    The device spins until the host has queued every call of a sample, so that what is timed is
    the device alone, one call after the other, however slowly the host hands them over.
    """

    def __init__(self, cuda: Cuda, clock: Callable[[], float] = perf_counter) -> None:
        self._cuda, self._clock = cuda, clock
        self._cycles_per_s = self._measure_clock()

    def measure(self, calls: Sequence[Call], budget_s: float) -> Timing:
        """Medians of samples of up to a hundred calls; what warms up counts for none."""
        for call in (*calls, *calls[:2]):
            call()
        self._cuda.synchronize()
        start_s = self._clock()
        calls[0]()
        host_s = self._clock() - start_s
        self._cuda.synchronize()
        once_s = self._sample(calls[:1], host_s)
        count = _clamp(min(1e-3 / max(once_s, 1e-7), 5e-3 / max(host_s, 1e-7)), 1, _MOST_CALLS)
        batch = _batch(calls, count)
        samples = [self._sample(batch, host_s)]
        while len(samples) < 3 or (len(samples) < _SAMPLES and self._clock() - start_s < budget_s):
            samples.append(self._sample(batch, host_s))
        return _timing(samples)

    def hold(self, calls: Sequence[Call], seconds: float, hold_s: float) -> Hold:
        """In pieces of a fiftieth of a second: the device has always work that waits."""
        batch = _batch(calls, _clamp(0.02 / seconds, 1, 400))
        for call in calls:
            call()
        self._cuda.synchronize()
        begin_s, count = monotonic(), 0
        ahead = self._enqueue(batch)
        while monotonic() - begin_s < hold_s:
            following = self._enqueue(batch)
            ahead.synchronize()
            ahead = following
            count += len(batch)
        ahead.synchronize()
        end_s = monotonic()
        return Hold(begin_s, end_s, (end_s - begin_s) / (count + len(batch)))

    def _enqueue(self, batch: Sequence[Call]) -> Any:
        for call in batch:
            call()
        event = self._cuda.event()
        event.record()
        return event

    def _sample(self, batch: Sequence[Call], host_s: float) -> float:
        begin, end = self._cuda.event(), self._cuda.event()
        self._cuda.spin(int((1.5 * host_s * len(batch) + _SPIN_SPARE_S) * self._cycles_per_s))
        begin.record()
        for call in batch:
            call()
        end.record()
        self._cuda.synchronize()
        return float(begin.elapsed_time(end)) / 1e3 / len(batch)

    def _measure_clock(self) -> float:
        """Cycles a second as the spinning kernel counts them."""
        cycles = 10_000_000
        self._cuda.spin(cycles)
        begin, end = self._cuda.event(), self._cuda.event()
        begin.record()
        self._cuda.spin(cycles)
        end.record()
        self._cuda.synchronize()
        return cycles * 1e3 / max(float(begin.elapsed_time(end)), 1e-3)


def _timing(samples: List[float]) -> Timing:
    middle = median(samples)
    ordered = sorted(samples)
    quarter = len(ordered) // 4
    spread = (ordered[-1 - quarter] - ordered[quarter]) / 2 / middle if middle > 0 else 0.0
    return Timing(middle, spread)


def _batch(calls: Sequence[Call], count: int) -> List[Call]:
    """So many calls, in turn."""
    whole, rest = divmod(count, len(calls))
    return [*calls] * whole + [*calls[:rest]]


def _clamp(value: float, low: int, high: int) -> int:
    return int(min(max(value, low), high))
