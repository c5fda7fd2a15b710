"""What the build functions of this folder are made of: inputs to draw, and losses by their name.

A build function takes the batch size and returns a module and a function without arguments that
gives the loss of one batch. Runs no step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

Loss = Callable[[], Any]
Build = Callable[[int], tuple[Any, Loss]]
Make = Callable[[], Any]
Draw = Callable[[int], Any]
"""What a batch of that size holds of one input."""


def normal(*shape: int, many: int = 1, **options: Any) -> Draw:
    """Normal numbers, `many` rows of that shape for each example."""
    return lambda batch: torch.randn(many * batch, *shape, **options)


def whole(limit: int, *shape: int, many: int = 1, least: int = 0) -> Draw:
    """Whole numbers from `least` to below `limit`."""
    return lambda batch: torch.randint(least, limit, (many * batch, *shape))


def filled(value: Any, *shape: int, many: int = 1) -> Draw:
    """One number everywhere; its type is that of the number."""
    return lambda batch: torch.full((many * batch, *shape), value)


def mean_square(module: Any, *inputs: Any) -> Any:
    """A loss for whatever gives a tensor."""
    return module(*inputs).pow(2).mean()


def make_build(make: Make, loss_of: Callable[..., Any], *draws: Draw) -> Build:
    """The build function of a loss that takes the module and what was drawn."""

    def build(batch: int) -> tuple[Any, Loss]:
        module = make()
        inputs = [draw(batch) for draw in draws]

        def loss() -> Any:
            return loss_of(module, *inputs)

        return module, loss

    return build


def keeper(models: dict[str, Build]) -> Callable[..., Callable[[Any], Any]]:
    """A decorator that keeps a loss among the models under its own name."""

    def step(make: Make, *draws: Draw) -> Callable[[Any], Any]:
        def keep(loss_of: Callable[..., Any]) -> Callable[..., Any]:
            models[loss_of.__name__] = make_build(make, loss_of, *draws)
            return loss_of

        return keep

    return step


def name_all(prefix: str, models: Mapping[str, Build]) -> dict[str, Build]:
    """The models under names that begin with the prefix."""
    return {f"{prefix}{name}": build for name, build in models.items()}
