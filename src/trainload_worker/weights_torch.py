"""Gives a torch module the initial weights that every framework starts from, where NumPy is there.

Without NumPy torch keeps the weights it has drawn itself, by the same scheme from another stream.
"""

from __future__ import annotations

import importlib
from typing import Any

import torch

from trainload_worker.spec import GraphSpec

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
    """Replaces every trained parameter; does nothing without NumPy."""
    if not can_draw():
        return
    draw = importlib.import_module("trainload_worker.initial_weights").draw_parameters
    with torch.no_grad():
        for name, values in draw(graph, seed):
            drawn = torch.frombuffer(values, dtype=torch.float32).view(values.shape)
            module.get_parameter(name).copy_(drawn)
