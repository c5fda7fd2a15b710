"""The module tree with its times, memory and energy, from parts and the table of modules.

Adds up what others measured; measures nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trainload.analyse.attribution.energy import PowerRange
from trainload.analyse.attribution.host import Layering
from trainload.analyse.attribution.memory import Layer, ObservedMemory
from trainload.analyse.attribution.partition import Part
from trainload.analyse.attribution.types import LayerMemory, LayerNode

_DEEPEST = 100
"""Levels of modules beyond which a path is taken for one name."""


@dataclass(kw_only=True)
class _Branch:
    layer: Layer
    depth: int
    children: list[_Branch] = field(default_factory=list)


def grow_tree(
    *,
    modules: Sequence[Mapping[str, Any]],
    seen: Iterable[Layer],
    layering: Layering,
    times_s: Mapping[Part, float],
    calls: Mapping[Part, float],
    memory: Mapping[Layer, ObservedMemory],
    power: PowerRange | None,
) -> tuple[LayerNode, ...]:
    """Every module in order of the model, parents before children.

    `times_s` and `calls` are means of one step. A parent that never ran itself, such as a list
    of modules, is put in; layers that are annotations or operations stand side by side.
    """
    nested = layering in ("layer ranges", "nn.Module events")
    table = {(m["root"], m["layer"]): m for m in modules}
    roots = _plant([*table, *seen], nested=nested)
    sums = _Sums(times_s, calls)
    nodes: list[LayerNode] = []
    for root in roots:
        _grow(root, nodes, sums, table, memory, power, layering)
    return tuple(nodes)


def _plant(layers: Iterable[Layer], *, nested: bool) -> list[_Branch]:
    found: dict[Layer, _Branch] = {}
    roots: list[_Branch] = []

    def place(layer: Layer) -> _Branch:
        if layer in found:
            return found[layer]
        root, path = layer
        if not path:
            branch = _Branch(layer=layer, depth=0)
            roots.append(branch)
        else:
            deep = path.count(".") > _DEEPEST
            parent = place((root, path.rpartition(".")[0] if nested and not deep else ""))
            branch = _Branch(layer=layer, depth=parent.depth + 1)
            parent.children.append(branch)
        found[layer] = branch
        return branch

    for layer in layers:
        place(layer)
    return roots


class _Sums:
    """Exclusive times by layer."""

    def __init__(self, times_s: Mapping[Part, float], calls: Mapping[Part, float]) -> None:
        self.times: dict[Layer, dict[str, float]] = {}
        self.calls: dict[Layer, float] = {}
        for part, time_s in times_s.items():
            if part.root is None or part.layer is None or part.kind not in ("layer", "idle"):
                continue
            column = "idle" if part.kind == "idle" else part.phase or "forward"
            times = self.times.setdefault((part.root, part.layer), {})
            times[column] = times.get(column, 0.0) + time_s
        for part, count in calls.items():
            if part.kind == "layer" and part.root is not None and part.layer is not None:
                layer = part.root, part.layer
                self.calls[layer] = self.calls.get(layer, 0.0) + count


def _grow(
    branch: _Branch,
    nodes: list[LayerNode],
    sums: _Sums,
    table: Mapping[Layer, Mapping[str, Any]],
    memory: Mapping[Layer, ObservedMemory],
    power: PowerRange | None,
    layering: Layering,
) -> tuple[float, int | None]:
    """Append a branch; answers its inclusive time and highest peak."""
    at = len(nodes)
    nodes.append(None)  # type: ignore[arg-type]  # the parent's place, filled below
    times = sums.times.get(branch.layer, {})
    inclusive_s = sum(times.values())
    observed = memory.get(branch.layer)
    peaks = [observed.peak_bytes if observed else None]
    for child in branch.children:
        child_s, peak = _grow(child, nodes, sums, table, memory, power, layering)
        inclusive_s += child_s
        peaks.append(peak)
    peak = max((p for p in peaks if p is not None), default=None)
    module = table.get(branch.layer)
    nodes[at] = LayerNode(
        root=branch.layer[0],
        layer=branch.layer[1],
        class_name=_class_of(branch.layer, module, layering),
        depth=branch.depth,
        forward_s=times.get("forward", 0.0),
        backward_s=times.get("backward", 0.0),
        update_s=times.get("update", 0.0),
        idle_s=times.get("idle", 0.0),
        inclusive_s=inclusive_s,
        calls=sums.calls.get(branch.layer, 0.0),
        memory=_memory(module, observed, peak) if module else None,
        energy=power.share(inclusive_s) if power else None,
    )
    return inclusive_s, peak


def _class_of(layer: Layer, module: Mapping[str, Any] | None, layering: Layering) -> str | None:
    if module is not None:
        return module["class"]  # type: ignore[no-any-return]
    if layering != "nn.Module events":
        return None
    # Kineto numbers the instances of each class: `Linear_0`.
    name = layer[1].rpartition(".")[2] or layer[0]
    return re.sub(r"_\d+$", "", name)


def _memory(
    module: Mapping[str, Any], observed: ObservedMemory | None, peak: int | None
) -> LayerMemory:
    return LayerMemory(
        parameters=module["parameters"],
        parameter_bytes=module["parameter_bytes"],
        gradient_bytes=module["gradient_bytes"],
        optimizer_bytes=module["optimizer_bytes"],
        activation_bytes=observed.activation_bytes if observed else None,
        peak_bytes=peak,
    )
