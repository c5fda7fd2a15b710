"""Names torch modules by their place in their model and tells what memory they own.

Only looks at modules: hooks and tracing are elsewhere.
"""

from __future__ import annotations

import re
import weakref
from typing import Any, Iterable, Iterator

import torch

from trainload_worker.frameworks.torch.parents import Parents

_WRAPPERS = {
    "DistributedDataParallel": "module",
    "DataParallel": "module",
    "FullyShardedDataParallel": "module",
    "OptimizedModule": "_orig_mod",
}
"""Modules that only stand around a model, and where they keep it."""


_UNSAFE = re.compile(r'["\\\x00-\x1f\x7f]')
"""Characters that Kineto writes as they are, and so breaks its own JSON."""
_FOREIGN = re.compile(r"[^\x00-\x7f]")
"""Characters for which Kineto leaves the whole name out."""


class ModuleNames:
    """The range name of every module met; a model is called from outside of others.

    Names are `layer:<model>:<path>`, the model's own with an empty path, and `loss:<class>` for
    loss modules. What is called from outside and has no parameter, such as a transform or a metric,
    is no model and has no name.
    """

    def __init__(self, parents: Parents | None = None) -> None:
        """`parents` tells names for parts that are called on their own."""
        self._parents = parents if parents is not None else Parents()
        self._names: dict[int, tuple[Any, str | None]] = {}
        self._roots: list[tuple[str, Any]] = []
        self.compiled = False
        """Whether a compiled model was met, inside of which no layer can be told from another."""

    def name(self, module: Any, caller: str | None) -> str | None:
        """The range name of a module that `caller` (a range name; None: the script) calls.

        None for one that is no model.
        """
        found = self._names.get(id(module))
        # An id comes back for another module once its first owner is gone.
        if found is not None and found[0]() is module and (found[1] or not _is_layer(caller)):
            return found[1]
        if isinstance(module, torch.nn.modules.loss._Loss):
            return self._keep(module, f"loss:{_class_name(module)}")
        if _is_layer(caller):
            # Called by a model, but no part of its tree.
            assert caller is not None
            point = "" if caller.endswith(":") else "."
            return self._keep(module, f"{caller}{point}{_class_name(module)}")
        if type(module).__name__ not in _WRAPPERS and not _has_parameters(module):
            return self._keep(module, None)
        self._add_root(module)
        return self._names[id(module)][1]

    def _keep(self, module: Any, name: str | None) -> str | None:
        self._names[id(module)] = (weakref.ref(module), name)
        return name

    def _add_root(self, module: Any) -> None:
        model = module
        wrappers = []
        while type(model).__name__ in _WRAPPERS:
            wrappers.append(model)
            self.compiled = self.compiled or type(model).__name__ == "OptimizedModule"
            model = getattr(model, _WRAPPERS[type(model).__name__])
        named = list(_named_modules(model))
        parts = {id(part) for _, part in named}
        # A part that was called on its own before its model was: it is no model itself.
        kept = [(root, ref) for root, ref in self._roots if id(ref()) not in parts]
        label = self._label(model, {root for root, _ in kept})
        self._roots = [*kept, (label, weakref.ref(model))]
        for path, part in named:
            self._keep(part, f"layer:{label}:{_plain(path)}")
        for wrapper in wrappers:
            self._keep(wrapper, f"layer:{label}:")

    def _label(self, model: Any, taken: set[str]) -> str:
        """Its class or, where that tells too little, its place in the module it is a part of."""
        name = _class_name(model)
        if name in taken or type(model).__module__.startswith("torch."):
            place = self._parents.place_of(model, _WRAPPERS)
            if place is not None:
                name = f"{_class_name(place[0])}.{_plain(place[1]).replace(':', '_')}"
        return _free_label(name, taken)

    def table(self, optimizers: Iterable[Any]) -> list[dict[str, Any]]:
        """Each module's own parameters, gradients and optimizer state in bytes, in model order.

        A parameter that two modules share is counted at the first. Null where nothing of the kind
        exists at this moment. `updated` are those parameters that an optimizer is to change.
        """
        optimizers = list(optimizers)
        states = [optimizer.state for optimizer in optimizers]
        held = {
            id(parameter)
            for optimizer in optimizers
            for group in optimizer.param_groups
            for parameter in group["params"]
        }
        rows, seen = [], set()
        for label, reference in self._roots:
            model = reference()
            for path, module in _named_modules(model) if model is not None else ():
                own = []
                for parameter in module._parameters.values():
                    # A lazy module that never ran has parameters without a shape.
                    if parameter is None or torch.nn.parameter.is_lazy(parameter):
                        continue
                    if id(parameter) not in seen:
                        seen.add(id(parameter))
                        own.append(parameter)
                gradients = [p.grad for p in own if p.grad is not None]
                state = [_state_bytes(states, parameter) for parameter in own]
                known = [size for size in state if size is not None]
                rows.append(
                    {
                        "root": label,
                        "layer": _plain(path),
                        "class": _class_name(module),
                        "parameters": sum(int(p.numel()) for p in own),
                        "updated": sum(
                            int(p.numel()) for p in own if p.requires_grad and id(p) in held
                        ),
                        "parameter_bytes": sum(map(_bytes, own)),
                        "gradient_bytes": sum(map(_bytes, gradients)) if gradients else None,
                        "optimizer_bytes": sum(known) if known else None,
                    }
                )
        return rows


def _is_layer(name: str | None) -> bool:
    return name is not None and name.startswith("layer:")


def _free_label(wanted: str, taken: set[str]) -> str:
    label, number = wanted, 1
    while label in taken:
        number += 1
        label = f"{wanted}#{number}"
    return label


def _named_modules(model: Any) -> Iterator[tuple[str, Any]]:
    """Paths and modules of a model, whatever it has made of the methods that tell them."""
    found: Iterator[tuple[str, Any]] = torch.nn.Module.named_modules(model)
    return found


def _has_parameters(model: Any) -> bool:
    for _, module in _named_modules(model):
        # A replica of DataParallel has only tensors that were made of them.
        former = vars(module).get("_former_parameters") or {}
        if any(p is not None for p in (*module._parameters.values(), *former.values())):
            return True
    return False


def _class_name(module: Any) -> str:
    return _plain(type(module).__name__).replace(":", "_")


def _plain(name: str) -> str:
    return _FOREIGN.sub(lambda found: f"U+{ord(found.group()):X}", _UNSAFE.sub("_", name))


def _bytes(tensor: Any) -> int:
    if tensor.layout is torch.sparse_coo:
        return _bytes(tensor._values()) + _bytes(tensor._indices())
    return int(tensor.numel()) * int(tensor.element_size())


def _state_bytes(states: list[Any], parameter: Any) -> int | None:
    for state in states:
        if parameter in state:
            values = state[parameter].values()
            return sum(_bytes(value) for value in values if isinstance(value, torch.Tensor))
    return None
