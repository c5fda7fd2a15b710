"""Counts and bounds of a step and study R's expressions as text; computes and prints nothing."""

from __future__ import annotations

from trainload.columns import render_columns
from trainload.estimate import (
    ComplexityEstimate,
    LayerEstimate,
    MemoryBoundEstimate,
    StepEstimate,
    TimeBoundEstimate,
)
from trainload.estimate.counts.answer import Counted, Study
from trainload.estimate.counts.bounds import NOT_IN_THE_BOUND
from trainload.estimate.counts.traced import TracedStep
from trainload.hardware.catalogue import Device
from trainload.units import MISSING, render_bytes, render_flop, render_seconds

CELL_BYTES = 4
"""Of a cell that holds one float32, for the sizes shown beside study R's cells."""

_VERDICTS = {
    "redundant": "the network's memory is redundant: larger than the sample",
    "can hold the sample": "the network can hold the whole sample",
    "cannot hold the sample": "the network cannot hold the whole sample exactly",
}


def render_counts(
    counted: Counted, device: Device | None, *, layers: int, traced: bool
) -> list[str]:
    """Bounds, counts, so many of the costliest layers, and study R; the bound brief beside a trace.

    Every part begins with an empty line.
    """
    step = counted.step
    parts = ["", *_bound_lines(counted.bound, brief=traced)]
    if counted.time is not None and device is not None:
        parts += ["", *_time_lines(counted.time, device, step)]
    parts += ["", *_total_lines(step)]
    if layers:
        parts += ["", *_layer_lines(step, layers)]
    return [*parts, "", render_study(counted.study)]


def render_traced_counts(
    step: TracedStep, time: TimeBoundEstimate | None, device: Device | None
) -> list[str]:
    """Time and counts of a step that has a trace and no graph, each part behind an empty line."""
    parts = []
    if time is not None and device is not None:
        parts += ["", *_time_lines(time, device, None)]
    intensity = step.intensity_flop_per_byte
    rows = [
        ("parameters", f"{step.parameters:,}"),
        ("FLOPs forward", render_flop(step.flop("forward"))),
        ("FLOPs backward", render_flop(step.flop("backward"))),
        ("bytes moved forward", render_bytes(step.moved_bytes("forward"))),
        ("bytes moved backward", render_bytes(step.moved_bytes("backward"))),
        ("bytes moved by the update", render_bytes(step.moved_bytes("update"))),
        ("arithmetic intensity", MISSING if intensity is None else f"{intensity:.3g} FLOP/byte"),
    ]
    return [*parts, "", *_count_lines("counts, from the traced operations", rows)]


def render_study(study: Study) -> str:
    """Study R's expressions with every term."""
    lines = ["analytic expressions (Jamgharyan 2024, 1 to 4)"]
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


def render_bound_verdict(bound: MemoryBoundEstimate, device: Device | None) -> str:
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
        ("  copies of weights by autocast", bound.weight_copy_bytes),
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


def _time_lines(time: TimeBoundEstimate, device: Device, step: StepEstimate | None) -> list[str]:
    """`step` is None where only a script knows how many examples it has."""
    if time.missing is not None:
        return [f"time: no estimate: {time.missing}"]
    assert time.step_s is not None
    parts = (("forward", time.forward_s), ("backward", time.backward_s), ("update", time.update_s))
    peak = (time.peak or "").removesuffix("_flop_per_s")
    rate = f", at most {step.batch_size / time.step_s:,.4g} examples/s" if step else ""
    reader = "layer" if step else "operation"
    return [
        f"time: at best {render_seconds(time.step_s)} a step on {device.title} (an estimate by "
        f"roofline, a bound){rate}",
        "  " + ", ".join(f"{name} {render_seconds(value)}" for name, value in parts),
        f"  FLOPs alone at the {peak} peak: {render_seconds(time.compute_s)}; each {reader} reads "
        "and writes memory once, which caches and fused kernels can avoid",
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
    return _count_lines("counts", rows)


def _count_lines(title: str, rows: list[tuple[str, str]]) -> list[str]:
    width = max(len(name) for name, _ in rows)
    return [title, *(f"  {name.ljust(width)}  {value}" for name, value in rows)]


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
