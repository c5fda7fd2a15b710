"""One object of a JSON document that knows where it stands; says which field is wrong."""

from __future__ import annotations

from typing import Any, Mapping

from trainload_worker.errors import SpecError

_TYPE_NAMES: Mapping[Any, str] = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    dict: "an object",
    list: "a list",
}


class Node:
    """An object of the document that knows where it stands, for messages."""

    def __init__(self, fields: Mapping[str, Any], where: str) -> None:
        self._fields = fields
        self._where = where

    def _path(self, name: str) -> str:
        return f"{self._where}.{name}" if self._where else name

    def wrong(self, name: str, what: str) -> SpecError:
        return SpecError(f"the specification's {self._path(name)} {what}")

    def _get(self, name: str, kind: type) -> Any:
        if name not in self._fields:
            raise self.wrong(name, "is missing")
        value = self._fields[name]
        accepted = (int, float) if kind is float else kind
        # True is an int to Python and never a number to us.
        if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
            raise self.wrong(name, f"must be {_TYPE_NAMES[kind]}, not {value!r:.80}")
        return value

    def has(self, name: str) -> bool:
        return self._fields.get(name) is not None

    def text(self, name: str) -> str:
        return str(self._get(name, str))

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        value = self.text(name)
        if value not in choices:
            raise self.wrong(name, f"must be one of {', '.join(choices)}, not {value!r}")
        return value

    def truth(self, name: str) -> bool:
        return bool(self._get(name, bool))

    def number(self, name: str) -> float:
        return float(self._get(name, float))

    def whole(self, name: str, at_least: int | None = None) -> int:
        value = int(self._get(name, int))
        if at_least is not None and value < at_least:
            raise self.wrong(name, f"must be at least {at_least}, not {value}")
        return value

    def optional_whole(self, name: str, at_least: int | None = None) -> int | None:
        return self.whole(name, at_least) if self.has(name) else None

    def fraction(self, name: str) -> float:
        value = self.number(name)
        if not 0 < value < 1:
            raise self.wrong(name, f"must lie between 0 and 1, not {value}")
        return value

    def mapping(self, name: str) -> dict[str, Any]:
        return dict(self._get(name, dict))

    def node(self, name: str) -> Node:
        return Node(self._get(name, dict), self._path(name))

    def nodes(self, name: str) -> list[Node]:
        values = self._get(name, list)
        if not all(isinstance(value, dict) for value in values):
            raise self.wrong(name, "must be a list of objects")
        return [Node(value, f"{self._path(name)}[{i}]") for i, value in enumerate(values)]

    def texts(self, name: str) -> tuple[str, ...]:
        values = self._get(name, list)
        if not all(isinstance(value, str) for value in values):
            raise self.wrong(name, "must be a list of strings")
        return tuple(values)

    def wholes(self, name: str) -> tuple[int, ...]:
        values = self._get(name, list)
        if not all(isinstance(value, int) and not isinstance(value, bool) for value in values):
            raise self.wrong(name, "must be a list of whole numbers")
        return tuple(values)
