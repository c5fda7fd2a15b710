"""What `trainload estimate` shows: the same estimate as text and as JSON; computes nothing."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from trainload.api.estimating.document import memory_json
from trainload.api.estimating.sources import StepChoice
from trainload.cli.printing import render_columns
from trainload.estimate import (
    ComplexityEstimate,
    LayerEstimate,
    MemoryBoundEstimate,
    MemoryCellsEstimate,
    RedundancyEstimate,
    StepEstimate,
    TimeBoundEstimate,
)
from trainload.estimate.memory.answer import MemoryAnswer
from trainload.hardware.catalogue import Device
from trainload.units import MISSING, render_bytes, render_flop, render_seconds

CELL_BYTES = 4
"""Of a cell that holds one float32, for the sizes shown beside study R's cells."""

NOT_IN_THE_BOUND = (
    "gradients of activations and other temporaries",
    "workspaces of convolutions and products",
    "the allocator's rounding and fragments",
    "the context of the device and the process itself",
)

_COUNTS = (
    "parameters",
    "forward_flop",
    "backward_flop",
    "flop",
    "kept_bytes",
    "weight_copy_bytes",
    "forward_moved_bytes",
    "backward_moved_bytes",
    "update_moved_bytes",
    "moved_bytes",
    "weight_bytes",
    "buffer_bytes",
    "gradient_bytes",
    "optimizer_bytes",
)

_VERDICTS = {
    "redundant": "the network's memory is redundant: larger than the sample",
    "can hold the sample": "the network can hold the whole sample",
    "cannot hold the sample": "the network cannot hold the whole sample exactly",
}


@dataclass(frozen=True, kw_only=True)
class Study:
    """Study R's expressions; those that lack a number are None."""

    complexity: ComplexityEstimate | None
    cells: MemoryCellsEstimate | None
    redundancy: RedundancyEstimate | None


@dataclass(frozen=True, kw_only=True)
class Counted:
    """What a graph alone tells of a step."""

    step: StepEstimate
    bound: MemoryBoundEstimate
    time: TimeBoundEstimate | None
    study: Study


@dataclass(frozen=True, kw_only=True)
class Estimated:
    """All that one call estimated."""

    memory: MemoryAnswer
    head: str
    """What is trained and how, in one line."""
    device: Device | None
    choice: StepChoice | None
    """None for a script, which brings its own."""
    counted: Counted | None
    """None for the user's own code, whose layers have no graph."""


def estimated_json(done: Estimated) -> dict[str, Any]:
    """Every figure with its unit in its name, every layer."""
    choice, counted = done.choice, done.counted
    rule = choice.optimizer if choice is not None else None
    document: dict[str, Any] = {
        "origin": "estimate",
        "model": done.memory.title if counted is None else counted.step.model,
        "batch_size": choice.batch_size if choice is not None else None,
        "precision": choice.precision if choice is not None else None,
        "optimizer": None if rule is None else {"name": rule.name, "momentum": rule.momentum},
        "device": done.device.to_json() if done.device is not None else None,
        "memory": memory_json(done.memory),
        "memory_bound": None,
        "time": None,
        "totals": None,
        "study_r": None,
        "layers": [],
    }
    if counted is None:
        if done.memory.parameters is not None:
            document["totals"] = {"parameters": done.memory.parameters}
        return document
    step, bound, time = counted.step, counted.bound, counted.time
    return document | {
        "memory_bound": {
            "bound": "lower",
            "bound_bytes": bound.bound_bytes,
            "sum_bytes": bound.sum_bytes,
            # A lower bound can show that a step does not fit, never that it does.
            "fits": False if bound.verdict == "does not fit" else None,
            **{key: value for key, value in asdict(bound).items() if key != "bound_bytes"},
            "not_counted": list(NOT_IN_THE_BOUND),
        },
        "time": {"bound": "roofline", **asdict(time)} if time is not None else None,
        "totals": {
            **{name: step.total(name) for name in _COUNTS},
            "intensity_flop_per_byte": step.intensity_flop_per_byte,
        },
        "study_r": study_json(counted.study),
        "layers": [_layer_json(layer) for layer in step.layers],
    }


