"""All that a layer graph alone tells of a step: counts, bounds, study R's expressions.

Puts together what its neighbours compute; traces nothing and reads no device.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from trainload.estimate.counts.bounds import (
    MemoryBoundEstimate,
    TimeBoundEstimate,
    estimate_memory_bound,
    estimate_time_bound,
)
from trainload.estimate.counts.expressions import (
    ComplexityEstimate,
    MemoryCellsEstimate,
    RedundancyEstimate,
    Sample,
    algorithm_variables,
    estimate_complexity,
    estimate_memory_cells,
    estimate_redundancy,
)
from trainload.estimate.counts.step import StepEstimate, estimate_step

if TYPE_CHECKING:
    from trainload.hardware.catalogue import Device
    from trainload.workload import LayerGraph, Optimizer
    from trainload.workload.spec import Precision


@dataclass(frozen=True, kw_only=True)
class StepChoice:
    """How the step is done."""

    batch_size: int | None
    """None where only the user's own code knows it."""
    precision: Precision
    optimizer: Optimizer

    @property
    def examples(self) -> int:
        """The batch size where whoever asks has given one."""
        assert self.batch_size is not None, "a graph and a build come with a batch"
        return self.batch_size


@dataclass(frozen=True, kw_only=True)
class Cells:
    """Study R's η: memory cells for one of each."""

    datum: float = 1
    weight: float = 1
    variable: float = 1


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
    """None without a device."""
    study: Study


def count_graph(
    graph: LayerGraph, choice: StepChoice, device: Device | None, study: Study
) -> Counted:
    """Counts of one step, and the bounds that a device sets it."""
    step = estimate_step(
        graph,
        batch_size=choice.examples,
        precision=choice.precision,
        optimizer=choice.optimizer,
    )
    return Counted(
        step=step,
        bound=estimate_memory_bound(step, device),
        time=estimate_time_bound(step, device) if device is not None else None,
        study=study,
    )


def study_graph(
    graph: LayerGraph,
    rule: Optimizer,
    *,
    samples: int | None = None,
    variables: int | None = None,
    cells: Cells | None = None,
) -> Study:
    """Study R's expressions of a graph; those of a sample need its size."""
    complexity = estimate_complexity(graph)
    if samples is None:
        return Study(complexity=complexity, cells=None, redundancy=None)
    sample = Sample(
        samples=samples, inputs=prod(graph.input_shape), outputs=prod(graph.output_shape)
    )
    study = study_numbers(
        sample, weights=graph.parameters, rule=rule, variables=variables, cells=cells
    )
    return replace(study, complexity=complexity)


def study_numbers(
    sample: Sample,
    *,
    weights: int,
    rule: Optimizer,
    variables: int | None = None,
    cells: Cells | None = None,
) -> Study:
    """Those that numbers alone give; `variables` of None are gradients and optimizer state."""
    cells = cells or Cells()
    memory = estimate_memory_cells(
        sample,
        weights=weights,
        variables=algorithm_variables(weights, rule) if variables is None else variables,
        cells_per_datum=cells.datum,
        cells_per_weight=cells.weight,
        cells_per_variable=cells.variable,
    )
    redundancy = estimate_redundancy(sample, weights=weights)
    return Study(complexity=None, cells=memory, redundancy=redundancy)
