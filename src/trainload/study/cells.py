"""Cells: one combination of levels with everything it sets, known by the digest of that content.

Pure but for a script's bytes, which are part of what it is.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from trainload.study.factors import ENVIRONMENT, Level, as_text, fill
from trainload.study.keys import run_keywords
from trainload.study.located import KeyPath
from trainload_worker.protocol.checked import to_json

IDENTITY_LETTERS = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """One cell of a study; there may be many thousands, so all but its identity is shared."""

    identity: str
    """Digest of all that changes its result; the same in every study that has the cell."""
    workload: Mapping[str, Any]
    names: tuple[str, ...]
    levels: tuple[Level, ...]
    """Of each factor in `names`."""
    base: Mapping[str, Level] | None
    """What one at a time departs from; None in other designs."""

    @property
    def factors(self) -> dict[str, Any]:
        """The label of each factor's level."""
        return {name: level.label for name, level in zip(self.names, self.levels, strict=True)}

    @property
    def values(self) -> dict[str, Any]:
        """What it is told: the keys of a run file."""
        return _fill_in(self.workload, dict(zip(self.names, self.levels, strict=True)))

    @property
    def origins(self) -> dict[str, KeyPath]:
        """Where each key of `values` that a level set stands in the file."""
        return {key: level.path for level in self.levels for key in level.sets}

    @property
    def title(self) -> str:
        """`hidden_units=64 batch_size=256`, or what differs from the base; the model's name
        without factors."""
        base = self.base
        shown = {
            name: level.label
            for name, level in zip(self.names, self.levels, strict=True)
            if base is None or name not in base or base[name] is not level
        }
        said = " ".join(f"{name}={as_text(label)}" for name, label in shown.items())
        if base is not None and not set(shown) & set(base):
            return f"base {said}".strip()
        return said or str(self.workload.get("model") or self.workload.get("script"))

    def keywords(self, repetition: int, *, vary_seed: bool) -> dict[str, Any]:
        """What `trainload.run` is told for one repetition."""
        values = self.values
        found = run_keywords(values)
        if vary_seed and values.get("script") is None:
            found["seed"] = int(found.get("seed", 0)) + repetition
        return found


def make_cell(
    workload: Mapping[str, Any],
    levels: Mapping[str, Level],
    base: Mapping[str, Level] | None = None,
) -> Cell:
    """The cell of a workload with these levels set into it; named by what `base` has not."""
    return Cell(
        identity=sys.intern(identify(_fill_in(workload, levels))),
        workload=workload,
        names=_shared(tuple(levels)),
        levels=tuple(levels.values()),
        base=base,
    )


@lru_cache(maxsize=64)
def _shared(names: tuple[str, ...]) -> tuple[str, ...]:
    """The same tuple for the same names."""
    return names


def _fill_in(workload: Mapping[str, Any], levels: Mapping[str, Level]) -> dict[str, Any]:
    """The keys of a run file with the levels set into them."""
    labels = {name: level.label for name, level in levels.items()}
    values = dict(workload)
    environment = dict(workload.get("environment", {}))
    named = _names(workload)
    for level in levels.values():
        for key, value in level.sets.items():
            if key.startswith(ENVIRONMENT):
                environment[key.removeprefix(ENVIRONMENT)] = as_text(value)
            elif key not in named:
                values[key] = value
    # A level of several keys fills braces by the names of its keys, one of one by the factor's.
    words = {**labels, **{key: one for level in levels.values() for key, one in level.sets.items()}}
    if "arguments" in values:
        values["arguments"] = [fill(text, words) for text in values["arguments"]]
    if environment:
        values["environment"] = {key: fill(one, words) for key, one in environment.items()}
    return values


def identify(values: Mapping[str, Any]) -> str:
    """The digest of a run's content; the bytes of a script count, its place does not."""
    content = dict(values)
    script = content.get("script")
    if isinstance(script, str):
        path = Path(script).expanduser()
        content["script"] = [path.name, _digest(path, *_mark(path))]
    text = json.dumps(to_json(content), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:IDENTITY_LETTERS]


def _names(workload: Mapping[str, Any]) -> set[str]:
    """Names that a script's arguments take, which are then no keys of the run."""
    from trainload.study.factors import placeholders

    return placeholders(workload) if workload.get("script") is not None else set()


def _mark(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


@lru_cache(maxsize=64)
def _digest(path: Path, _changed_ns: int, _size: int) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None  # said when the cell is checked
