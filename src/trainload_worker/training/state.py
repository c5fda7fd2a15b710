"""What of a training outlives its process, by names that every framework shares; opens no file.

Parameters have the graph's names and torch's layouts, batch norm's figures torch's names
(`bn1.running_mean`). What an optimizer keeps of a parameter is `optimizer/SLOT/PARAMETER`, with
torch's word for the slot. The learning rate is no part of any of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping, Protocol, Sequence

from trainload_worker.errors import CheckpointError
from trainload_worker.training.safetensors_file import Tensor, Tensors

SLOTS: Mapping[str, Sequence[str]] = {
    "sgd": ("momentum_buffer",),
    "adam": ("exp_avg", "exp_avg_sq"),
    "adamw": ("exp_avg", "exp_avg_sq"),
    "rmsprop": ("square_avg",),
    "adagrad": ("sum",),
}
"""What each optimizer keeps of a parameter, beside the number of updates."""
RUNNING = ("running_mean", "running_var")
_OPTIMIZER = "optimizer/"


@dataclass(frozen=True)
class Position:
    """How far a training has come."""

    epochs: int = 0
    """Epochs that are done."""
    rows: int = 0
    """Rows visited of the epoch after those; 0 unless it was cut short."""
    steps: int = 0
    """Updates made in all."""


class ModelState(Protocol):
    """The weights of a model and what its optimizer keeps; there once the model is built."""

    def read(self) -> Tensors:
        """All tensors in host memory; waits for the device."""

    def load(self, tensors: Mapping[str, Tensor], steps: int) -> None:
        """Loads all tensors; CheckpointError where a weight is missing or of another shape.

        What an optimizer has not kept stays as it is: zero.
        """

    def begin_epoch(self, epoch: int) -> None:
        """Begins dropout's stream of that epoch, the same whatever was run before."""


def slot_name(slot: str, parameter: str) -> str:
    """The tensor that holds what an optimizer keeps of a parameter."""
    return f"{_OPTIMIZER}{slot}/{parameter}"


def is_optimizers(name: str) -> bool:
    """Whether a tensor belongs to the optimizer."""
    return name.startswith(_OPTIMIZER)


def find_tensor(tensors: Mapping[str, Tensor], name: str, shape: Sequence[int]) -> Tensor | None:
    """The tensor of that name; None where an optimizer's is missing, CheckpointError for others."""
    tensor = tensors.get(name)
    if tensor is None:
        if is_optimizers(name):
            return None
        raise CheckpointError(f"the checkpoint has no {name}, which this model needs")
    if tuple(tensor.shape) != tuple(shape) or tensor.dtype != "F32":
        raise CheckpointError(
            f"the checkpoint's {name} is {tensor.dtype} of shape {list(tensor.shape)}, "
            f"the model's of shape {list(shape)}"
        )
    return tensor


def epoch_seed(seed: int, epoch: int) -> int:
    """The seed of an epoch's dropout; the first epoch has the run's own."""
    return (seed + 1_000_003 * epoch) % 2**31
