"""Bytes by layer from the allocator's events: activations kept for backward, and the peak.

Reads a window's columns and its host timeline; parameters and their like come from the header.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from trainload.analyse.attribution.events import Window
from trainload.analyse.attribution.steps import HostStep
from trainload.analyse.attribution.timeline import NOWHERE, HostTimeline, Owner

Layer = tuple[str, str]
"""Root and path."""


@dataclass(frozen=True, kw_only=True)
class ObservedMemory:
    """Bytes that the allocator recorded for one layer, its children not included."""

    activation_bytes: int
    peak_bytes: int | None


def observe_memory(
    window: Window, host: HostTimeline, steps: Sequence[HostStep], *, on_cpu: bool
) -> dict[Layer, ObservedMemory]:
    """Memory of every layer that ran in these steps; empty without events of the device."""
    events = window.memory
    mine = [i for i in range(len(events)) if bool(events.on_cpu[i]) == on_cpu]
    if not mine:
        return {}
    mine.sort(key=lambda i: events.at_ns[i])
    kept: dict[Layer, int] = {}
    peaks: dict[Layer, int] = {}
    owners = [_owner(window, host, i) for i in mine]
    for step in steps:
        inside = [
            (i, owner)
            for i, owner in zip(mine, owners, strict=True)
            if step.begin_ns <= events.at_ns[i] < step.end_ns
        ]
        held = _held_at_backward(window, inside, _backward_start(host, step))
        for layer, amount in held.items():
            kept[layer] = max(amount, kept.get(layer, 0))
        for i, owner in inside:
            of = _layer(owner)
            if of is not None and events.total_bytes[i] >= 0:
                peaks[of] = max(events.total_bytes[i], peaks.get(of, 0))
    return {
        layer: ObservedMemory(activation_bytes=kept.get(layer, 0), peak_bytes=peaks.get(layer))
        for layer in host.layers
    }


def _held_at_backward(
    window: Window, inside: Sequence[tuple[int, Owner | None]], backward_ns: int
) -> dict[Layer, int]:
    """Bytes allocated in each layer's forward pass and not freed before an instant."""
    events = window.memory
    live: dict[int, tuple[Layer, int]] = {}
    for i, owner in inside:
        if events.at_ns[i] >= backward_ns:
            break
        change, address = events.change_bytes[i], events.address[i]
        if change < 0:
            live.pop(address, None)
            continue
        layer = _layer(owner)
        if layer is not None and owner is not None and owner.phase == "forward":
            live[address] = layer, change
        else:
            live.pop(address, None)
    held: dict[Layer, int] = {}
    for layer, amount in live.values():
        held[layer] = held.get(layer, 0) + amount
    return held


def _backward_start(host: HostTimeline, step: HostStep) -> int:
    """When the step's first backward pass began; its end where it has none."""
    first = bisect_left(host.backward_starts, step.begin_ns)
    starts = host.backward_starts
    return min(starts[first], step.end_ns) if first < len(starts) else step.end_ns


def _owner(window: Window, host: HostTimeline, i: int) -> Owner | None:
    thread = host.threads.get(window.memory.thread[i])
    state = thread.at(window.memory.at_ns[i]) if thread else NOWHERE
    return None if state == NOWHERE else host.states[state].owner


def _layer(owner: Owner | None) -> Layer | None:
    if owner is None or owner.kind != "layer" or owner.root is None or owner.layer is None:
        return None
    return owner.root, owner.layer
