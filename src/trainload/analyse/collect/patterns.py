"""What a log pattern is, and patterns of one's own from a JSON file; holds no named pattern."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from trainload.analyse.collect.groups import (
    TIMESTAMP,
    Reading,
    column_of,
    misnamed_group,
    read_groups,
)
from trainload.analyse.collect.timestamps import find_stamp
from trainload.errors import UsageError

MOST_FILE_BYTES = 1_000_000
_FORM = 'it must be {"name": "mine", "expressions": ["step (?P<iteration>\\\\d+) …"]}, or a list'


@dataclass(frozen=True, kw_only=True)
class Pattern:
    """A kind of log: expressions whose named groups say what stands where, unit in the name.

    Each expression is looked for in each line; the groups of all that match belong together.
    """

    name: str
    about: str
    expressions: tuple[re.Pattern[str], ...]
    first_iteration: int | None = None
    """Number of the first iteration: 0 or 1; None: 0 if the first one printed is 0."""
    one_bar: bool = False
    """Progress bars of several lengths may stand in the log: the longest one is training's."""
    bar_follows: bool = False
    """A line of results is printed ahead of the bar's state that it belongs to."""
    general: bool = False
    """Fits lines of other patterns too: its lines count a tenth when the best is chosen."""

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Columns of the groups, in order of the expressions."""
        names = {column_of(group): None for e in self.expressions for group in e.groupindex}
        names.pop(TIMESTAMP, None)
        return tuple(names)

    def read_line(self, line: str) -> tuple[Reading, str | None] | None:
        """What a line says, with its timestamp group; None where no expression matches."""
        reading: Reading | None = None
        stamp: str | None = None
        for expression in self.expressions:
            match = expression.search(line)
            if match is None:
                continue
            found = match.groupdict()
            stamp = stamp or found.get(TIMESTAMP)
            reading = {**(reading or {}), **read_groups(found)}
        # An expression may match without saying anything, as where all its groups are optional.
        return None if not reading and not stamp else (reading or {}, stamp)

    def stamp_ns(self, line: str, stamp: str | None) -> tuple[int, bool] | None:
        """The line's time: its timestamp group's, else one at the line's start."""
        return find_stamp(line if stamp is None else stamp)


def load_patterns(path: Path) -> tuple[Pattern, ...]:
    """Patterns of a JSON file: one object or a list of them."""
    try:
        with path.open("rb") as file:
            content = file.read(MOST_FILE_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read pattern file {path}: {error.strerror}") from error
    if len(content) > MOST_FILE_BYTES:
        raise UsageError(f"pattern file {path} is over {MOST_FILE_BYTES:,} bytes; {_FORM}")
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"pattern file {path} is no JSON ({_brief(error)}); {_FORM}") from None
    entries = document if isinstance(document, list) else [document]
    if not entries:
        raise UsageError(f"pattern file {path} holds no pattern; {_FORM}")
    return tuple(_pattern(entry, path) for entry in entries)


def _pattern(entry: Any, path: Path) -> Pattern:
    if not isinstance(entry, Mapping):
        raise UsageError(f"pattern file {path}: {_FORM}")
    unknown = set(entry) - {"name", "about", "expressions", "first_iteration", "one_bar"}
    if unknown:
        raise UsageError(f"pattern file {path}: unknown key {sorted(unknown)[0]!r}; {_FORM}")
    name, texts = entry.get("name", path.stem), entry.get("expressions")
    about, first = entry.get("about", f"from {path.name}"), entry.get("first_iteration")
    if not isinstance(name, str) or not name or not isinstance(about, str):
        raise UsageError(f"pattern file {path}: name and about must be text; {_FORM}")
    if isinstance(texts, str):
        texts = [texts]
    if not isinstance(texts, Sequence) or not texts or not all(isinstance(t, str) for t in texts):
        raise UsageError(f"pattern file {path}: expressions must be a list of text; {_FORM}")
    if first not in (None, 0, 1) or isinstance(first, bool):
        raise UsageError(f"pattern file {path}: first_iteration must be 0, 1 or null")
    if not isinstance(entry.get("one_bar", False), bool):
        raise UsageError(f"pattern file {path}: one_bar must be true or false")
    return Pattern(
        name=name,
        about=about,
        expressions=tuple(_expression(text, name, path) for text in texts),
        first_iteration=first,
        one_bar=entry.get("one_bar", False),
    )


def _expression(text: str, name: str, path: Path) -> re.Pattern[str]:
    where = f"pattern {name!r} of {path}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what a later Python may read differently
            expression = re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise UsageError(f"{where}: {text!r} is no regular expression: {_brief(error)}") from None
    if not expression.groupindex:
        raise UsageError(f"{where}: {text!r} has no named group such as (?P<time_s>…)")
    for group in expression.groupindex:
        fault = misnamed_group(group)
        if fault:
            raise UsageError(f"{where}: {fault}")
    return expression


def _brief(error: Exception) -> str:
    return str(error)[:200] or type(error).__name__
