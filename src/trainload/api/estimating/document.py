"""An estimate as the document that is shown and kept: plain figures with low and high end.

Fills the record's types; opens no file and computes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from trainload.estimate.counts.bounds import NOT_IN_THE_BOUND
from trainload.estimate.memory.fit import LEAST_CHANCE
from trainload.estimate.memory.replay import thin_curve
from trainload.record.estimates import (
    RecordedEstimate,
    RecordedFigures,
    RecordedMemory,
    RecordedOptimizer,
)

if TYPE_CHECKING:
    from trainload.analyse.peaks import MeasuredSteps
    from trainload.api.estimating.result import Estimate
    from trainload.estimate import LayerEstimate
    from trainload.estimate.counts.answer import Counted, Study
    from trainload.estimate.memory.answer import MemoryAnswer

JSON_POINTS = 400
"""Points of the curve at most; of each stretch the one that holds most."""
_MEMORY = ("allocated_bytes", "reserved_bytes", "device_bytes", "needed_bytes")
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


def record_estimate(done: Estimate) -> RecordedEstimate:
    """Every figure with its unit in its name, every layer."""
    choice, counts = done.choice, done.counts
    rule = choice.optimizer if choice is not None else None
    return RecordedEstimate(
        model=done.title if counts is None else counts.step.model,
        batch_size=choice.batch_size if choice is not None else None,
        precision=choice.precision if choice is not None else None,
        optimizer=None
        if rule is None
        else RecordedOptimizer(name=rule.name, momentum=rule.momentum),
        device=done.device.to_json() if done.device is not None else None,
        memory=_memory(done.memory, done.measured),
        **(_of_code(done) if counts is None else _of_graph(counts)),
    )


def _of_code(done: Estimate) -> Mapping[str, Any]:
    """The user's own code has no graph: counts are those of its traced operations."""
    step, time = done.memory.step, done.time
    if step is None:
        return {}
    counts: dict[str, Any] = {"parameters": step.parameters}
    for phase in ("forward", "backward", "update"):
        counts[f"{phase}_flop"] = step.flop(phase)
        counts[f"{phase}_moved_bytes"] = step.moved_bytes(phase)
    return {
        "totals": {
            **counts,
            "flop": step.flop(),
            "moved_bytes": step.moved_bytes(),
            "intensity_flop_per_byte": step.intensity_flop_per_byte,
        },
        "time": None if time is None else {"bound": "roofline", **asdict(time)},
    }


def _of_graph(counts: Counted) -> Mapping[str, Any]:
    step, bound, time = counts.step, counts.bound, counts.time
    return {
        "memory_bound": {
            "bound": "lower",
            "bound_bytes": bound.bound_bytes,
            "sum_bytes": bound.sum_bytes,
            # A lower bound can show that a step does not fit, never that it does.
            "fits": False if bound.verdict == "does not fit" else None,
            **{key: value for key, value in asdict(bound).items() if key != "bound_bytes"},
            "not_counted": NOT_IN_THE_BOUND,
        },
        "time": {"bound": "roofline", **asdict(time)} if time is not None else None,
        "totals": {
            **{name: step.total(name) for name in _COUNTS},
            "intensity_flop_per_byte": step.intensity_flop_per_byte,
        },
        "study_r": study_json(counts.study),
        "layers": tuple(_layer(layer) for layer in step.layers),
    }


def _layer(layer: LayerEstimate) -> Mapping[str, Any]:
    return {
        "name": layer.name,
        "kind": layer.kind,
        "output_shape": layer.output_shape,
        **{name: getattr(layer, name) for name in _COUNTS},
        "intensity_flop_per_byte": layer.intensity_flop_per_byte,
    }


def _memory(answer: MemoryAnswer, measured: MeasuredSteps | None) -> RecordedMemory:
    """Plain numbers, each with its low and high end; None where nothing was traced."""
    estimate = answer.estimate
    figures: dict[str, Any] = _figures(answer, "value_bytes")
    if estimate is not None:
        figures |= {
            "fits": estimate.fits,
            "capacity_bytes": estimate.capacity_bytes,
            "running_out_probability": estimate.running_out,
            "least_probability": LEAST_CHANCE,
            "peak": asdict(estimate.peak),
            "curve": tuple(asdict(point) for point in thin_curve(estimate.curve, JSON_POINTS)),
            "room": asdict(estimate.room),
        }
    return RecordedMemory(
        **figures,
        low=RecordedFigures(**_figures(answer, "low_bytes")),
        high=RecordedFigures(**_figures(answer, "high_bytes")),
        verdict="not known" if estimate is None else estimate.verdict,
        target=answer.target,
        missing=answer.missing,
        notes=answer.notes,
        what_would_help=tuple(asdict(one) for one in answer.alternatives),
        largest_batch=asdict(answer.largest_batch) if answer.largest_batch else None,
        measured=_measured(measured) if measured else None,
    )


def _measured(measured: MeasuredSteps) -> Mapping[str, Any]:
    said = {"path": measured.path, "outcome": measured.outcome, "steps": measured.steps}
    return {**said, **asdict(measured.peak)}


def _figures(answer: MemoryAnswer, end: str) -> dict[str, Any]:
    estimate, ram = answer.estimate, answer.ram
    growth = None if ram is None else getattr(ram.growth_bytes, end)
    if estimate is None:
        return {"ram_growth_bytes": growth}
    figures: dict[str, Any] = {name: getattr(getattr(estimate, name), end) for name in _MEMORY}
    fits = estimate.would_fit(figures["needed_bytes"])
    return {**figures, "ram_growth_bytes": growth, "fits": fits}


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
