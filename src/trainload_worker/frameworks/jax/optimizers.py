"""The optimizers in Optax, by torch's update rules and with torch's constants.

Where Optax's own differs in a constant or in the place of epsilon, its parts are put together.
Weight decay is added to the gradient, but to the weight itself by adamw.
"""

from __future__ import annotations

from typing import Any, Callable, Mapping

import jax
import jax.numpy as jnp
import optax

from trainload_worker.errors import SpecError
from trainload_worker.protocol.training import Optimizer


def build_optimizer(spec: Optimizer) -> Any:
    """The gradient transformation; SpecError for a name unknown here."""
    if spec.name not in _RULES:
        raise SpecError(f"optimizer {spec.name!r} is unknown to jax here")
    decay = optax.add_decayed_weights(spec.weight_decay) if spec.weight_decay else optax.identity()
    rule = _RULES[spec.name](spec)
    parts = (rule, decay) if spec.name == "adamw" else (decay, rule)
    return optax.chain(*parts, optax.scale(-spec.learning_rate))


def _sgd(spec: Optimizer) -> Any:
    return optax.trace(decay=spec.momentum) if spec.momentum else optax.identity()


def _adagrad(_spec: Optimizer) -> Any:
    """Divides by sqrt(sum of squares) + 1e-10; Optax's own adds epsilon below the root."""

    def init(parameters: Any) -> Any:
        return jax.tree.map(jnp.zeros_like, parameters)

    def update(gradients: Any, sums: Any, _parameters: Any = None) -> Any:
        sums = jax.tree.map(lambda total, g: total + g * g, sums, gradients)
        steps = jax.tree.map(lambda g, total: g / (jnp.sqrt(total) + 1e-10), gradients, sums)
        return steps, sums

    return optax.GradientTransformation(init, update)


_RULES: Mapping[str, Callable[[Optimizer], Any]] = {
    "sgd": _sgd,
    "adam": lambda _spec: optax.scale_by_adam(b1=0.9, b2=0.999, eps=1e-8),
    "adamw": lambda _spec: optax.scale_by_adam(b1=0.9, b2=0.999, eps=1e-8),
    "rmsprop": lambda _spec: optax.scale_by_rms(decay=0.99, eps=1e-8, eps_in_sqrt=False),
    "adagrad": _adagrad,
}
