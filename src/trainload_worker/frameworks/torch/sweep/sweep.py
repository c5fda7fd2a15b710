"""Times the kernels of one device within a limit of time and says each as an event.

Shares the time as `lanes` says; what the device refuses is said to lack, and the rest goes on.
"""

from __future__ import annotations

from time import monotonic, sleep
from typing import Callable, List, Optional, Protocol, Set

import torch

from trainload_worker.frameworks.torch.sweep.cases import LAST, OF_PROCESSORS, Case, list_cases
from trainload_worker.frameworks.torch.sweep.counting import count
from trainload_worker.frameworks.torch.sweep.devices import CpuDevice, CudaDevice, Device
from trainload_worker.frameworks.torch.sweep.kernels import Call, build_calls
from trainload_worker.frameworks.torch.sweep.lanes import Lane, Pace, make_lanes, next_case
from trainload_worker.protocol.events import Event
from trainload_worker.protocol.spec import SweepSpec
from trainload_worker.protocol.sweep import (
    SweepBegun,
    SweepDispatch,
    SweepHeld,
    SweepIdle,
    SweepLack,
    SweepPoint,
)

_MOST_POINTS = 3000
"""A file of more would not stay small."""
_DISPATCH_SHARE = 0.03
_HOLD_SHARE = 0.35
"""Of the time, for reading power."""
_MOST_REFUSED = 3
_HELD = ((1.0, 1.0), (0.6, 0.4))
"""How far along a lane's points by time a held one stands, and what it weighs."""
_LEAST_HELD_S = 5e-5
"""A shorter call leaves a GPU idle between launches: its power says nothing of the kernel."""


Build = Callable[[Case, str, int], List[Call]]


class Says(Protocol):
    """Where events go."""

    def write(self, event: Event) -> bool:
        """Writes one event; False when it was lost."""
        ...


def sweep_device(spec: SweepSpec, events: Says, check: Callable[[], None]) -> None:
    """Says the device, its idle time, what dispatch takes, and as many points as fit the limit."""
    device: Device = CudaDevice() if spec.target == "cuda" else CpuDevice()
    device.warm_up()
    sweep = Sweep(device, events, check, spec)
    sweep.open()
    sweep.measure_points()
    sweep.hold_points()


