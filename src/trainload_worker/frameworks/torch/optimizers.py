"""The optimizers of torch by the specification's names; rules and constants are torch's own."""

from __future__ import annotations

from typing import Any, Mapping

import torch

from trainload_worker.errors import SpecError
from trainload_worker.protocol.training import Optimizer

_NAMES = ("Adam", "AdamW", "SGD", "RMSprop", "Adagrad")
_CLASSES: Mapping[str, Any] = {name.lower(): getattr(torch.optim, name) for name in _NAMES}


def build_optimizer(spec: Optimizer, model: Any) -> Any:
    """The optimizer over all of the model's parameters; SpecError for a name unknown here."""
    if spec.name not in _CLASSES:
        raise SpecError(f"optimizer {spec.name!r} is unknown to torch here")
    options = {"lr": spec.learning_rate, "weight_decay": spec.weight_decay}
    if spec.name == "sgd":
        options["momentum"] = spec.momentum
    return _CLASSES[spec.name](model.parameters(), **options)
