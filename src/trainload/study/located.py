"""YAML text as plain values, with the line of every key, so that a complaint can point at it.

Knows lines and types; what a key means is decided by whoever reads the values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import yaml

from trainload.errors import StudyError
from trainload_worker.protocol.checked import CheckError, build_checked

T = TypeVar("T")
KeyPath = tuple[str | int, ...]
MOST_VALUES = 200_000
"""Values that one file may hold, aliases counted as often as they stand."""
MOST_BYTES = 4 << 20
COMMAND_LINE = "command line"
"""Where keys of line 0 stand."""


class _Loader(yaml.SafeLoader):  # type: ignore[misc] # it comes without types
    """YAML 1.1 as people write numbers: `1e-4` is one, as in every other language."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:[0-9][0-9_]*)(?:\.[0-9_]*)?(?:[eE][-+]?[0-9]+)$"),
    list("-+0123456789"),
)


@dataclass(frozen=True, kw_only=True)
class Located:
    """The values of a file, and where each key of them stands."""

    place: str
    """The file as messages name it."""
    value: Any
    lines: Mapping[KeyPath, int] = field(default_factory=dict)
    """Line of each key, counted from 1."""

    def wrong(self, path: KeyPath, what: str) -> StudyError:
        """A complaint about a key: file, line, key, what."""
        line = self.line(path)
        where = self.place if line is None else f"{self.place}:{line}"
        where = COMMAND_LINE if line == 0 else where
        return StudyError(f"{where}: {render_path(path)}: {what}" if path else f"{where}: {what}")

    def line(self, path: KeyPath) -> int | None:
        """Line of a key or of what holds it; None where the file tells none."""
        for end in range(len(path), -1, -1):
            if path[:end] in self.lines:
                return self.lines[path[:end]]
        return None

    def build(self, cls: type[T], value: Any, at: KeyPath = ()) -> T:
        """A checked dataclass from values of this file; StudyError points at what is wrong."""
        try:
            return build_checked(cls, value, "")
        except CheckError as error:
            path, what = split_complaint(str(error))
            raise self.wrong((*at, *path), what) from None


def split_complaint(text: str) -> tuple[KeyPath, str]:
    """The key that the checker's complaint names, and what it says of it."""
    where, colon, what = text.partition(": ")
    if not colon or not re.fullmatch(r"[\w.\[\]-]+", where):
        where, what = "", text
    path: list[str | int] = [
        int(part[1:-1]) if part.startswith("[") else part
        for part in re.findall(r"\[\d+\]|[^.\[\]]+", where)
    ]
    unknown = re.match(r"unknown name '([^']+)'", what)
    if unknown is not None:
        path.append(unknown[1])
        what = f"no such key{what[unknown.end() :]}"
    return tuple(path), what


def render_path(path: KeyPath) -> str:
    """`factors.batch_size[1]`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def read_text(path: Path) -> str:
    """The text of a file that a user named; StudyError where it cannot be read."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise StudyError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise StudyError(f"{path} is no UTF-8 text: byte {error.start}") from None
    if len(data) > MOST_BYTES:
        raise StudyError(f"{path} is larger than {MOST_BYTES >> 20} MiB")
    return text


def parse_yaml(text: str, place: str) -> Located:
    """The values of a YAML text with their lines; StudyError where it is none."""
    try:
        root = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        line = "" if error.problem_mark is None else f":{error.problem_mark.line + 1}"
        raise StudyError(f"{place}{line}: no YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise StudyError(f"{place}: no YAML: {' '.join(str(error).split())}") from None
    reader = _Reader(place)
    try:
        value = None if root is None else reader.read(root, ())
    except RecursionError:
        raise StudyError(f"{place}: nested too deeply") from None
    if not isinstance(value, dict):
        raise StudyError(f"{place}:1: expected keys with values, such as `name: my-study`")
    return Located(place=place, value=value, lines=reader.lines)


class _Reader:
    def __init__(self, place: str) -> None:
        self.lines: dict[KeyPath, int] = {(): 1}
        self._place = place
        self._construct = yaml.constructor.SafeConstructor()
        self._count = 0

    def read(self, node: Any, path: KeyPath) -> Any:
        self._count += 1
        if self._count > MOST_VALUES:
            raise StudyError(f"{self._place}: more than {MOST_VALUES:,} values")
        line = node.start_mark.line + 1
        self.lines.setdefault(path, line)
        if isinstance(node, yaml.MappingNode):
            return self._read_mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.read(one, (*path, number)) for number, one in enumerate(node.value)]
        try:
            value = self._construct.construct_object(node)
        except (yaml.YAMLError, ValueError) as error:
            raise StudyError(f"{self._place}:{line}: {' '.join(str(error).split())}") from None
        if value is None or isinstance(value, str | bool | int | float):
            return value
        return node.value  # a date or the like: the words as they stand

    def _read_mapping(self, node: Any, path: KeyPath) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                raise StudyError(f"{self._place}:{line}: a key must be one word")
            key = str(key_node.value)
            below = (*path, key)
            if key in found:
                again = f"{render_path(below)}: named twice, first in line {self.lines[below]}"
                raise StudyError(f"{self._place}:{line}: {again}")
            self.lines[below] = line
            found[key] = self.read(value_node, below)
        return found
