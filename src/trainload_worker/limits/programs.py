"""Runs the programs that measure a machine, one after the other, and says what each found.

A program that cannot measure here is said to lack, with its reason; the others go on.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from time import monotonic
from typing import Callable, Dict, Optional, Protocol

from trainload_worker.limits.drives import measure_drive
from trainload_worker.limits.facts import read_facts
from trainload_worker.limits.memory import (
    measure_bandwidth,
    measure_caches,
    measure_latency,
    measure_stalls,
    measure_tlb,
)
from trainload_worker.limits.native import Kernels, load_kernels
from trainload_worker.limits.others import OthersWatch
from trainload_worker.limits.sampling import Lacking, Place
from trainload_worker.protocol.events import Event
from trainload_worker.protocol.measure import MachineFacts, Measured, MeasureLack
from trainload_worker.protocol.spec import MeasureSpec

Program = Callable[[Place], Measured]

_COMPILED: Dict[str, Callable[[Place, Kernels], Measured]] = {
    "memory-bandwidth": measure_bandwidth,
    "cache-bandwidth": measure_caches,
    "memory-latency": measure_latency,
    "tlb-reach": measure_tlb,
    "stalled-load": measure_stalls,
}
_PLAIN: Dict[str, Program] = {"drive-read": measure_drive}


class Says(Protocol):
    """Where events go."""

    def write(self, event: Event) -> bool:
        """Writes one event; False when it was lost."""
        ...


def run_programs(
    spec: MeasureSpec,
    place: Place,
    framework: Callable[[], Dict[str, Program]],
    events: Says,
) -> None:
    """Says the machine's facts, then each program's figures or why it has none.

    `framework` imports what needs one and gives its programs; asked when the first is due. What
    has not begun when the time is over is said to lack.
    """
    events.write(MachineFacts(read_facts(place.folder)))
    begin_s = monotonic()
    programs = _Programs(place, framework)
    for name in spec.programs:
        place.check()
        if monotonic() - begin_s > spec.limit_s:
            events.write(MeasureLack(name, f"no time was left of {spec.limit_s:.0f} s"))
            continue
        try:
            ready = programs.prepare(name)
            others = OthersWatch(place.cores)
            found = ready()
            events.write(replace(found, others_fraction=others.fraction()))
        except Lacking as lack:
            events.write(MeasureLack(name, str(lack)))
        except (OSError, RuntimeError, MemoryError) as error:
            words = " ".join(str(error).split())[:200]
            events.write(MeasureLack(name, f"{type(error).__name__}: {words}"))


class _Programs:
    """The programs by name; what they share is made when it is first needed."""

    def __init__(self, place: Place, framework: Callable[[], Dict[str, Program]]) -> None:
        self._place, self._framework = place, framework
        self._kernels: Optional[Kernels] = None
        self._framed: Optional[Dict[str, Program]] = None

    def prepare(self, name: str) -> Callable[[], Measured]:
        """The program with all it needs, compiled and imported; Lacking where that cannot be."""
        if name in _COMPILED:
            if self._kernels is None:
                self._kernels = load_kernels(self._place.folder)
            return partial(_COMPILED[name], self._place, self._kernels)
        if name in _PLAIN:
            return partial(_PLAIN[name], self._place)
        if self._framed is None:
            self._framed = self._framework()
        if name not in self._framed:
            raise Lacking(f"this worker has no program {name}")
        return partial(self._framed[name], self._place)
