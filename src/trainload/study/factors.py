"""Factors and their levels: what a study varies, read from its file or from `key=a,b,c` words.

A level sets one key of the run, several at once, a variable of its environment, or a word of a
script's arguments.
"""

from __future__ import annotations

import json
import shlex
import string
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from trainload.errors import UsageError
from trainload.study.keys import complain_unknown, known_hints
from trainload.study.located import KeyPath, Located, parse_yaml
from trainload_worker.protocol.checked import CheckError, check_value

if TYPE_CHECKING:
    from trainload.study.file import StudyKeys

ENVIRONMENT = "environment."
LABEL = "level"


@dataclass(frozen=True, kw_only=True)
class Level:
    """One value of a factor."""

    label: Any
    """What tables and rules call it: the value itself, or the name of several."""
    sets: Mapping[str, Any]
    """Keys of the run that it sets; none where it only fills `{name}` in a script's arguments."""
    path: KeyPath
    """Where it stands in the file."""


@dataclass(frozen=True, kw_only=True)
class Range:
    """Any number between two, for designs that draw samples."""

    low: float
    high: float
    scale: Literal["linear", "log"] = "linear"
    whole: bool = False
    """Whether only whole numbers are drawn."""


@dataclass(frozen=True, kw_only=True)
class Factor:
    """What a study varies: levels, or a range to draw from."""

    name: str
    levels: tuple[Level, ...]
    range: Range | None
    path: KeyPath

    def drawn(self, value: float) -> Level:
        """The level of a number drawn from the range."""
        return _level(self.name, value, self.path)


def read_factor(name: str, keys: StudyKeys, source: Located) -> Factor:
    """One factor of a file; StudyError points at a level that cannot be meant."""
    path: KeyPath = ("factors", name)
    value = keys.factors[name]
    if isinstance(value, Mapping):
        found = _read_range(name, value, keys, source)
        return Factor(name=name, levels=(), range=found, path=path)
    if not isinstance(value, list):
        raise source.wrong(path, f"expected a list of levels, got {value!r}")
    if not value:
        raise source.wrong(path, "has no levels")
    levels = tuple(
        _read_level(name, one, (*path, number), keys, source) for number, one in enumerate(value)
    )
    seen: dict[str, Level] = {}
    for level in levels:
        text = json.dumps(level.label)
        if text in seen:
            raise source.wrong(level.path, f"the level {text} is named twice")
        seen[text] = level
    plain = [level for level in levels if not level.sets]
    if len(plain) > 1:
        raise source.wrong(plain[1].path, "two levels set nothing: they would be the same")
    return Factor(name=name, levels=levels, range=None, path=path)


def _read_range(name: str, value: Any, keys: StudyKeys, source: Located) -> Range:
    path: KeyPath = ("factors", name)
    found = source.build(Range, value, path)
    if keys.design.kind not in ("random", "latin-hypercube"):
        raise source.wrong(path, f"a {keys.design.kind} needs a list of levels, not a range")
    if found.high <= found.low or (found.scale == "log" and found.low <= 0):
        raise source.wrong(path, f"no numbers lie between {found.low:g} and {found.high:g}")
    level = _level(name, round(found.low) if found.whole else found.low, path)
    _check_level(name, level, keys, source)
    return found


def _read_level(name: str, value: Any, path: KeyPath, keys: StudyKeys, source: Located) -> Level:
    if isinstance(value, Mapping):
        rest = {key: one for key, one in value.items() if key != LABEL}
        if not isinstance(value.get(LABEL), str | int | float | bool):
            raise source.wrong(path, "a level of several keys has a name too: {level: a, key: 1}")
        level = Level(label=value[LABEL], sets=rest, path=path)
    else:
        level = _level(name, value, path)
    _check_level(name, level, keys, source)
    return level


def _level(name: str, value: Any, path: KeyPath) -> Level:
    return Level(label=value, sets={name: value}, path=path)


def _check_level(name: str, level: Level, keys: StudyKeys, source: Located) -> None:
    varied = "model" in keys.factors or _sets_model(keys.factors)
    around = {} if varied else keys.workload
    hints = known_hints(around)
    for key, value in level.sets.items():
        if key in hints and key not in ("arguments", "environment"):
            try:
                check_value(hints[key], value, "")
            except CheckError as error:
                raise source.wrong(level.path, f"{key}: {error}") from None
        elif key.startswith(ENVIRONMENT) and key != ENVIRONMENT:
            continue
        elif key not in placeholders(keys.workload):
            raise source.wrong(
                level.path if len(level.sets) > 1 else ("factors", name),
                complain_unknown(key, around),
            )


def _sets_model(factors: Mapping[str, Any]) -> bool:
    """Whether levels of several keys choose the model."""
    return any(
        isinstance(level, Mapping) and "model" in level
        for levels in factors.values()
        if isinstance(levels, list)
        for level in levels
    )


def placeholders(workload: Mapping[str, Any]) -> set[str]:
    """The names in braces of a workload's arguments and variables."""
    environment = workload.get("environment")
    texts = [
        *workload.get("arguments", ()),
        *(environment.values() if isinstance(environment, Mapping) else ()),
    ]
    found: set[str] = set()
    for text in texts:
        try:
            found |= {name for _, name, _, _ in string.Formatter().parse(str(text)) if name}
        except ValueError:
            continue  # braces of the script's own, such as JSON
    return found


def fill(text: str, levels: Mapping[str, Any]) -> str:
    """The text with `{name}` replaced by the level of that factor; other braces stay."""
    for name, level in levels.items():
        text = text.replace("{" + name + "}", as_text(level))
    return text


def as_text(value: Any) -> str:
    """A value as a word of a command line: true and false in small letters, numbers as written."""
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else json.dumps(value)


def as_arguments(value: Any) -> Any:
    """A line of words, or a list, as a list of texts; anything else as it is."""
    if isinstance(value, str):
        try:
            return shlex.split(value)
        except ValueError:
            return [value]
    return [as_text(one) for one in value] if isinstance(value, list) else value


def split_word(word: str) -> tuple[str, list[Any]]:
    """`batch_size=64,128` as a factor; UsageError where it is none."""
    name, equals, rest = word.partition("=")
    if not equals or not name.strip() or not rest.strip():
        raise UsageError(f"{word!r}: write a factor as batch_size=64,128")
    levels = [parse_yaml(f"level: {part.strip()}", word).value["level"] for part in rest.split(",")]
    return name.strip(), levels
