"""Tells which layer and phase an operation of a traced step belongs to; allocates nothing.

Layers going forward are the modules being called. Going back, autograd's sequence numbers say
between which calls a node was made.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from typing import Any

import torch
from torch import nn

from trainload_worker.frameworks.torch.modules import ModuleNames

_NO_LAYER = "null"
_ACCUMULATE = 1 << 62
"""Nodes that only collect a parameter's gradient are numbered above everything."""


class Layers:
    """The layer and phase that the step is in; follows module calls once attached."""

    def __init__(self) -> None:
        self.phase = "other"
        self._names = ModuleNames()
        self._model: Any = None
        self._known: dict[int, str] = {}
        self._stack: list[str] = []
        self._range: list[str | None] = []
        self._starts: list[int] = []
        self._owners: list[str] = []
        self._parameters: dict[int, str] = {}
        self._kept: list[Any] = []
        self._plain_call = nn.Module.__call__

    def attach(self) -> None:
        """Replaces the call of every module, to follow it, until `detach`."""
        layers = self

        def call(module: Any, *args: Any, **kwargs: Any) -> Any:
            layers.enter(module)
            try:
                return module._call_impl(*args, **kwargs)
            finally:
                layers.leave()

        nn.Module.__call__ = call

    def detach(self) -> None:
        """Restores the call of modules."""
        nn.Module.__call__ = self._plain_call

    def enter(self, module: Any) -> None:
        """A module's call begins."""
        text = self._known.get(id(module))
        if text is None:
            text = self._name(module)
        self._stack.append(text)
        self._note(text)

    def leave(self) -> None:
        """The innermost call ends."""
        self._stack.pop()
        self._note(self._stack[-1] if self._stack else _NO_LAYER)

    def begin_step(self) -> None:
        """Drops the autograd nodes of the step before."""
        self._starts.clear()
        self._owners.clear()
        self._note(self._stack[-1] if self._stack else _NO_LAYER)

    def where(self) -> tuple[str, str]:
        """Layer, as JSON, and phase of what runs now."""
        if torch._C._current_graph_task_id() == -1:
            if self._stack:
                return self._stack[-1], "forward" if self.phase == "other" else self.phase
            return _NO_LAYER, self.phase
        if self._stack:  # computed again for the way back
            return self._stack[-1], "backward"
        node = torch._C._current_autograd_node()
        if node is None:
            return _NO_LAYER, "backward"
        number = node._sequence_nr()
        if number >= _ACCUMULATE or number < 0:
            held = getattr(node, "variable", None)
            return self._parameters.get(id(held), _NO_LAYER), "backward"
        place = bisect_right(self._starts, number) - 1
        return (self._owners[place] if place >= 0 else _NO_LAYER), "backward"

    def table(self) -> list[dict[str, Any]]:
        """Every module of the models met: path, class and its own parameters."""
        return [
            {
                "name": self._path(row["root"], row["layer"]),
                "class": row["class"],
                "parameters": row["parameters"],
            }
            for row in self._names.table([])
        ]

    def know(self, model: Any) -> None:
        """Names the modules of a model before it is called."""
        self._name(model)

    @property
    def roots(self) -> list[Any]:
        """The models called so far that still exist."""
        found = [reference() for _, reference in self._names._roots]
        return [model for model in found if model is not None]

    def _note(self, text: str) -> None:
        number = torch.autograd._get_sequence_nr()
        if self._starts and self._starts[-1] == number:
            self._owners[-1] = text
        else:
            self._starts.append(number)
            self._owners.append(text)

    def _name(self, module: Any) -> str:
        caller = self._range[-1] if self._range else None
        inside = "layer::" if self._stack else None
        full = self._names.name(module, caller or inside) or ""
        kind, _, rest = full.partition(":")
        label, _, path = rest.partition(":")
        text = json.dumps(self._path(label, path)) if kind == "layer" else _NO_LAYER
        if text == '""':
            text = _NO_LAYER
        # Kept alive, so that no other module ever has the same id.
        self._kept.append(module)
        self._known[id(module)] = text
        for parameter in module._parameters.values():
            self._parameters[id(parameter)] = text
        for part in module.modules() if not self._stack else ():
            if id(part) not in self._known:
                self._name(part)
        return text

    def _path(self, label: str, path: str) -> str:
        if self._model is None:
            self._model = label
        if label in ("", self._model):
            return path
        return f"{label}:{path}" if path else label
