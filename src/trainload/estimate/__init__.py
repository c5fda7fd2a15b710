"""Graph or op trace × hardware -> parameters, FLOPs, bytes, peak memory, bounds; pure.

What a graph alone tells is offered here; what needs a trace stands in `memory` and `workspaces`.
Calling the room itself, `trainload.estimate(…)`, is the Python surface's way to ask.
Standard library only, runs nothing and reads no device: every figure is computed, and its type
says so. Measured and predicted figures live in other rooms.
"""

from trainload._callable_room import make_callable
from trainload.estimate.counts.bounds import (
    MemoryBoundEstimate,
    TimeBoundEstimate,
    estimate_memory_bound,
    estimate_time_bound,
)
from trainload.estimate.counts.expressions import (
    ComplexityEstimate,
    LayerComplexityEstimate,
    MemoryCellsEstimate,
    RedundancyEstimate,
    Sample,
    algorithm_variables,
    estimate_complexity,
    estimate_memory_cells,
    estimate_redundancy,
)
from trainload.estimate.counts.optimizers import state_values_per_parameter
from trainload.estimate.counts.step import LayerEstimate, StepEstimate, estimate_step

__all__ = [
    "ComplexityEstimate",
    "LayerComplexityEstimate",
    "LayerEstimate",
    "MemoryBoundEstimate",
    "MemoryCellsEstimate",
    "RedundancyEstimate",
    "Sample",
    "StepEstimate",
    "TimeBoundEstimate",
    "algorithm_variables",
    "estimate_complexity",
    "estimate_memory_bound",
    "estimate_memory_cells",
    "estimate_redundancy",
    "estimate_step",
    "estimate_time_bound",
    "state_values_per_parameter",
]

make_callable(__name__, "trainload.api.estimating", "estimate")
