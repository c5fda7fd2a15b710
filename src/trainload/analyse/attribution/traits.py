"""What the names of a window's operations tell of how a training is set up and what it repeats.

Reads a window's columns; gives no time to any part and judges nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainload.analyse.attribution.events import Role, Window
from trainload.analyse.attribution.steps import HostStep
from trainload.analyse.attribution.types import Loader, Traits, UpdateForm, WindowTraits

_TOLD_NOTHING = (-1, -2)
"""In place of sequence numbers, where none tell whether there are gradients."""
_OPTIMIZER = re.compile(r"Optimizer\.step#(\w+)\.step")
_FULL = re.compile(r"sgemm|simt|f32f32_f32f32|nvjet_sss|scudnn|convolve_s", re.IGNORECASE)
_LOWER = re.compile(r"bf16|f16|half|16816|tf32|s1688|nvjet_[th]", re.IGNORECASE)
_COPIES = frozenset({"aten::copy_"})


class TraitsReader:
    """Gathers the traits of a trace, window after window."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._compiled = False
        self._windows: dict[int, WindowTraits] = {}

    def add(self, window: Window, steps: Sequence[HostStep]) -> None:
        """Take in one window; `steps` are those that its times are read from."""
        self._names.update(name for name in window.names if name.startswith(_TELLING))
        self._compiled |= window.compiled
        length_ns = sum(step.end_ns - step.begin_ns for step in steps)
        if length_ns <= 0:
            return
        spans = [(step.begin_ns, step.end_ns) for step in steps]
        self._windows[window.index] = WindowTraits(
            copies_fraction=_within(_copies(window), spans) / length_ns,
            gradientless_fraction=_within(_gradientless(window), spans) / length_ns,
            full_precision_fraction=_within(_full_precision(window), spans) / length_ns,
        )

    def traits(self, modules: Sequence[Mapping[str, Any]]) -> Traits:
        """All windows together, with the trace's table of modules."""
        parameters = sum(module["parameters"] for module in modules)
        held = sum(module["parameter_bytes"] for module in modules)
        optimizers = {m[1] for name in self._names if (m := _OPTIMIZER.match(name))}
        return Traits(
            loader=self._loader(),
            compiled=self._compiled,
            optimizer=optimizers.pop() if len(optimizers) == 1 else None,
            update=self._update() if optimizers or self._has("Optimizer.") else None,
            parameter_bytes=held / parameters if parameters else None,
            windows=self._windows,
        )

    def _has(self, start: str) -> bool:
        return any(name.startswith(start) for name in self._names)

    def _loader(self) -> Loader | None:
        if self._has("enumerate(DataLoader)#_MultiProcessing"):
            return "workers"
        return "main" if self._has("enumerate(DataLoader)#_SingleProcess") else None

    def _update(self) -> UpdateForm:
        if self._has("aten::_fused_"):
            return "fused"
        return "foreach" if self._has("aten::_foreach_") else "single"


_TELLING = ("enumerate(DataLoader)#", "Optimizer.", "aten::_fused_", "aten::_foreach_")


def _copies(window: Window) -> Iterator[tuple[int, int]]:
    """Copies outside of the optimizer and the loader, whose own matter they are."""
    host, roles = window.host, window.roles
    wanted = {at for at, name in enumerate(window.names) if name in _COPIES}
    others = {at for at, role in enumerate(roles) if role in (Role.OPTIMIZER, Role.LOADER)}
    ends: dict[int, int] = {}
    for i in sorted(range(len(host)), key=lambda i: (host.start_ns[i], -host.end_ns[i])):
        name, thread = host.name[i], host.thread[i]
        if name in others:
            ends[thread] = max(ends.get(thread, host.end_ns[i]), host.end_ns[i])
        elif name in wanted and not (thread in ends and host.start_ns[i] < ends[thread]):
            yield host.start_ns[i], host.end_ns[i]


def _full_precision(window: Window) -> Iterator[tuple[int, int]]:
    device = window.device
    full = [bool(_FULL.search(n)) and not _LOWER.search(n) for n in window.names]
    for i, name in enumerate(device.name):
        if full[name]:
            yield device.start_ns[i], device.end_ns[i]


def _gradientless(window: Window) -> Iterator[tuple[int, int]]:
    """Outermost layer ranges whose operations make no node of a backward pass.

    Every operation that makes one takes the next sequence number; without gradients all of them
    show the same one, or none. Compiled graphs make theirs as a whole. What runs inside the loader
    is input.
    """
    host, roles = window.host, window.roles
    order = sorted(range(len(host)), key=lambda i: (host.start_ns[i], -host.end_ns[i]))
    open_until: dict[int, int] = {}
    passes: dict[int, set[int]] = {}
    current: dict[int, set[int]] = {}
    for i in order:
        thread, role = host.thread[i], roles[host.name[i]]
        inside = thread in current and host.start_ns[i] < open_until[thread]
        if role in (Role.LAYER, Role.LOADER) and not inside:
            open_until[thread] = host.end_ns[i]
            current[thread] = set()
            if role is Role.LAYER:
                passes[i] = current[thread]
        elif inside and role is Role.COMPILED:
            current[thread].update(_TOLD_NOTHING)
        elif inside and role is Role.OPERATION and host.sequence[i] >= 0:
            current[thread].add(host.sequence[i])
    for i, numbers in passes.items():
        if len(numbers) <= 1:
            yield host.start_ns[i], host.end_ns[i]


def _within(events: Iterator[tuple[int, int]], spans: Sequence[tuple[int, int]]) -> int:
    """How much of the spans the events take, counted once for each event."""
    total = 0
    for start, end in events:
        total += sum(max(0, min(end, until) - max(start, begin)) for begin, until in spans)
    return total
