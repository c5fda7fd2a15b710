"""What an update rule keeps and moves for each trained value; knows no graph.

The states are those of torch.optim with its default settings: weight decay adds none, and the step
counter that Adam keeps for each tensor (4 bytes, on the host) is left out.
"""

from collections.abc import Mapping

from trainload.workload.spec import Optimizer

FLOAT32_BYTES = 4

_STATE_VALUES: Mapping[str, int] = {
    "sgd": 0,
    "adam": 2,  # first and second moment; Kingma, Ba 2015, algorithm 1
    "adamw": 2,
    "rmsprop": 1,  # mean square; not centred, no momentum
    "adagrad": 1,  # sum of squares; Duchi, Hazan, Singer 2011
}


def state_values_per_parameter(optimizer: Optimizer) -> int:
    """Numbers that the update rule keeps between steps for each trained value."""
    if optimizer.name == "sgd" and optimizer.momentum > 0:
        return 1
    return _STATE_VALUES[optimizer.name]


def state_bytes(optimizer: Optimizer, parameters: int) -> int:
    """Bytes kept between steps; float32 in both precisions, since autocast leaves weights be."""
    return FLOAT32_BYTES * parameters * state_values_per_parameter(optimizer)


def update_moved_bytes(optimizer: Optimizer, parameters: int) -> int:
    """Bytes an update reads and writes at least: gradient read, weight and states read, written."""
    values = 1 + 2 * (1 + state_values_per_parameter(optimizer))
    return FLOAT32_BYTES * parameters * values
