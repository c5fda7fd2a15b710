"""Names torch modules by their place in their model and tells what memory they own.

Only looks at modules: hooks and tracing are elsewhere.
"""

from __future__ import annotations

import weakref
from typing import Any, Iterable

import torch

_WRAPPERS = {
    "DistributedDataParallel": "module",
    "DataParallel": "module",
    "FullyShardedDataParallel": "module",
    "OptimizedModule": "_orig_mod",
}
"""Modules that only stand around a model, and where they keep it."""


class ModuleNames:
    """The range name of every module met; a model is whatever is called from outside of others.

    Names are `layer:<model>:<path>`, the model's own with an empty path, and `loss:<class>` for
    loss modules.
    """

    def __init__(self) -> None:
        self._names: dict[int, tuple[Any, str]] = {}
        self._roots: list[tuple[str, Any]] = []
        self.compiled = False
        """Whether a compiled model was met, inside of which no layer can be told from another."""

    def name(self, module: Any, caller: str | None) -> str:
        """The range name of a module that `caller` (a range name; None: the script) calls."""
        found = self._names.get(id(module))
        # An id comes back for another module once its first owner is gone.
        if found is not None and found[0]() is module:
            return found[1]
        if isinstance(module, torch.nn.modules.loss._Loss):
            return self._keep(module, f"loss:{type(module).__name__}")
        if caller is not None and caller.startswith("layer:"):
            # Called by a model, but no part of its tree.
            point = "" if caller.endswith(":") else "."
            return self._keep(module, f"{caller}{point}{type(module).__name__}")
        self._add_root(module)
        return self._names[id(module)][1]

    def _keep(self, module: Any, name: str) -> str:
        self._names[id(module)] = (weakref.ref(module), name)
        return name

    def _add_root(self, module: Any) -> None:
        model = module
        wrappers = []
        while type(model).__name__ in _WRAPPERS:
            wrappers.append(model)
            self.compiled = self.compiled or type(model).__name__ == "OptimizedModule"
            model = getattr(model, _WRAPPERS[type(model).__name__])
        parts = {id(part) for part in model.modules()}
        # A part that was called on its own before its model was: it is no model itself.
        kept = [(root, ref) for root, ref in self._roots if id(ref()) not in parts]
        label = _free_label(type(model).__name__, {root for root, _ in kept})
        self._roots = [*kept, (label, weakref.ref(model))]
        for path, part in model.named_modules():
            self._keep(part, f"layer:{label}:{path}")
        for wrapper in wrappers:
            self._keep(wrapper, f"layer:{label}:")

    def table(self, optimizers: Iterable[Any]) -> list[dict[str, Any]]:
        """Each module's own parameters, gradients and optimizer state in bytes, in model order.

        A parameter that two modules share is counted at the first. Null where nothing of the kind
        exists at this moment.
        """
        states = [optimizer.state for optimizer in optimizers]
        rows, seen = [], set()
        for label, reference in self._roots:
            model = reference()
            for path, module in model.named_modules() if model is not None else ():
                own = []
                for parameter in module.parameters(recurse=False):
                    if id(parameter) not in seen:
                        seen.add(id(parameter))
                        own.append(parameter)
                gradients = [p.grad for p in own if p.grad is not None]
                state = [_state_bytes(states, parameter) for parameter in own]
                known = [size for size in state if size is not None]
                rows.append(
                    {
                        "root": label,
                        "layer": path,
                        "class": type(module).__name__,
                        "parameters": sum(int(p.numel()) for p in own),
                        "parameter_bytes": sum(map(_bytes, own)),
                        "gradient_bytes": sum(map(_bytes, gradients)) if gradients else None,
                        "optimizer_bytes": sum(known) if known else None,
                    }
                )
        return rows


def _free_label(wanted: str, taken: set[str]) -> str:
    label, number = wanted, 1
    while label in taken:
        number += 1
        label = f"{wanted}#{number}"
    return label


def _bytes(tensor: Any) -> int:
    return int(tensor.numel()) * int(tensor.element_size())


def _state_bytes(states: list[Any], parameter: Any) -> int | None:
    for state in states:
        if parameter in state:
            values = state[parameter].values()
            return sum(_bytes(value) for value in values if isinstance(value, torch.Tensor))
    return None
