"""Study R's expressions from numbers alone; computes through `estimate` and traces nothing."""

from __future__ import annotations

from trainload.checked import build_checked
from trainload.estimate import Sample
from trainload.estimate.counts.answer import Cells, Study, study_numbers
from trainload.workload import Optimizer
from trainload_worker.protocol.training import OptimizerName


def estimate_study(
    *,
    samples: int,
    inputs: int,
    outputs: int,
    weights: int,
    variables: int | None = None,
    cells: Cells | None = None,
    optimizer: OptimizerName | Optimizer = "adam",
    momentum: float = 0.9,
) -> Study:
    """Memory cells and redundancy of a sample and a network that are known by their sizes.

    `variables` of None are gradients and the optimizer's state; UsageError where a number cannot
    be meant.
    """
    return study_numbers(
        Sample(samples=samples, inputs=inputs, outputs=outputs),
        weights=weights,
        rule=choose_optimizer(optimizer, momentum),
        variables=variables,
        cells=cells,
    )


def choose_optimizer(rule: OptimizerName | Optimizer, momentum: float) -> Optimizer:
    """The update rule by name, or as it is; WorkloadError where there is none of that name."""
    if isinstance(rule, Optimizer):
        return rule
    return build_checked(Optimizer, {"name": rule, "momentum": momentum}, "optimizer")