class Sweep:
    """One sweep: its points so far, and the calls that made them are made anew to hold them."""

    def __init__(
        self,
        device: Device,
        events: Says,
        check: Callable[[], None],
        spec: SweepSpec,
        build: Build = build_calls,
        only: Optional[Callable[[Case], bool]] = None,
    ) -> None:
        self._device, self._events, self._check, self._calls = device, events, check, build
        self._only = only
        self._limit_s, self._hold_s, self._start_s = spec.limit_s, spec.hold_s, monotonic()
        self._points: List[SweepPoint] = []
        self._cases: List[Case] = []
        self._lanes: List[Lane] = []
        self._held: Set[int] = set()

    def open(self) -> None:
        """Says what the device is, lets it idle, and times the host's dispatch."""
        device = self._device
        cases = list_cases(device.dtypes)
        if device.kind == "cpu":
            # A host is where it is: nothing is copied to it.
            cases = [one for one in cases if not one.sizes.get("from_host")]
            cases = [one for one in cases if not one.family.startswith(LAST)]
        else:
            cases = [one for one in cases if one.family not in OF_PROCESSORS]
        if self._only is not None:
            cases = [one for one in cases if self._only(one)]
        self._lanes = make_lanes(cases, device.shares)
        self._events.write(SweepBegun(device.name, tuple(device.dtypes), len(cases), device.method))
        if self._hold_s > 0:
            begin_s = monotonic()
            while monotonic() - begin_s < 2 * self._hold_s:
                self._check()
                sleep(0.05)
            self._events.write(SweepIdle(begin_s, monotonic()))
        self._events.write(SweepDispatch(device.dispatch(_DISPATCH_SHARE * self._limit_s)))
        self._start_s = monotonic()

    def measure_points(self) -> None:
        """Times cases by turns until their part of the time is over."""
        held = _HOLD_SHARE if self._hold_s > 0 else 0.0
        end_s = self._start_s + self._limit_s * (1 - held)
        longest_s = min(self._device.longest_s, self._limit_s / 1500)
        pace = self._first_pace()
        while monotonic() < end_s and len(self._points) < _MOST_POINTS:
            self._check()
            found = next_case(
                self._lanes, pace, longest_s=longest_s, most_bytes=self._device.most_bytes
            )
            if found is None:
                return
            lane, case = found
            begin_s = monotonic()
            seconds = self._measure(lane, case)
            lane.spent_s += monotonic() - begin_s
            if seconds is not None:
                lane.learn(pace.guess_s(case), seconds)

    def hold_points(self) -> None:
        """Repeats long and middling cases of each lane for their power, the weightiest first."""
        if self._hold_s <= 0:
            return
        end_s = self._start_s + self._limit_s
        turns = [
            (lane.share * weight, lane, part) for lane in self._lanes for part, weight in _HELD
        ]
        for _, lane, part in sorted(turns, key=lambda turn: -turn[0]):
            number = self._pick(lane, part)
            if number is not None and number not in self._held:
                if monotonic() + self._hold_s > end_s:
                    return
                self._check()
                self._hold(number)

    def _pick(self, lane: Lane, part: float) -> Optional[int]:
        """The point so far along the lane's points by time; None where all are short."""
        long = [n for n in lane.measured if self._points[n].seconds >= _LEAST_HELD_S]
        long.sort(key=lambda number: self._points[number].seconds)
        return long[min(int(part * len(long)), len(long) - 1)] if long else None

    def _measure(self, lane: Lane, case: Case) -> Optional[float]:
        try:
            timing = self._device.timer.measure(self._build(case), self._device.case_s)
        except (RuntimeError, NotImplementedError, TypeError) as error:
            self._refused(lane, case, error)
            return None
        if timing.seconds <= 0:  # below what the clock can tell
            return None
        lane.measured.append(len(self._points))
        point = SweepPoint(
            operation=case.operation,
            dtype=case.dtype,
            sizes=case.sizes,
            flops=case.flops,
            bytes=case.bytes,
            seconds=timing.seconds,
            spread=timing.spread,
        )
        self._points.append(point)
        self._cases.append(case)
        self._events.write(point)
        return timing.seconds

    def _refused(self, lane: Lane, case: Case, error: Exception) -> None:
        """That size is left out; a lane that refuses several is ended."""
        self._device.recover()
        if _is_out_of_memory(error):
            return
        lane.refused += 1
        if lane.refused < _MOST_REFUSED:
            return
        lane.waiting.clear()
        words = " ".join(str(error).split())[:200]
        what = f"{case.operation} in {case.dtype}"
        self._events.write(SweepLack(f"some sizes of {what}" if lane.measured else what, words))

    def _hold(self, number: int) -> None:
        seconds = self._points[number].seconds
        self._held.add(number)
        try:
            held = self._device.timer.hold(self._build(self._cases[number]), seconds, self._hold_s)
        except RuntimeError as error:
            if not _is_out_of_memory(error):
                raise
            self._device.recover()
            return
        self._events.write(SweepHeld(number, held.begin_s, held.end_s, held.seconds))

    def _build(self, case: Case) -> List[Call]:
        copies = self._device.most_copies
        if case.bytes > 0:
            copies = int(min(copies, 1 + self._device.cache_bytes // case.bytes))
        return self._calls(case, self._device.place, copies)

    def _first_pace(self) -> Pace:
        """What a middling product and an addition reach."""
        side, elements = self._device.first_sizes
        rates = []
        for operation, sizes in (
            ("linear", {"m": side, "n": side, "k": side}),
            ("elementwise", {"elements": elements, "operands": 3}),
        ):
            flops, moved = count(operation, sizes, "float32")
            case = Case(operation, operation, "float32", sizes, flops, moved)
            timing = self._device.timer.measure(self._build(case), self._device.case_s)
            rates.append((flops if operation == "linear" else moved) / timing.seconds)
        return Pace(rates[0], rates[1])


def _is_out_of_memory(error: Exception) -> bool:
    known = getattr(torch, "OutOfMemoryError", torch.cuda.OutOfMemoryError)
    return isinstance(error, known) or "not enough memory" in str(error)