def study_json(study: Study) -> dict[str, Any]:
    """Each expression with its terms, formula and source; null where a number is lacking."""
    document: dict[str, Any] = {"memory_cells": None, "complexity": None, "redundancy": None}
    cells, complexity, redundancy = study.cells, study.complexity, study.redundancy
    if cells is not None:
        document["memory_cells"] = {
            "formula": cells.formula,
            "source": cells.source,
            **asdict(cells),
            "data_cells": cells.data_cells,
            "weight_cells": cells.weight_cells,
            "variable_cells": cells.variable_cells,
            "cells": cells.cells,
        }
    if complexity is not None:
        document["complexity"] = {
            "formula_t1": complexity.sequential_formula,
            "formula_t2": complexity.parallel_formula,
            "source": complexity.source,
            "reading": complexity.reading,
            "t1_operations": complexity.sequential_operations,
            "t2_operations": complexity.parallel_operations,
            "neurons": complexity.neurons,
            "layers": [asdict(layer) for layer in complexity.layers],
        }
    if redundancy is not None:
        document["redundancy"] = {
            "formula": redundancy.formula,
            "source": redundancy.source,
            **asdict(redundancy),
            "k1": redundancy.k1,
            "verdict": redundancy.verdict,
        }
    return document


def render_estimated(done: Estimated, layers: int) -> str:
    """The verdict first, why, what would help; then bounds, counts, layers and study R."""
    memory, counted = done.memory, done.counted
    traced = memory.estimate is not None or memory.ram is not None
    if traced or memory.measured is not None:
        parts = _memory_parts(done)
    else:
        assert counted is not None, "without a trace there is a graph"
        parts = [_bound_verdict(counted.bound, done.device), done.head]
        parts.append(f"only a lower bound: {memory.missing}")
    if counted is None:
        if memory.parameters is not None:
            parts += ["", f"counts: {memory.parameters:,} parameters"]
        return "\n".join(parts)
    step = counted.step
    parts += ["", *_bound_lines(counted.bound, brief=traced)]
    if counted.time is not None and done.device is not None:
        parts += ["", *_time_lines(counted.time, done.device, step)]
    parts += ["", *_total_lines(step)]
    if layers:
        parts += ["", *_layer_lines(step, layers)]
    return "\n".join([*parts, "", render_study(counted.study)])


def _memory_parts(done: Estimated) -> list[str]:
    # Not at the top: without a trace the answer is there before this is imported.
    from trainload.report.memory.terminal import measured_lines, memory_lines

    if done.memory.measured is not None:
        return [done.head, "", *measured_lines(done.memory.measured)]
    return memory_lines(done.memory, done.head)


def render_study(study: Study) -> str:
    """Study R's expressions with every term."""
    lines = ["study R (Jamgharyan 2024, expressions 1 to 4)"]
    lines += _complexity_lines(study.complexity)
    if study.cells is None or study.redundancy is None:
        return "\n".join([*lines, "  N_na, K1: need the sample's size; give --samples"])
    cells, sample = study.cells, study.cells.sample
    size = render_bytes(cells.cells * CELL_BYTES)
    lines += [
        f"  {cells.formula}",
        f"    data       {cells.cells_per_datum:g} × {sample.samples:,} × ({sample.inputs:,} + "
        f"{sample.outputs:,}) = {cells.data_cells:,.0f} cells",
        f"    weights    {cells.cells_per_weight:g} × {cells.weights:,} = "
        f"{cells.weight_cells:,.0f} cells",
        f"    variables  {cells.cells_per_variable:g} × {cells.variables:,} = "
        f"{cells.variable_cells:,.0f} cells",
        f"    N_na = {cells.cells:,.0f} cells, {size} where a cell holds {CELL_BYTES} bytes; 25 to "
        "30 % more to reverse engineer overfitted models",
        f"  {study.redundancy.formula} = {cells.weights:,} / ({sample.samples:,} × "
        f"{sample.inputs:,}) = {study.redundancy.k1:.4g}: {_VERDICTS[study.redundancy.verdict]}",
    ]
    return "\n".join(lines)


def _complexity_lines(complexity: ComplexityEstimate | None) -> list[str]:
    if complexity is None:
        return ["  T1, T2: need the layers; name a model"]
    return [
        f"  {complexity.sequential_formula} = {complexity.sequential_operations:,} operations of "
        f"{complexity.neurons:,} neurons, one after another",
        f"  {complexity.parallel_formula} = {complexity.parallel_operations:,} operations where "
        "all neurons of a layer compute at once",
        f"    {complexity.reading}",
    ]


def render_head(title: str, choice: StepChoice | None) -> str:
    """What is trained and how, in one line."""
    if choice is None:
        return f"{title}: one training step as the script does it"
    rule = choice.optimizer
    name: str = rule.name
    if name == "sgd" and rule.momentum:
        name = f"sgd with momentum {rule.momentum:g}"
    examples = "example" if choice.batch_size == 1 else "examples"
    how = f"{choice.batch_size:,} {examples}, {choice.precision}, {name}"
    return f"{title}: one training step of {how}"


