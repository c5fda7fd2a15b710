"""Sees the calls of the models that a program trains, from outside of them; reads no value.

Models are found through the parameters that the optimizer steps, when that has stepped for the
first time: among the classes seen so far, else among all objects of the process. From then on the
class of each model called from outside of others has a `__call__` of ours; no module has a hook, so
that what the program saves or copies is what it would be without us. Inside a compiled region
nothing is left of it.
"""

from __future__ import annotations

import gc
import types
import weakref
from time import monotonic
from typing import Any, Callable, Iterable

import torch
from torch.compiler import is_dynamo_compiling

from trainload_worker.frameworks.torch.parents import known_parents
from trainload_worker.process.allocator import let_go_slowly

MOST_VAIN = 8
"""Searches in a row that found no model which was called; then none is looked for any more."""
FREE_LOOKS = 8
"""Searches through all objects of the process that may take as long as they will."""
LOOKING_SHARE = 0.01
"""Of the time since the first search, what all of them may take before another is begun."""

_AVERAGED = torch.optim.swa_utils.AveragedModel
OnCall = Callable[[Any, Any, Any], bool]
"""Takes the model, its positional and its named arguments, before the call; whether its return is
to be told of."""


def _unheeded(_copy: Any) -> bool:
    """Stands where nobody asks for copies."""
    return False


class _State:
    """What the covered classes look at."""

    def __init__(
        self, on_call: OnCall, on_return: Callable[[], None], on_copy: Callable[[Any], bool]
    ) -> None:
        self.inside = False
        self.finding = False
        self.models: dict[int, Any] = {}
        self.trained: dict[int, Any] = {}
        self.stepped: set[int] = set()
        """While a model is looked for among classes that are covered: the parameters it must have
        all of."""
        self.on_call = on_call
        self.on_copy = on_copy
        self.on_return = on_return

    def adopt(self, module: Any) -> bool:
        """While models are looked for: whether this one, called from outside of others, is one."""
        key = id(module)
        found = self.trained.get(key)
        if self.stepped:
            if not self.stepped.issubset(_all_parameters(module)):
                return False
        elif found is None or found() is not module:
            return False
        self.models[key] = weakref.ref(module, lambda _: self.models.pop(key, None))
        return True

    def __reduce__(self) -> Any:
        """Of a class pickled by value, as cloudpickle does: a copy that only passes calls on."""
        return types.SimpleNamespace, (), {"inside": True}


class ModelCalls:
    """Tells of each call of a trained model; calls inside of another model's are that one's.

    `on_copy` is told of others' calls in evaluation mode: of a trained model's class, or averages.
    """

    def __init__(
        self,
        on_call: OnCall,
        on_return: Callable[[], None],
        on_copy: Callable[[Any], bool] = _unheeded,
    ) -> None:
        self._state = _State(on_call, on_return, on_copy)
        self._covered: dict[type, tuple[Any, Any]] = {}
        self._uncovered: list[type] = []
        """While it rests: the classes to be covered after it."""
        self.vain = 0
        """Searches in a row that found nothing."""
        self.refusal: str | None = None
        """Why models were not looked for, where that was so."""
        self._looks = 0
        self._spent_s = 0.0
        self._first_s = 0.0

    @property
    def finding(self) -> bool:
        """Whether models are being looked for in the calls of this step."""
        return self._state.finding

    def look(self, optimizer: Any, *, near: bool = False) -> None:
        """Looks for the models that hold an optimizer's parameters; without one, any trained.

        `near`: for one model alone, of a class that is covered already; costs next to nothing.
        """
        state, parameters = self._state, _parameters_of(optimizer)
        if near and self._covered and parameters:
            state.models.clear()
            state.trained, state.stepped, state.finding = {}, parameters, True
            return
        begin_s = monotonic()
        self._refuse(begin_s)
        if self.refusal is not None:
            return
        trained = _find_trained(parameters)
        state.models.clear()
        state.trained = {id(module): weakref.ref(module) for module in trained}
        state.finding = True
        for kind in {type(module) for module in trained}:
            self._cover(kind)
        self._looks += 1
        self._first_s = self._first_s or begin_s
        self._spent_s += monotonic() - begin_s

    def _refuse(self, now_s: float) -> None:
        late = self._spent_s > LOOKING_SHARE * (now_s - self._first_s)
        if self.vain >= MOST_VAIN:
            self.refusal = f"no call of a model was found in {MOST_VAIN} searches"
        elif self._looks >= FREE_LOOKS and late:
            self.refusal = "new models come faster than they can be looked for"
        else:
            self.refusal = None

    def settle(self) -> bool:
        """Ends the search; whether it is over: a near one that found none is to be a wide one.

        Only classes of the models that were called stay covered.
        """
        state = self._state
        near, state.stepped = bool(state.stepped), set()
        state.finding = False
        state.trained = {}
        models = [found() for found in list(state.models.values())]
        kept = {type(model) for model in models if model is not None}
        if near and not kept:
            return False
        self.vain = 0 if kept else self.vain + 1
        if kept:
            self._cover(_AVERAGED)
            kept.add(_AVERAGED)
        self._keep(kept)
        return True

    def rest(self) -> None:
        """Sees no call until `wake`."""
        self._uncovered = list(self._covered)
        self._keep(set())

    def wake(self) -> None:
        """Sees the same classes again."""
        for kind in self._uncovered:
            self._cover(kind)
        self._uncovered = []

    def end(self) -> None:
        """Leaves every class as it was found."""
        self._uncovered = []
        self._state.models.clear()
        self._state.finding = False
        self._keep(set())

    def _keep(self, kinds: set[type]) -> None:
        for kind in [kind for kind in self._covered if kind not in kinds]:
            self._uncover(kind)

    def _cover(self, kind: type) -> None:
        if kind in self._covered:
            return
        own, inherited, state = kind.__dict__.get("__call__"), kind.__call__, self._state

        def call(module: Any, /, *args: Any, **kwargs: Any) -> Any:
            # The compiler first: it must read nothing of ours, or it would compile anew when that
            # changes.
            if is_dynamo_compiling() or state.inside:
                return inherited(module, *args, **kwargs)
            trained = id(module) in state.models or (state.finding and state.adopt(module))
            if not trained and (state.finding or getattr(module, "training", True)):
                return inherited(module, *args, **kwargs)
            state.inside, awaited = True, False
            try:
                awaited = state.on_call(module, args, kwargs) if trained else state.on_copy(module)
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


def _all_parameters(module: Any) -> Iterable[int]:
    left, seen = [module], {id(module)}
    while left:
        part = left.pop()
        yield from map(id, _own_parameters(part))
        for inner in (vars(part).get("_modules") or {}).values():
            if inner is not None and id(inner) not in seen:
                seen.add(id(inner))
                left.append(inner)


def _own_parameters(module: Any) -> list[Any]:
    kept = vars(module).get("_parameters") or {}
    return [parameter for parameter in kept.values() if parameter is not None]
