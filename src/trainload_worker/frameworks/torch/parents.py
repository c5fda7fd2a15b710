"""Which module is a part of which, as found when models were looked for; holds none alive."""

from __future__ import annotations

import weakref
from typing import Any, Iterable

_DEEPEST = 20


class Parents:
    """The place of a module in the one it is a part of, for parts called on their own."""

    def __init__(self) -> None:
        self._places: dict[int, list[tuple[Any, str]]] = {}

    def note(self, modules: Iterable[Any]) -> None:
        """Takes these for all that there are."""
        self._places = {}
        for module in modules:
            parts = vars(module).get("_modules") or {}
            for name, part in parts.items():
                if part is not None:
                    found = self._places.setdefault(id(part), [])
                    found.append((weakref.ref(module), name))

    def place_of(self, module: Any, wrappers: Iterable[str]) -> tuple[Any, str] | None:
        """The outermost module that has it as a part, and the path there.

        None where there is none or it is not the only one; `wrappers` are classes that only stand
        around a model.
        """
        at, path = module, ""
        for _ in range(_DEEPEST):
            above = self._above(at, wrappers)
            if len(above) != 1:
                break
            at, name = above[0]
            path = f"{name}.{path}" if path else name
        return (at, path) if path else None

    def _above(self, module: Any, wrappers: Iterable[str]) -> list[tuple[Any, str]]:
        found = []
        for reference, name in self._places.get(id(module), ()):
            parent = reference()
            # An id comes back for another module, and a program may change its parts.
            if parent is None or type(parent).__name__ in wrappers:
                continue
            if (vars(parent).get("_modules") or {}).get(name) is module:
                found.append((parent, name))
        return found


known_parents = Parents()
"""Of this process."""
