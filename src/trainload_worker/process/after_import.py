"""Does something once a module of the program's choice has been imported; imports none itself.

A program may set variables that its framework reads when it is imported: nobody may be faster.
"""

from __future__ import annotations

import importlib.util
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Callable, Sequence

Then = Callable[[ModuleType], None]


class AfterImport(MetaPathFinder):
    """Calls `then` with the module: now where it is imported already, else when that happens."""

    def __init__(self, name: str, then: Then) -> None:
        self._name, self._then = name, then

    def watch(self) -> None:
        """Begins to wait."""
        found = sys.modules.get(self._name)
        if found is None:
            sys.meta_path.insert(0, self)
        else:
            self._then(found)

    def leave(self) -> None:
        """Waits no longer."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002 - Python's own signature
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """The module's own spec with a loader that tells when it is done; None for any other."""
        if fullname != self._name:
            return None
        self.leave()
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Telling(spec.loader, self._then)
        return spec


class _Telling(Loader):
    """Another loader, and a call after its work."""

    def __init__(self, loader: Any, then: Then) -> None:
        self._loader, self._then = loader, then

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Runs the module as its own loader does, which it keeps."""
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._then(module)
