"""Whose the kernels of compiled graphs are: what the compiler left, laid beside what ran.

A graph's code is a straight line of calls, each with the modules it was made of; in a trace stand
the calls that ran, in the same order. Reads what the worker said and trusts none of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from trainload.analyse.attribution._values import printable
from trainload.analyse.attribution.correct import share
from trainload.analyse.attribution.partition import Part, StepParts
from trainload.analyse.attribution.timeline import NO_ROOT, Owner

PREFIX = "## Call CompiledFxGraph "
"""Of the ranges that compiled graphs run in; their key follows."""
FUSED = "\x00fused"
"""Root of an owner that stands for several; printable names never begin so."""
_SILENT = "cpp_"
"""Kernels that leave no event: compiled for a CPU."""
_WHOLE = 1_000_000
_MOST = 100_000

Shares = tuple[tuple[str, int], ...]
"""Path below the compiled module, and weight."""
Owners = tuple[tuple[Owner, int], ...]


class Call(NamedTuple):
    """One call of a compiled graph."""

    name: str
    shares: Shares


Graphs = Mapping[str, tuple[Call, ...]]


def parse_graphs(entries: Sequence[Any]) -> dict[str, tuple[Call, ...]]:
    """The graphs by their key; what is not of the form is left out."""
    found = {}
    for entry in entries:
        if not isinstance(entry, Mapping):
            continue
        key, calls = entry.get("key"), entry.get("calls")
        if isinstance(key, str) and isinstance(calls, list):
            parsed = [_call(call) for call in calls[:_MOST]]
            found[key] = tuple(call for call in parsed if call is not None)
    return found


def _call(entry: Any) -> Call | None:
    try:
        name, shares = entry
        return Call(printable(name), tuple(_share(*told) for told in shares))
    except (AttributeError, TypeError, ValueError):
        return None


def _share(_root: Any, path: Any, weight: Any) -> tuple[str, int]:
    if type(path) is not str or type(weight) not in (int, float) or not 0 <= weight <= 1:
        raise ValueError
    return printable(path), round(weight * _WHOLE)


class Compiled:
    """The compiled graphs of one window and the owners that stand for several."""

    def __init__(self, graphs: Graphs, modules: Sequence[Mapping[str, Any]]) -> None:
        self._graphs = graphs
        self._known = {(m["root"], m["layer"]): None for m in modules}
        self._runs: dict[tuple[str, str], int] = {}
        self._numbers: dict[Owners, int] = {}
        self.fused: list[Owners] = []
        self.unknown = False
        """Whether a region ran of whose inside nothing is known."""

    def enter(self, name: str, caller: Owner | None) -> Region | None:
        """The region that a range of this name is; None where nothing is known of its inside."""
        calls = self._graphs.get(name.removeprefix(PREFIX).removesuffix(" ##").strip())
        if calls is None:
            self.unknown = True
            return None
        phase = (caller.phase if caller else None) or "forward"
        base = caller if caller is not None and caller.kind == "layer" else None
        root = base.root if base is not None else next(iter(self._known), (NO_ROOT, ""))[0]
        place = self._place(name, calls, root or NO_ROOT, (base.layer or "") if base else "", phase)
        whole = caller or Owner("layer", root, place, phase)

        def owner_of(path: str) -> Owner:
            full = ".".join(filter(None, (place, path)))
            return Owner("layer", root, full, phase) if self._knows(root, full) else whole

        return Region(calls, whole, owner_of, self._one)

    def _knows(self, root: str | None, layer: str) -> bool:
        return not self._known or (root, layer) in self._known

    def _place(self, name: str, calls: Sequence[Call], root: str, caller: str, phase: str) -> str:
        """The module whose graph this is: the caller, else those below it that fit, in turn.

        Equal blocks share one graph and run in the order of the model, backward in the reverse.
        """
        paths = {path for call in calls for path, _ in call.shares if path}
        fits = [
            place
            for place in self._below(root, caller)
            if all((root, ".".join(filter(None, (place, path)))) in self._known for path in paths)
        ]
        if not paths or not fits or caller in fits:
            return caller
        run = self._runs.get((name, phase), 0)
        self._runs[name, phase] = run + 1
        if phase == "backward":
            fits.reverse()
        return fits[run % len(fits)]

    def _below(self, root: str, caller: str) -> list[str]:
        within = f"{caller}." if caller else ""
        return [
            layer
            for known, layer in self._known
            if known == root and (layer == caller or layer.startswith(within))
        ]

    def _one(self, owners: Owners) -> Owner:
        """One owner for several; `share_fused` gives its time to them."""
        if len(owners) == 1:
            return owners[0][0]
        number = self._numbers.get(owners)
        if number is None:
            number = self._numbers[owners] = len(self.fused)
            self.fused.append(owners)
        return Owner("layer", FUSED, str(number), owners[0][0].phase)

    def share_fused(self, parts: StepParts) -> None:
        """Give the time of fused kernels to their layers, by weight; sums stay exact."""
        for part in [part for part in parts.parts if part.root == FUSED]:
            time_ns, calls = parts.parts.pop(part), parts.calls.pop(part, 0)
            owners = self.fused[int(part.layer or 0)]
            if part.kind != "idle":
                parts.fused_ns += time_ns
            weights = [weight for _, weight in owners]
            for (owner, _), own_ns in zip(owners, share(time_ns, weights), strict=True):
                named = Part(part.kind, owner.root, owner.layer, owner.phase, part.cause)
                parts.add(named, own_ns)
                if calls:
                    parts.calls[named] = parts.calls.get(named, 0) + calls

    def largest(self, layer: tuple[str, str]) -> tuple[str, str]:
        """The layer itself, or the one with the largest part of a fused kernel."""
        if layer[0] != FUSED:
            return layer
        owner = max(self.fused[int(layer[1])], key=lambda entry: entry[1])[0]
        return owner.root or NO_ROOT, owner.layer or ""

    def layers(self) -> list[tuple[str, str]]:
        """Root and path of every layer that a fused kernel has a part of."""
        return [
            (owner.root, owner.layer)
            for owners in self.fused
            for owner, _ in owners
            if owner.root is not None and owner.layer is not None
        ]


class Region:
    """One execution of a compiled graph, while its calls come by."""

    def __init__(
        self,
        calls: Sequence[Call],
        whole: Owner,
        owner_of: Callable[[str], Owner],
        join: Callable[[Owners], Owner],
    ) -> None:
        self._calls, self._whole = calls, whole
        self._owner_of, self._join = owner_of, join
        self._at = 0

    def between(self) -> Owner:
        """Whose the time is until the next call that leaves an event."""
        at, shares = self._at, []
        while at < len(self._calls) and self._calls[at].name.startswith(_SILENT):
            shares += list(self._calls[at].shares)
            at += 1
        return self._owner(shares)

    def take(self, operation: str) -> Owner | None:
        """Whose an operation inside the region is; None where it is none of the graph's."""
        name = operation.rpartition("::")[2]
        for at in range(self._at, len(self._calls)):
            if self._calls[at].name == name:
                self._at = at + 1
                return self._owner(self._calls[at].shares)
        return None

    def _owner(self, shares: Sequence[tuple[str, int]]) -> Owner:
        weights: dict[Owner, int] = {}
        for path, weight in shares:
            owner = self._owner_of(path)
            weights[owner] = weights.get(owner, 0) + weight
        owners = tuple((owner, weight) for owner, weight in weights.items() if weight)
        return self._join(owners) if owners else self._whole
