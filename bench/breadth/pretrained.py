"""A model of transformers by its names, options and inputs; made with random weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import transformers

from breadth.steps import Build, Loss

Inputs = Callable[[int], dict[str, Any]]
PLACES = 256
"""Tokens of an example unless told."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What a model of transformers is made of, and how its loss comes about."""

    config: str
    """Its class, without the `Config` at its end."""
    model: str
    """Its class, or the end of it where that begins as the configuration's does."""
    inputs: Inputs
    options: dict[str, Any] = field(default_factory=dict)
    attention: str | None = None
    checkpointed: bool = False
    dtype: torch.dtype | None = None
    output: str = "loss"
    """Which of its outputs to take; the mean square of one that is no loss."""

    def build(self, batch: int) -> tuple[Any, Loss]:
        """The model and the loss of a batch of that size."""
        config = getattr(transformers, f"{self.config}Config")(**self.options)
        if self.attention is not None:
            config._attn_implementation = self.attention
        kind = getattr(transformers, self.config + self.model, None)
        kind = kind or getattr(transformers, self.model)
        typed = {} if self.dtype is None else {"dtype": self.dtype}
        model = kind._from_config(config, **typed).train()
        if self.checkpointed:
            model.gradient_checkpointing_enable()
        inputs, output = self.inputs(batch), self.output

        def loss() -> Any:
            found = getattr(model(**inputs), output)
            return found if output == "loss" else found.pow(2).mean()

        return model, loss


def build_all(recipes: dict[str, Recipe]) -> dict[str, Build]:
    """The build function of each."""
    return {name: recipe.build for name, recipe in recipes.items()}


def tokens(batch: int, places: int = PLACES) -> torch.Tensor:
    """Below every vocabulary here, and above what models keep for themselves."""
    return torch.randint(5, 900, (batch, places))


def long_zeros(*shape: int) -> torch.Tensor:
    """Labels, all of the first class."""
    return torch.zeros(*shape, dtype=torch.long)
