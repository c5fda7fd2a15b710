"""What `trainload estimate` shows: the same estimate as text and as JSON; computes nothing."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

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
class Estimated:
    """All that one call estimated."""

    step: StepEstimate
    device: Device | None
    memory: MemoryBoundEstimate
    time: TimeBoundEstimate | None
    study: Study


def estimated_json(done: Estimated) -> dict[str, Any]:
    """Every figure with its unit in its name, every layer."""
    step, memory = done.step, done.memory
    return {
        "origin": "estimate",
        "model": step.model,
        "batch_size": step.batch_size,
        "precision": step.precision,
        "optimizer": {"name": step.optimizer.name, "momentum": step.optimizer.momentum},
        "device": done.device.to_json() if done.device is not None else None,
        "memory": {
            "bound": "lower",
            "bound_bytes": memory.bound_bytes,
            "sum_bytes": memory.sum_bytes,
            # A lower bound can show that a step does not fit, never that it does.
            "fits": False if memory.verdict == "does not fit" else None,
            **{key: value for key, value in asdict(memory).items() if key != "bound_bytes"},
            "not_counted": list(NOT_IN_THE_BOUND),
        },
        "time": {"bound": "roofline", **asdict(done.time)} if done.time is not None else None,
        "totals": {
            **{name: step.total(name) for name in _COUNTS},
            "intensity_flop_per_byte": step.intensity_flop_per_byte,
        },
        "study_r": study_json(done.study),
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
    """Memory first, then time, counts, the costliest layers and study R."""
    step = done.step
    head = (
        f"{step.model}: one training step of {step.batch_size} example(s), {step.precision}, "
        f"{_optimizer_words(done.step)}"
    )
    parts = [head, "", *_memory_lines(done)]
    if done.time is not None and done.device is not None:
        parts += ["", *_time_lines(done.time, done.device, step)]
    parts += ["", *_total_lines(step)]
    if layers:
        parts += ["", *_layer_lines(step, layers)]
    return "\n".join([*parts, "", render_study(done.study)])


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


def _optimizer_words(step: StepEstimate) -> str:
    name = step.optimizer.name
    if name != "sgd":
        return name
    return f"sgd with momentum {step.optimizer.momentum:g}" if step.optimizer.momentum else "sgd"


def _memory_lines(done: Estimated) -> list[str]:
    memory = done.memory
    bound = render_bytes(memory.bound_bytes)
    if done.device is None:
        first = f"memory: at least {bound}"
    elif memory.device_bytes is None:
        first = f"memory: at least {bound}; the entry of {done.device.name} states no memory"
    elif memory.verdict == "does not fit":
        first = (
            f"does not fit: a step needs at least {bound}, "
            f"{done.device.title} has {render_bytes(memory.device_bytes)}"
        )
    else:
        first = (
            f"memory: at least {bound} of the {render_bytes(memory.device_bytes)} of "
            f"{done.device.title}; this does not show that it fits"
        )
    rows = [
        ("  weights", memory.weight_bytes),
        ("  buffers", memory.buffer_bytes),
        ("  gradients", memory.gradient_bytes),
        ("  optimizer state", memory.optimizer_bytes),
        ("  activations kept for backward", memory.kept_bytes),
        ("  bf16 copies of weights", memory.weight_copy_bytes),
    ]
    shown = [(name, render_bytes(size)) for name, size in rows if size]
    shown.append(("  sum of all parts", render_bytes(memory.sum_bytes)))
    shown.append(("  most of them at one moment", bound))
    width = max(len(name) for name, _ in shown)
    return [
        first,
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
