"""The optimizers in TensorFlow's fused operations, by torch's update rules and constants.

Keras' own put epsilon elsewhere and decay weights otherwise. Weight decay is added to the
gradient, but to the weight itself by adamw.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

import tensorflow as tf

from trainload_worker.errors import SpecError
from trainload_worker.frameworks.tensorflow.owners import GRADIENT, VARIABLE
from trainload_worker.protocol import training

_BETA1, _BETA2 = 0.9, 0.999


class Optimizer:
    """Updates variables in place; to be called inside a `tf.function`."""

    slots = 0

    def __init__(self, spec: training.Optimizer, variables: Sequence[Any]) -> None:
        self._spec = spec
        self._variables = list(variables)
        self._slots = [
            [tf.Variable(tf.zeros_like(variable), trainable=False) for _ in range(self.slots)]
            for variable in variables
        ]

    @property
    def kept(self) -> list[list[Any]]:
        """What is kept of each variable, in the order of the variables."""
        return self._slots

    def count_from(self, steps: int) -> None:
        """Goes on after that many updates."""

    def apply(self, gradients: Sequence[Any]) -> None:
        """One update of every variable."""
        self.begin()
        decay = self._spec.weight_decay
        each = zip(self._variables, self._slots, gradients)
        for number, (variable, slots, gradient) in enumerate(each):
            with tf.name_scope(f"{VARIABLE}{number}"):
                with tf.name_scope(GRADIENT):
                    gradient = tf.convert_to_tensor(gradient)
                if decay and self._spec.name != "adamw":
                    gradient = gradient + decay * variable
                self.update(variable, gradient, *slots)

    def begin(self) -> None:
        """What is done once a step."""

    def update(self, variable: Any, gradient: Any, *slots: Any) -> None:
        """One variable's new value."""
        raise NotImplementedError


class Sgd(Optimizer):
    """The slot is momentum · slot + gradient, and the step learning rate · slot."""

    def __init__(self, spec: training.Optimizer, variables: Sequence[Any]) -> None:
        self.slots = 1 if spec.momentum else 0
        super().__init__(spec, variables)

    def update(self, variable: Any, gradient: Any, *slots: Any) -> None:
        """By momentum, or the plain gradient without one."""
        rate = self._spec.learning_rate
        if not slots:
            variable.assign_sub(rate * gradient)
            return
        tf.raw_ops.ResourceApplyMomentum(
            var=variable.handle,
            accum=slots[0].handle,
            lr=rate,
            grad=gradient,
            momentum=self._spec.momentum,
        )


class Adam(Optimizer):
    """Adam, and AdamW where the weights decay by themselves."""

    slots = 2

    def __init__(self, spec: training.Optimizer, variables: Sequence[Any]) -> None:
        super().__init__(spec, variables)
        self._power1 = tf.Variable(1.0, trainable=False)
        self._power2 = tf.Variable(1.0, trainable=False)

    def count_from(self, steps: int) -> None:
        """The powers after that many updates."""
        self._power1.assign(_BETA1**steps)
        self._power2.assign(_BETA2**steps)

    def begin(self) -> None:
        """The powers of both betas."""
        self._power1.assign(self._power1 * _BETA1)
        self._power2.assign(self._power2 * _BETA2)

    def update(self, variable: Any, gradient: Any, *slots: Any) -> None:
        """The fused operation adds epsilon before the bias is corrected, torch after it."""
        spec = self._spec
        if spec.name == "adamw" and spec.weight_decay:
            variable.assign(variable * (1.0 - spec.learning_rate * spec.weight_decay))
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=slots[0].handle,
            v=slots[1].handle,
            beta1_power=self._power1,
            beta2_power=self._power2,
            lr=spec.learning_rate,
            beta1=_BETA1,
            beta2=_BETA2,
            epsilon=1e-8 * tf.sqrt(1.0 - self._power2),
            grad=gradient,
        )


class RmsProp(Optimizer):
    """Divides by sqrt(mean of squares) + 1e-8; the fused operation adds it below the root."""

    slots = 1

    def update(self, variable: Any, gradient: Any, *slots: Any) -> None:
        """The mean forgets one hundredth a step."""
        squares = slots[0].assign(0.99 * slots[0] + 0.01 * gradient * gradient)
        variable.assign_sub(self._spec.learning_rate * gradient / (tf.sqrt(squares) + 1e-8))


class Adagrad(Optimizer):
    """Divides by sqrt(sum of squares) + 1e-10."""

    slots = 1

    def update(self, variable: Any, gradient: Any, *slots: Any) -> None:
        """The fused operation as it is."""
        tf.raw_ops.ResourceApplyAdagradV2(
            var=variable.handle,
            accum=slots[0].handle,
            lr=self._spec.learning_rate,
            epsilon=1e-10,
            grad=gradient,
        )


_RULES: Mapping[str, type] = {
    "sgd": Sgd,
    "adam": Adam,
    "adamw": Adam,
    "rmsprop": RmsProp,
    "adagrad": Adagrad,
}


def build_optimizer(spec: training.Optimizer, variables: Sequence[Any]) -> Optimizer:
    """The optimizer of those variables; SpecError for a name unknown here."""
    if spec.name not in _RULES:
        raise SpecError(f"optimizer {spec.name!r} is unknown to tensorflow here")
    optimizer: Optimizer = _RULES[spec.name](spec, variables)
    return optimizer
