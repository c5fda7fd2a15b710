"""Every layer of a network under every dataflow: energy by level and operand, words moved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from trainload.estimate.dataflow.accelerator import DATAFLOWS, Accelerator
from trainload.estimate.dataflow.nest import find_mapping
from trainload.estimate.dataflow.shapes import LayerType, LoopShape, NamedShape

LEVELS = ("mac", "register", "array", "buffer", "dram")
OPERANDS = ("input", "weight", "sum")


@dataclass(frozen=True, kw_only=True)
class FlowEstimate:
    """One layer, or several together, under one dataflow."""

    dataflow: str
    energy: float
    """In multiply-adds."""
    energy_by_level: Mapping[str, float]
    words: Mapping[str, Mapping[str, float]]
    """Level -> operand -> words read or written there."""
    elements: int | None
    """That work at once; None of several layers."""
    mapping: Mapping[str, object]
    """How the layer is laid onto the array and the buffer; empty of several layers."""


@dataclass(frozen=True, kw_only=True)
class LayerFlows:
    """A layer under every dataflow."""

    name: str
    type: LayerType
    macs: int
    flows: Mapping[str, FlowEstimate | None]
    """By dataflow; None where its smallest mapping does not fit."""

    def ratio(self, dataflow: str) -> float | None:
        """Its energy over that of row stationary; None where either does not fit."""
        return _ratio(self.flows, dataflow)


@dataclass(frozen=True, kw_only=True)
class DataflowEstimate:
    """A network on a spatial accelerator."""

    title: str
    batch_size: int
    accelerator: Accelerator
    layers: tuple[LayerFlows, ...]

    def total(self, kind: LayerType | None = None) -> LayerFlows | None:
        """All layers of a type together, of both without one; None where there is none."""
        chosen = [layer for layer in self.layers if kind in (None, layer.type)]
        if not chosen:
            return None
        return LayerFlows(
            name=f"all {kind}" if kind else "all",
            type=chosen[0].type,
            macs=sum(layer.macs for layer in chosen),
            flows={name: _together(name, [la.flows[name] for la in chosen]) for name in DATAFLOWS},
        )


def estimate_dataflows(
    title: str, layers: Iterable[NamedShape], batch_size: int, hardware: Accelerator
) -> DataflowEstimate:
    """Each layer under each dataflow, by its cheapest mapping."""
    found = tuple(
        LayerFlows(
            name=layer.name,
            type=layer.type,
            macs=layer.shape.macs * layer.shape.groups,
            flows={name: _estimate(layer.shape, name, _Frozen(hardware)) for name in DATAFLOWS},
        )
        for layer in layers
    )
    return DataflowEstimate(title=title, batch_size=batch_size, accelerator=hardware, layers=found)


class _Frozen:
    """An accelerator as a key: equal where all its figures are."""

    def __init__(self, hardware: Accelerator) -> None:
        self.hardware = hardware
        self.key = repr(hardware)

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Frozen) and other.key == self.key


@lru_cache(maxsize=4096)
def _estimate(shape: LoopShape, dataflow: str, frozen: _Frozen) -> FlowEstimate | None:
    hardware = frozen.hardware
    found = find_mapping(shape, dataflow, hardware)
    if found is None:
        return None
    one, moved, groups = found.one_pass, found.moved, shape.groups
    words = {
        "register": (one.register_input, one.register_weight, one.register_sum),
        "array": (one.array_input, moved.array_weight, one.array_sum),
        "buffer": (moved.buffer_input, moved.buffer_weight, moved.buffer_sum),
        "dram": (moved.dram_input, moved.dram_weight, moved.dram_sum),
    }
    told = {
        level: {name: groups * value for name, value in zip(OPERANDS, values, strict=True)}
        for level, values in words.items()
    }
    levels = {
        level: getattr(hardware.energy, level) * sum(values.values())
        for level, values in told.items()
    }
    return FlowEstimate(
        dataflow=dataflow,
        energy=found.energy * groups,
        energy_by_level={"mac": hardware.energy.mac * shape.macs * groups, **levels},
        words=told,
        elements=one.elements,
        mapping={
            "pass": {
                "filters": one.filters,
                "channels": one.channels,
                "rows": one.rows,
                "columns": one.columns,
            },
            "tile": {
                "images": found.tile.images,
                "rows": found.tile.rows,
                "filters": found.tile.filters,
                "channels": found.tile.channels,
            },
            "innermost": found.tile.innermost,
            "buffer_words": moved.held_words,
        },
    )


def _together(name: str, parts: Sequence[FlowEstimate | None]) -> FlowEstimate | None:
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    return FlowEstimate(
        dataflow=name,
        energy=sum(part.energy for part in known),
        energy_by_level={
            level: sum(part.energy_by_level[level] for part in known) for level in LEVELS
        },
        words={
            level: {
                operand: sum(part.words[level][operand] for part in known) for operand in OPERANDS
            }
            for level in LEVELS[1:]
        },
        elements=None,
        mapping={},
    )


def _ratio(flows: Mapping[str, FlowEstimate | None], dataflow: str) -> float | None:
    one, base = flows[dataflow], flows["row"]
    return None if one is None or base is None else one.energy / base.energy
