"""Analytical expressions of Jamgharyan 2024: memory cells, two complexities, redundancy of memory.

Source: T. V. Jamgharyan, Recommendations for the Deployment of Equipment for Training Neural
Networks, 2024, doi:10.56243/18294898-2024.3-84, expressions 1 to 4, after Subbotin 2003. Where the
paper leaves a term open, the reading taken here stands beside it. Per-kind neurons: `neurons`.
"""

from dataclasses import dataclass
from typing import Literal

from trainload.errors import UsageError
from trainload.estimate.counts.neurons import count_operations
from trainload.estimate.counts.optimizers import state_values_per_parameter
from trainload.workload.graph.layers import LayerGraph
from trainload.workload.spec import Optimizer

SOURCE = "Jamgharyan 2024, doi:10.56243/18294898-2024.3-84"
REVERSE_ENGINEERING_RESERVE = (0.25, 0.30)
"""Further memory the study asks for when overfitted models are reverse engineered (its page 4)."""

RedundancyVerdict = Literal["redundant", "can hold the sample", "cannot hold the sample"]


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A training sample: S specimens of N features, with N_M output features each."""

    samples: int
    inputs: int
    outputs: int


@dataclass(frozen=True, kw_only=True)
class MemoryCellsEstimate:
    """Expression 1: N_na = η_b·S·(N + N_M) + η_w·N_w + η_v·N_v."""

    sample: Sample
    weights: int
    """N_w, weights and thresholds."""
    variables: int
    """N_v, variables of the training algorithm."""
    cells_per_datum: float
    cells_per_weight: float
    cells_per_variable: float

    formula = "N_na = η_b·S·(N + N_M) + η_w·N_w + η_v·N_v"
    source = f"{SOURCE}, expression 1"

    @property
    def data_cells(self) -> float:
        """η_b·S·(N + N_M)."""
        features = self.sample.inputs + self.sample.outputs
        return self.cells_per_datum * self.sample.samples * features

    @property
    def weight_cells(self) -> float:
        """η_w·N_w."""
        return self.cells_per_weight * self.weights

    @property
    def variable_cells(self) -> float:
        """η_v·N_v."""
        return self.cells_per_variable * self.variables

    @property
    def cells(self) -> float:
        """N_na."""
        return self.data_cells + self.weight_cells + self.variable_cells


@dataclass(frozen=True, kw_only=True)
class RedundancyEstimate:
    """Expression 4: K1 = N_w / (S·N)."""

    sample: Sample
    weights: int

    formula = "K1 = N_w / (S·N)"
    source = f"{SOURCE}, expression 4"

    @property
    def k1(self) -> float:
        """Weights for each number of the sample."""
        return self.weights / (self.sample.samples * self.sample.inputs)

    @property
    def verdict(self) -> RedundancyVerdict:
        """Compared exactly, before any rounding of K1."""
        held = self.sample.samples * self.sample.inputs
        if self.weights > held:
            return "redundant"
        return "can hold the sample" if self.weights == held else "cannot hold the sample"


@dataclass(frozen=True, kw_only=True)
class LayerComplexityEstimate:
    """One layer's share of expressions 2 and 3."""

    name: str
    kind: str
    neurons: int
    sequential_operations: int
    """Σ over the layer's neurons of T(μ,i)."""
    parallel_operations: int
    """Max over the layer's neurons of T(μ,i); summed over the parts of a kind that wait for each
    other, such as the steps of an LSTM."""


@dataclass(frozen=True, kw_only=True)
class ComplexityEstimate:
    """Expressions 2 and 3 for the forward pass of one example."""

    layers: tuple[LayerComplexityEstimate, ...]

    sequential_formula = "T1 = Σ_μ Σ_i T(μ,i)"
    parallel_formula = "T2 = Σ_μ max_i T(μ,i)"
    source = f"{SOURCE}, expressions 2 and 3"
    reading = (
        "T(μ,i) counts a neuron's operations for one example: a multiplication for each weight, "
        "the additions of their sum and threshold, and one for its activation"
    )

    @property
    def sequential_operations(self) -> int:
        """T1."""
        return sum(layer.sequential_operations for layer in self.layers)

    @property
    def parallel_operations(self) -> int:
        """T2."""
        return sum(layer.parallel_operations for layer in self.layers)

    @property
    def neurons(self) -> int:
        """Units that compute, in all layers."""
        return sum(layer.neurons for layer in self.layers)


def algorithm_variables(weights: int, optimizer: Optimizer) -> int:
    """N_v as read here: a gradient for each weight, and what the optimizer keeps for it.

    The paper names "algorithm variables" and leaves open which; activations are not among them.
    """
    return weights * (1 + state_values_per_parameter(optimizer))


def estimate_memory_cells(
    sample: Sample,
    *,
    weights: int,
    variables: int,
    cells_per_datum: float = 1,
    cells_per_weight: float = 1,
    cells_per_variable: float = 1,
) -> MemoryCellsEstimate:
    """Expression 1; UsageError where a number cannot be meant."""
    _check_sample(sample)
    for name, value in (("weights", weights), ("variables", variables)):
        if value < 0:
            raise UsageError(f"{name} must be at least 0, got {value}")
    for name, cells in (
        ("datum", cells_per_datum),
        ("weight", cells_per_weight),
        ("variable", cells_per_variable),
    ):
        if not 0 < cells < float("inf"):
            raise UsageError(f"cells for each {name} must be a number above 0, got {cells}")
    return MemoryCellsEstimate(
        sample=sample,
        weights=weights,
        variables=variables,
        cells_per_datum=cells_per_datum,
        cells_per_weight=cells_per_weight,
        cells_per_variable=cells_per_variable,
    )


def estimate_redundancy(sample: Sample, *, weights: int) -> RedundancyEstimate:
    """Expression 4, within the bounds the paper states: N_w > 1, S > 0, N > 0."""
    _check_sample(sample)
    if weights <= 1:
        raise UsageError(f"K1 is defined for more than 1 weight, got {weights}")
    return RedundancyEstimate(sample=sample, weights=weights)


def estimate_complexity(graph: LayerGraph) -> ComplexityEstimate:
    """Expressions 2 and 3: every computing layer of the graph is a layer μ of the paper.

    An activation is a layer of its own here and part of its neuron there; T1 and T2 are the same.
    """
    shapes = {layer.name: layer.output_shape for layer in graph.layers}
    rows = []
    for layer in graph.layers:
        operations = count_operations(layer, tuple(shapes[name] for name in layer.inputs))
        if operations.neurons:
            rows.append(
                LayerComplexityEstimate(
                    name=layer.name,
                    kind=layer.kind,
                    neurons=operations.neurons,
                    sequential_operations=operations.total,
                    parallel_operations=operations.largest,
                )
            )
    return ComplexityEstimate(layers=tuple(rows))


def _check_sample(sample: Sample) -> None:
    for name in ("samples", "inputs", "outputs"):
        value = getattr(sample, name)
        if value < 1:
            raise UsageError(f"{name} must be at least 1, got {value}")
