"""Stands in for torch's compiler and its algebra of symbolic shapes, which a trace does not need.

torch loads both, seconds of imports, only to be told that a function is not to be compiled or that
a plain condition holds. Whoever needs more of them gets the real ones.
"""

from __future__ import annotations

import importlib
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, Mapping

import torch

_COMPILER = "torch._dynamo"
_SHAPES = "torch.fx.experimental.symbolic_shapes"
_ALGEBRA = "sympy"
_FUNCTIONS = "torch.utils._sympy.functions"
_NAMES = (_COMPILER, _SHAPES, _FUNCTIONS, _ALGEBRA)


class _Light(ModuleType):
    """A module with a few names; replaced by the real module when any other name is asked for."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        _make_room(self.__name__)
        return getattr(importlib.import_module(self.__name__), name)


class _Finder(MetaPathFinder):
    """Replaces a light module by the real one when a submodule of it is imported."""

    def find_spec(self, fullname: str, _path: Any, _target: Any = None) -> ModuleSpec | None:
        """The spec of a real submodule; None for modules that are not replaced here."""
        root = next((name for name in _NAMES if fullname.startswith(f"{name}.")), None)
        if root is None or not isinstance(sys.modules.get(root), _Light):
            return None
        _make_room(root)
        whole = importlib.import_module(root)
        if fullname in sys.modules:
            return ModuleSpec(fullname, _Loaded(sys.modules[fullname]))
        return PathFinder.find_spec(fullname, whole.__path__)


class _Loaded(Loader):
    """Loads a module that its real parent has imported meanwhile."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def create_module(self, _spec: ModuleSpec) -> ModuleType:
        """The module as it is."""
        return self._module

    def exec_module(self, _module: ModuleType) -> None:
        """Does nothing: the module has been executed."""


def _make_room(wanted: str) -> None:
    """Removes light modules so that the real ones load; the algebra's go together."""
    for name in _NAMES:
        if name == _COMPILER and wanted != _COMPILER:
            continue
        if isinstance(sys.modules.get(name), _Light):
            del sys.modules[name]
            if name == _COMPILER:
                torch.__dict__.pop("_dynamo", None)


def _truth(condition: Any, *_args: Any, **_kwargs: Any) -> bool:
    return bool(condition)


def _equal(first: Any, second: Any) -> bool:
    if isinstance(first, (tuple, list)) and isinstance(second, (tuple, list)):
        return len(first) == len(second) and all(map(_equal, first, second))
    return bool(first == second)


def _itself(value: Any, *_args: Any, **_kwargs: Any) -> Any:
    return value


def _saying(answer: Any) -> Any:
    return lambda *_args, **_kwargs: answer


def _none_of_them(*_args: Any) -> set[Any]:
    return set()


left_out: dict[str, None] = {}
"""What was left out, for the trace's remarks."""


def _not_compiled(function: Any = None, **_options: Any) -> Any:
    left_out["torch.compile is left out: what it fuses needs less memory and time"] = None
    return _not_compiled if function is None else function


def _compile_nothing(_module: Any, **_options: Any) -> None:
    _not_compiled()


def _as_it_is(function: Any = None, *_args: Any, **_kwargs: Any) -> Any:
    return _as_it_is if function is None else function


_TRUTHS = (
    "expect_true",
    "guard_or_false",
    "guard_or_true",
    "guard_size_oblivious",
    "statically_known_true",
    "definitely_true",
    "guard_bool",
)
_SHAPE_NAMES: Mapping[str, Any] = {
    **dict.fromkeys(_TRUTHS, _truth),
    "sym_or": lambda *conditions: any(conditions),
    "sym_and": lambda *conditions: all(conditions),
    "sym_eq": _equal,
    **dict.fromkeys(("guarding_hint_or_throw", "optimization_hint", "hint_int"), _itself),
    **dict.fromkeys(("has_guarding_hint", "has_hint", "has_static_value"), _saying(True)),
    **dict.fromkeys(("is_nested_int", "has_free_symbols", "is_symbolic"), _saying(False)),
    "has_free_unbacked_symbols": _saying(False),
    "free_unbacked_symbols": _none_of_them,
    "free_symbols": _none_of_them,
    "GuardOnDataDependentSymNode": type("GuardOnDataDependentSymNode", (RuntimeError,), {}),
}


_ALGEBRA_NAMES = ("Basic", "Expr", "Float", "Integer", "Number", "Symbol")
"""Classes that numbers are compared with; none is one of theirs."""


def leave_compiler_out() -> None:
    """Puts the stand-ins in place, where the real modules have not been loaded already."""
    light: dict[str, Mapping[str, Any]] = {
        _COMPILER: {"disable": _as_it_is, "graph_break": _saying(None)},
        _SHAPES: _SHAPE_NAMES,
        _FUNCTIONS: {"Max": max, "Min": min},
        _ALGEBRA: {name: type(name, (), {}) for name in _ALGEBRA_NAMES},
    }
    # A step is traced as it would run uncompiled: nobody knows what a compiler fuses.
    torch.compile = _not_compiled
    torch.nn.Module.compile = _compile_nothing
    if any(name in sys.modules for name in light):
        return
    sys.meta_path.insert(0, _Finder())
    for name, names in light.items():
        module = _Light(name)
        module.__dict__.update(names, __path__=[])
        sys.modules[name] = module
    torch._dynamo = sys.modules[_COMPILER]
