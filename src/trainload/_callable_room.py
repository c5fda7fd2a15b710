"""Lets a room be called by its own name: `trainload.run(…)` beside the package `trainload.run`.

The room stays the module that it is; calling it reaches the function of the Python surface, which
is imported then. Imports nothing of ours.
"""

import importlib
import inspect
import sys
from types import ModuleType
from typing import Any


class _CallableRoom(ModuleType):
    """A package whose call is a function of `trainload.api`."""

    _surface: tuple[str, str]

    @property
    def _function(self) -> Any:
        module, name = self._surface
        return getattr(importlib.import_module(module), name)

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self._function)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self._function(*arguments, **options)


def make_callable(room: str, module: str, name: str) -> None:
    """Have calls of the room `room` go to `module.name`."""
    package = sys.modules[room]
    package.__class__ = _CallableRoom
    package._surface = (module, name)  # type: ignore[attr-defined]
