"""What the worker says ahead of its windows: rank, device, steps to use, table of modules.

A header may come from anyone's file: what is not of its form is left out, never trusted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from trainload.analyse.attribution._values import printable
from trainload.analyse.attribution.compiled import Call, parse_graphs
from trainload.analyse.attribution.stacks import WindowStacks, parse_stacks


@dataclass(frozen=True, kw_only=True)
class WindowFacts:
    """One window; steps are numbers of the run, both ends included."""

    index: int
    purpose: str
    first_step: int
    last_step: int
    disturbed: tuple[int, int]
    cost_s: float


@dataclass(frozen=True, kw_only=True)
class TraceHeader:
    """The header of one process's trace; empty for a trace from elsewhere."""

    own: bool = False
    """Whether the trace has one."""
    rank: int = 0
    device: str | None = None
    budget: float | None = None
    windows: Mapping[int, WindowFacts]
    modules: tuple[Mapping[str, Any], ...] = ()
    """root, layer, class, parameters, updated, parameter_bytes, gradient_bytes, optimizer_bytes.

    `updated` are the parameters that an optimizer changes; in older records all of a module with
    gradients or state."""
    graphs: Mapping[str, tuple[Call, ...]] = field(default_factory=dict)
    """Compiled graphs by the key their calls carry."""
    notes: tuple[str, ...] = ()
    stacks: Mapping[int, WindowStacks] = field(default_factory=dict)
    """The host's sampled stacks by window; empty in older records."""

    def times_steps(self, index: int) -> bool:
        """Whether step times are read from a window; from one for memory only without others."""
        timed = any(window.purpose == "time" for window in self.windows.values())
        facts = self.windows.get(index)
        return facts is None or not timed or facts.purpose == "time"


def parse_header(header: Mapping[str, Any] | None) -> TraceHeader:
    """The header as values."""
    if header is None:
        return TraceHeader(windows={})
    rank, device, budget = (header.get(key) for key in ("rank", "device", "budget"))
    windows = [_window(entry) for entry in _items(header, "windows")]
    modules = [_module(entry) for entry in _items(header, "modules")]
    return TraceHeader(
        own=True,
        rank=rank if _is_count(rank) else 0,
        device=printable(device) if isinstance(device, str) else None,
        budget=float(budget) if _is_number(budget) else None,
        windows={window.index: window for window in windows if window is not None},
        modules=tuple(module for module in modules if module is not None),
        graphs=parse_graphs(_items(header, "compiled")),
        notes=tuple(printable(n) for n in _items(header, "notes") if isinstance(n, str)),
        stacks=parse_stacks(_items(header, "host")),
    )


def _items(header: Mapping[str, Any], key: str) -> list[Any]:
    found = header.get(key)
    return found if isinstance(found, list) else []


def _window(entry: Any) -> WindowFacts | None:
    if not isinstance(entry, Mapping):
        return None
    index, first, last = (entry.get(key) for key in ("index", "first_step", "last_step"))
    if not (_is_count(index) and _is_count(first) and _is_count(last)):
        return None
    disturbed, cost_s = entry.get("disturbed"), entry.get("cost_s")
    edges = first, last
    if isinstance(disturbed, list) and len(disturbed) == 2 and all(map(_is_whole, disturbed)):
        edges = disturbed[0], disturbed[1]
    return WindowFacts(
        index=index,
        purpose="memory" if entry.get("purpose") == "memory" else "time",
        first_step=first,
        last_step=last,
        disturbed=edges,
        cost_s=float(cost_s) if _is_number(cost_s) else 0.0,
    )


def _module(entry: Any) -> Mapping[str, Any] | None:
    if not isinstance(entry, Mapping):
        return None
    root, layer = entry.get("root"), entry.get("layer")
    if not (isinstance(root, str) and isinstance(layer, str)):
        return None
    counts = {
        key: entry.get(key) if _is_count(entry.get(key)) else missing
        for key, missing in (
            ("parameters", 0),
            ("parameter_bytes", 0),
            ("gradient_bytes", None),
            ("optimizer_bytes", None),
        )
    }
    trained = counts["gradient_bytes"] is not None or counts["optimizer_bytes"] is not None
    updated = entry.get("updated")
    if not _is_count(updated):
        updated = counts["parameters"] if trained else 0
    name = entry.get("class")
    return {
        "root": printable(root),
        "layer": printable(layer),
        "class": printable(name) if isinstance(name, str) else None,
        "updated": updated,
        **counts,
    }


def _is_whole(value: Any) -> TypeGuard[int]:
    return type(value) is int and abs(value) < 1 << 61


def _is_count(value: Any) -> TypeGuard[int]:
    return _is_whole(value) and value >= 0


def _is_number(value: Any) -> TypeGuard[float]:
    return type(value) in (int, float) and abs(value) < 1e18
