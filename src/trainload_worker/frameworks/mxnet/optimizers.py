"""The optimizers for Gluon's trainer, by torch's update rules and with torch's constants.

MXNet's own put epsilon elsewhere. Weight decay is added to the gradient, but to the weight itself
by adamw.
"""

from __future__ import annotations

import math
from typing import Any, Mapping

import mxnet
from mxnet import nd

from trainload_worker.errors import SpecError
from trainload_worker.protocol.training import Optimizer

_BETA1, _BETA2 = 0.9, 0.999


def build_optimizer(spec: Optimizer) -> Any:
    """The optimizer; SpecError for a name unknown here."""
    if spec.name == "sgd":
        # MXNet's momentum holds the learning rate too, which is the same while that is constant.
        return mxnet.optimizer.SGD(
            learning_rate=spec.learning_rate, momentum=spec.momentum, wd=spec.weight_decay
        )
    if spec.name not in _RULES:
        raise SpecError(f"optimizer {spec.name!r} is unknown to mxnet here")
    optimizer = _RULES[spec.name](learning_rate=spec.learning_rate, wd=spec.weight_decay)
    optimizer.decoupled = spec.name == "adamw"
    return optimizer


class Rule(mxnet.optimizer.Optimizer):  # type: ignore[misc]  # mxnet is not typed here
    """What the rules below have in common."""

    slots = 1
    decoupled = False

    def create_state(self, index: int, weight: Any) -> Any:  # noqa: ARG002 - MXNet's signature
        """Zeros for each figure that the rule keeps of a weight."""
        return [nd.zeros(weight.shape, weight.context, dtype="float32") for _ in range(self.slots)]

    def update(self, index: int, weight: Any, grad: Any, state: Any) -> None:
        """One weight's new value."""
        self._update_count(index)
        rate, decay = self._get_lr(index), self._get_wd(index)
        if decay and self.decoupled:
            weight *= 1.0 - rate * decay
            decay = 0.0
        self.step(weight, grad, state, rate, decay, self._index_update_count[index])

    def step(
        self, weight: Any, gradient: Any, state: Any, rate: float, decay: float, count: int
    ) -> None:
        """The rule itself; `count` steps have been made, this one included."""
        raise NotImplementedError


class Adam(Rule):
    """Adam, and AdamW where the weights decay by themselves."""

    slots = 2

    def step(
        self, weight: Any, gradient: Any, state: Any, rate: float, decay: float, count: int
    ) -> None:
        """The fused operation adds epsilon before the bias is corrected, torch after it."""
        correction = math.sqrt(1.0 - _BETA2**count)
        nd.adam_update(
            weight,
            gradient,
            state[0],
            state[1],
            out=weight,
            lr=rate * correction / (1.0 - _BETA1**count),
            wd=decay,
            beta1=_BETA1,
            beta2=_BETA2,
            epsilon=1e-8 * correction,
        )


class RmsProp(Rule):
    """Divides by sqrt(mean of squares) + 1e-8."""

    def step(
        self, weight: Any, gradient: Any, state: Any, rate: float, decay: float, count: int
    ) -> None:
        """The mean forgets one hundredth a step."""
        del count
        gradient = gradient + decay * weight if decay else gradient
        squares = state[0]
        squares *= 0.99
        squares += 0.01 * gradient * gradient
        weight -= rate * gradient / (nd.sqrt(squares) + 1e-8)


class Adagrad(Rule):
    """Divides by sqrt(sum of squares) + 1e-10."""

    def step(
        self, weight: Any, gradient: Any, state: Any, rate: float, decay: float, count: int
    ) -> None:
        """The sum forgets nothing."""
        del count
        gradient = gradient + decay * weight if decay else gradient
        squares = state[0]
        squares += gradient * gradient
        weight -= rate * gradient / (nd.sqrt(squares) + 1e-10)


_RULES: Mapping[str, Any] = {
    "adam": Adam,
    "adamw": Adam,
    "rmsprop": RmsProp,
    "adagrad": Adagrad,
}
