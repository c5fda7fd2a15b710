"""Sees the calls of the models that a program trains, from outside of them; reads no value.

Models are found through the parameters that the optimizer steps, once, when that has stepped for
the first time. From then on the class of each model called from outside of others has a `__call__`
of ours; no module has a hook, so that what the program saves or copies is what it would be without
us. Inside a compiled region nothing is left of it.
"""

from __future__ import annotations

import gc
import types
import weakref
from typing import Any, Callable, Iterable

import torch
from torch.compiler import is_dynamo_compiling

from trainload_worker.frameworks.torch.parents import known_parents
from trainload_worker.process.allocator import let_go_slowly

MOST_LOOKS = 8
"""Searches for models in one program: each goes once through all objects of the process."""

OnCall = Callable[[Any, Any, Any], bool]
"""Takes the model, its positional and its named arguments, before the call; whether its return is
to be told of."""


class _State:
    """What the covered classes look at."""

    def __init__(self, on_call: OnCall, on_return: Callable[[], None]) -> None:
        self.inside = False
        self.finding = False
        self.models: dict[int, Any] = {}
        self.trained: dict[int, Any] = {}
        self.on_call = on_call
        self.on_return = on_return

    def adopt(self, module: Any) -> bool:
        """While models are looked for: whether this one, called from outside of others, is one."""
        key = id(module)
        found = self.trained.get(key)
        if found is None or found() is not module:
            return False
        self.models[key] = weakref.ref(module, lambda _: self.models.pop(key, None))
        return True

    def __reduce__(self) -> Any:
        """Of a class pickled by value, as cloudpickle does: a copy that only passes calls on."""
        return types.SimpleNamespace, (), {"inside": True}


class ModelCalls:
    """Tells of each call of a trained model; calls inside of another model's are that one's."""

    def __init__(self, on_call: OnCall, on_return: Callable[[], None]) -> None:
        self._state = _State(on_call, on_return)
        self._covered: dict[type, tuple[Any, Any]] = {}
        self.looks = 0
        """How often models were looked for."""

    @property
    def finding(self) -> bool:
        """Whether models are being looked for in the calls of this step."""
        return self._state.finding

    def look(self, optimizer: Any) -> None:
        """Looks for the models that hold an optimizer's parameters; without one, any trained."""
        if self.looks >= MOST_LOOKS:
            return
        self.looks += 1
        state = self._state
        trained = _find_trained(_parameters_of(optimizer))
        state.models.clear()
        state.trained = {id(module): weakref.ref(module) for module in trained}
        state.finding = True
        for kind in {type(module) for module in trained}:
            self._cover(kind)

    def settle(self) -> None:
        """Ends the search: only classes of the models that were called stay covered."""
        state = self._state
        state.finding = False
        state.trained = {}
        models = [found() for found in list(state.models.values())]
        kept = {type(model) for model in models if model is not None}
        for kind in [kind for kind in self._covered if kind not in kept]:
            self._uncover(kind)

    def end(self) -> None:
        """Leaves every class as it was found."""
        self._state.models.clear()
        self.settle()

    def _cover(self, kind: type) -> None:
        if kind in self._covered:
            return
        own, inherited, state = kind.__dict__.get("__call__"), kind.__call__, self._state

        def call(module: Any, /, *args: Any, **kwargs: Any) -> Any:
            # The compiler first: it must read nothing of ours, or it would compile anew when that
            # changes.
            if (
                is_dynamo_compiling()
                or state.inside
                or not (id(module) in state.models or (state.finding and state.adopt(module)))
            ):
                return inherited(module, *args, **kwargs)
            state.inside, awaited = True, False
            try:
                awaited = state.on_call(module, args, kwargs)
                return inherited(module, *args, **kwargs)
            finally:
                state.inside = False
                if awaited:
                    state.on_return()

        try:
            kind.__call__ = call  # type: ignore[method-assign]
        except (AttributeError, TypeError):
            return  # a class that takes no attribute: its calls are not seen
        self._covered[kind] = (own, call)

    def _uncover(self, kind: type) -> None:
        own, ours = self._covered.pop(kind)
        # A program that put its own in place meanwhile keeps it: ours then only passes on.
        if kind.__dict__.get("__call__") is not ours:
            return
        if own is None:
            del kind.__call__
        else:
            kind.__call__ = own  # type: ignore[method-assign]


def _parameters_of(optimizer: Any) -> set[int]:
    groups = () if optimizer is None else optimizer.param_groups
    return {id(parameter) for group in groups for parameter in group["params"]}


def _find_trained(parameters: set[int]) -> list[Any]:
    """Modules that hold some of these parameters or have such a part.

    Where none does, as where the optimizer steps copies of its own, those with any that requires
    a gradient.
    """
    # By type alone: other people's objects may answer anything when they are asked.
    objects = gc.get_objects()
    every = [found for found in objects if issubclass(type(found), torch.nn.Module)]
    let_go_slowly(objects)
    known_parents.note(every)
    holders = [m for m in every if any(id(p) in parameters for p in _own_parameters(m))]
    if not holders:
        holders = [m for m in every if any(p.requires_grad for p in _own_parameters(m))]
    return _with_parents(holders, every)


def _with_parents(holders: Iterable[Any], every: Iterable[Any]) -> list[Any]:
    parents: dict[int, list[Any]] = {}
    for module in every:
        for part in (vars(module).get("_modules") or {}).values():
            if part is not None:
                parents.setdefault(id(part), []).append(module)
    found: dict[int, Any] = {}
    left = list(holders)
    while left:
        module = left.pop()
        if id(module) not in found:
            found[id(module)] = module
            left += parents.get(id(module), ())
    return list(found.values())


def _own_parameters(module: Any) -> list[Any]:
    kept = vars(module).get("_parameters") or {}
    return [parameter for parameter in kept.values() if parameter is not None]
