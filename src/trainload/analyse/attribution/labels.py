"""Events that say themselves whose they are, as columns: operations, ranges and their owners.

Made by the worker from the profilers of TensorFlow, JAX and MXNet. Reads one event's fields and
trusts none of them: what is not of the form raises and is counted as damaged by the caller.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Any, Final, get_args

from trainload.analyse.attribution._values import nanoseconds, printable
from trainload.analyse.attribution.timeline import COMMUNICATION, INPUT, SCRIPT, UPDATE, Owner
from trainload.analyse.attribution.types import Phase

CATEGORIES: Final = {"trainload_op": False, "trainload_range": True}
"""Category -> whether it is a range."""
Owners = tuple[tuple[Owner | None, int], ...]
"""Whose an event is, by weight; None: nobody knows."""

SYNCHRONISE = Owner("idle")
"""Of ranges: the host waited for the device."""
_WHOLE = 1_000_000_000
"""What the weights of one event sum to, about."""
_SLACK = 1_000_000
_MOST_SHARES = 10_000
_PHASES: Final[Mapping[str, Phase]] = {phase: phase for phase in get_args(Phase)}
_KINDS = {
    "update": UPDATE,
    "input": INPUT,
    "copy": Owner("copy"),
    "communication": COMMUNICATION,
    "script": SCRIPT,
    "synchronise": SYNCHRONISE,
}


class LabelledEvents:
    """Operations and ranges of one window; `owners` by the number in `owner`."""

    def __init__(self) -> None:
        self.start_ns, self.end_ns = array("q"), array("q")
        self.lane, self.owner, self.is_range = array("l"), array("l"), array("b")
        self.owners: list[Owners] = []
        self._numbers: dict[Owners, int] = {}
        self._lanes: dict[tuple[Any, Any], int] = {}

    def __len__(self) -> int:
        return len(self.start_ns)

    def add(self, event: Mapping[str, Any]) -> None:
        """Take one event; one of ValueError, TypeError, KeyError where it is damaged."""
        start, length = nanoseconds(event["ts"]), nanoseconds(event["dur"])
        owners = parse_owners(event["args"])
        if length < 0:
            raise ValueError
        place = event.get("pid"), event.get("tid")
        lane = self._lanes.setdefault(place, len(self._lanes))
        self.start_ns.append(start)
        self.end_ns.append(start + length)
        self.lane.append(lane)
        self.owner.append(self._number(owners))
        self.is_range.append(CATEGORIES[event["cat"]])

    def _number(self, owners: Owners) -> int:
        found = self._numbers.get(owners)
        if found is None:
            found = self._numbers[owners] = len(self.owners)
            self.owners.append(owners)
        return found


def parse_owners(arguments: Any) -> Owners:
    """Whose an event is; the root of a layer is left open."""
    if type(arguments) is not dict:
        raise TypeError
    if "shares" in arguments:
        return _parse_shares(arguments["shares"])
    if "layer" in arguments:
        return ((_layer(arguments["layer"], arguments["phase"]), 1),)
    if "kind" not in arguments:
        return ((None, 1),)
    if arguments["kind"] == "loss":
        phase = _PHASES[arguments.get("phase", "forward")]
        return ((Owner("loss", None, None, phase), 1),)
    return ((_KINDS[arguments["kind"]], 1),)


def _parse_shares(shares: Any) -> Owners:
    if type(shares) is not list or not 0 < len(shares) <= _MOST_SHARES:
        raise ValueError
    found: dict[Owner | None, int] = {}
    for name, phase, weight in shares:
        owner = _layer(name, phase)
        found[owner] = found.get(owner, 0) + _weight(weight)
    if abs(sum(found.values()) - _WHOLE) > _SLACK:
        raise ValueError
    return tuple((owner, weight) for owner, weight in found.items() if weight)


def _layer(name: Any, phase: Any) -> Owner:
    if type(name) is not str:
        raise TypeError
    return Owner("layer", None, printable(name), _PHASES[phase])


def _weight(value: Any) -> int:
    """A share in billionths; a number with a point arrives as its text."""
    if type(value) not in (str, int):
        raise TypeError
    share = float(value)
    if not 0 <= share <= 1:
        raise ValueError
    return round(share * _WHOLE)