def _bound_verdict(bound: MemoryBoundEstimate, device: Device | None) -> str:
    """What the lower bound alone can tell."""
    least = render_bytes(bound.bound_bytes)
    if device is None:
        return f"memory: at least {least}"
    if bound.capacity_bytes is None:
        return f"memory: at least {least}; the entry of {device.name} states no memory"
    capacity = render_bytes(bound.capacity_bytes)
    if bound.verdict == "does not fit":
        return f"does not fit: a step needs at least {least}, {device.title} has {capacity}"
    return (
        f"not known: a step needs at least {least} of the {capacity} of {device.title}; "
        "this does not show that it fits"
    )


def _bound_lines(bound: MemoryBoundEstimate, *, brief: bool) -> list[str]:
    if brief:
        least = render_bytes(bound.bound_bytes)
        return [f"least memory, from the layer graph alone: {least} (all parts: --counts)"]
    rows = [
        ("  weights", bound.weight_bytes),
        ("  buffers", bound.buffer_bytes),
        ("  gradients", bound.gradient_bytes),
        ("  optimizer state", bound.optimizer_bytes),
        ("  activations kept for backward", bound.kept_bytes),
        ("  bf16 copies of weights", bound.weight_copy_bytes),
    ]
    shown = [(name, render_bytes(size)) for name, size in rows if size]
    shown.append(("  sum of all parts", render_bytes(bound.sum_bytes)))
    shown.append(("  most of them at one moment", render_bytes(bound.bound_bytes)))
    width = max(len(name) for name, _ in shown)
    return [
        "least memory, from the layer graph alone",
        *(f"{name.ljust(width)}  {size:>9}" for name, size in shown),
        f"  a lower bound; not in it: {', '.join(NOT_IN_THE_BOUND)}",
    ]


def _time_lines(time: TimeBoundEstimate, device: Device, step: StepEstimate) -> list[str]:
    if time.missing is not None:
        return [f"time: no estimate: {time.missing}"]
    assert time.step_s is not None and time.peak is not None
    parts = (("forward", time.forward_s), ("backward", time.backward_s), ("update", time.update_s))
    peak = time.peak.removesuffix("_flop_per_s")
    rate = f"{step.batch_size / time.step_s:,.4g} examples/s"
    return [
        f"time: at best {render_seconds(time.step_s)} a step on {device.title} (an estimate by "
        f"roofline, a bound), at most {rate}",
        "  " + ", ".join(f"{name} {render_seconds(value)}" for name, value in parts),
        f"  FLOPs alone at the {peak} peak: {render_seconds(time.compute_s)}; each layer reads and "
        "writes memory once, which caches and fused kernels can avoid",
    ]


def _total_lines(step: StepEstimate) -> list[str]:
    rows = [
        ("parameters", f"{step.total('parameters'):,}"),
        ("FLOPs forward", render_flop(step.total("forward_flop"))),
        ("FLOPs backward", render_flop(step.total("backward_flop"))),
        ("bytes moved forward", render_bytes(step.total("forward_moved_bytes"))),
        ("bytes moved backward", render_bytes(step.total("backward_moved_bytes"))),
        ("bytes moved by the update", render_bytes(step.total("update_moved_bytes"))),
        ("arithmetic intensity", f"{step.intensity_flop_per_byte:.3g} FLOP/byte"),
    ]
    width = max(len(name) for name, _ in rows)
    return ["counts", *(f"  {name.ljust(width)}  {value}" for name, value in rows)]


def _layer_lines(step: StepEstimate, count: int) -> list[str]:
    ranked = sorted(step.layers, key=lambda layer: (-layer.flop, -layer.moved_bytes))[:count]
    total = step.total("flop")
    rows = [
        (
            layer.name,
            layer.kind,
            f"{layer.parameters:,}" if layer.parameters else "",
            render_flop(layer.forward_flop),
            render_flop(layer.backward_flop),
            f"{layer.flop / total * 100:.1f} %" if total else MISSING,
            render_bytes(layer.kept_bytes),
            render_bytes(layer.moved_bytes),
            _intensity(layer),
        )
        for layer in ranked
    ]
    titles = (
        "layer", "kind", "parameters", "forward", "backward", "share", "kept", "moved", "FLOP/byte",
    )  # fmt: skip
    head = f"the {len(ranked)} layers with the most FLOPs, of {len(step.layers)}"
    return [head, render_columns(titles, rows, right=set(range(2, 9)))]


def _intensity(layer: LayerEstimate) -> str:
    value = layer.intensity_flop_per_byte
    return MISSING if value is None else f"{value:.3g}"


def _layer_json(layer: LayerEstimate) -> dict[str, Any]:
    return {
        "name": layer.name,
        "kind": layer.kind,
        "output_shape": list(layer.output_shape),
        **{name: getattr(layer, name) for name in _COUNTS},
        "intensity_flop_per_byte": layer.intensity_flop_per_byte,
    }
