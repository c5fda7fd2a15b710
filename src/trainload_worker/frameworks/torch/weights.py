"""Gives a torch module the initial weights that every framework starts from, where NumPy is there.

Without NumPy torch draws them itself, by the same scheme from another stream.
"""

from __future__ import annotations

import importlib
from typing import Any

import torch
from torch import nn

from trainload_worker.protocol.graph import GraphSpec

NOTE_WITHOUT_NUMPY = (
    "without numpy torch draws the initial weights itself: by the same scheme, "
    "but not those that the other frameworks start from"
)


def can_draw() -> bool:
    """Whether NumPy is there to draw them."""
    try:
        importlib.import_module("numpy")
    except ImportError:
        return False
    return True


def load_initial_weights(module: Any, graph: GraphSpec, seed: int) -> None:
    """Replaces the trained parameters by those of the scheme."""
    with torch.no_grad():
        if not can_draw():
            module.apply(_draw_own)
            return
        draw = importlib.import_module("trainload_worker.training.initial_weights").draw_parameters
        for name, values in draw(graph, seed):
            drawn = torch.frombuffer(values, dtype=torch.float32).view(values.shape)
            module.get_parameter(name).copy_(drawn)


def _draw_own(layer: Any) -> None:
    """He's weights where torch has drawn smaller ones; the other kinds have the scheme's."""
    if isinstance(layer, (nn.Linear, nn.Conv2d)):
        nn.init.kaiming_uniform_(layer.weight, nonlinearity="relu")
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)
