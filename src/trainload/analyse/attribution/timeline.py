"""What each host thread was doing at each instant, as values: owners, states, threads.

Holds and answers; how events become states is `host`'s business.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from trainload.analyse.attribution.types import Kind, Phase


class Mode(IntEnum):
    """What a host thread did for an owner: an operation, a range alone, or a synchronisation."""

    OPERATION = 0
    RANGE = 1
    """Inside one of its ranges, in no operation."""
    SYNCHRONISE = 2


class Owner(NamedTuple):
    """To whom an instant of a host thread belongs."""

    kind: Kind
    root: str | None = None
    layer: str | None = None
    phase: Phase | None = None


class State(NamedTuple):
    """An owner and what it was doing."""

    owner: Owner
    mode: Mode


NO_ROOT = "model"
"""Root of layers whose ranges name none."""
_TOP = 2
NOWHERE = 0
"""The state outside of every range and operation."""
SCRIPT = Owner("script")
BARE_BACKWARD = Owner("loss", None, None, "backward")
"""Inside a backward pass but in no node of it: the seed gradient, the engine itself."""
UPDATE = Owner("layer", None, None, "update")
INPUT = Owner("input")
COMMUNICATION = Owner("communication")


class Thread:
    """A thread's states in order of time: each holds from its start to the next one's."""

    __slots__ = ("starts", "states")

    def __init__(self) -> None:
        self.starts, self.states = array("q"), array("l")

    def change(self, at_ns: int, state: int) -> None:
        """Enter a state; one that lasted no time is forgotten."""
        starts, states = self.starts, self.states
        if starts and starts[-1] >= at_ns:
            states[-1] = state
        elif not states or states[-1] != state:
            starts.append(at_ns)
            states.append(state)

    def at(self, at_ns: int) -> int:
        """The state at an instant."""
        found = bisect_right(self.starts, at_ns) - 1
        return self.states[found] if found >= 0 else NOWHERE

    def over(self, start_ns: int, end_ns: int) -> Iterator[tuple[int, int, int]]:
        """The states between two instants as (start, end, state), without gaps."""
        starts, states = self.starts, self.states
        found, at = bisect_right(starts, start_ns) - 1, start_ns
        while at < end_ns:
            following = starts[found + 1] if found + 1 < len(starts) else end_ns
            until = min(following, end_ns)
            if until > at:
                yield at, until, states[found] if found >= 0 else NOWHERE
            at, found = until, found + 1


@dataclass(frozen=True, kw_only=True)
class HostTimeline:
    """The host side of a window, understood."""

    main: int
    """The thread that trains."""
    threads: dict[int, Thread]
    states: list[State]
    """By state number; NOWHERE's entry is a script's and must not be asked."""
    ranks: list[int]
    """By state number: 0 nowhere, 1 merely in a backward pass or the script, 2 somebody's own."""
    backward_starts: list[int]
    """When each node of a backward pass began, in order of time."""
    calls: list[tuple[int, int]]
    """Start and state of each outermost operation on the main thread and of each other node."""
    node_threads: tuple[int, ...]
    """The other threads on which backward nodes ran."""
    asynchronous: list[tuple[int, int]]
    """Spans in which a communication was under way beside the threads; disjoint, sorted."""
    layers: dict[tuple[str, str], None]
    """Root and path of each layer that ran, in order of first appearance."""
    unknown_nodes: int
    """Backward nodes whose forward operation was not found."""

    def over(
        self, start_ns: int, end_ns: int, asked: Sequence[int | None]
    ) -> list[tuple[int, int, int]]:
        """What the host did between two instants: of the threads asked the one that says most.

        Of equals the one asked first.
        """
        found = [(start_ns, end_ns, NOWHERE)]
        for number in dict.fromkeys(asked):
            thread = self.threads.get(number) if number is not None else None
            if thread is None:
                continue
            better: list[tuple[int, int, int]] = []
            for begin, until, state in found:
                rank = self.ranks[state]
                if rank == _TOP:
                    better.append((begin, until, state))
                    continue
                for b, u, other in thread.over(begin, until):
                    better.append((b, u, other if self.ranks[other] > rank else state))
            found = better
            if all(self.ranks[state] == _TOP for *_, state in found):
                break
        return found
