"""Names that tell runs apart: the script's folder or the model, then only what differs.

Takes facts of runs, gives texts; reads no file. Text of others comes out as it is: whoever shows it
makes it safe.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from trainload.analyse.study.figures import facts_of
from trainload.analyse.study.tidy import level_text
from trainload.record import Manifest

_FIRST = ("framework", "setting", "batch_size", "precision", "optimizer", "learning_rate")
"""Told before others, in this order, where several tell runs apart equally well."""
_LAST = ("threads", "processes", "framework_version", "script.sha256")
_BARE = ("framework", "setting", "precision", "optimizer")
"""Whose values are understood without their name."""
_IN_HEAD = ("model", "script.path", "script.folder", "script.arguments", "script.masked")
_LONGEST = 30
_MOST_TRAITS = 5
"""Of one name; what more would tell apart is numbered."""

Traits = Mapping[str, str]


def distinguish(manifests: Sequence[Manifest]) -> list[str]:
    """The shortest name of each run that tells it from the others; repetitions are numbered.

    The number follows the order in which they began, whatever the order they are given in.
    """
    facts, orders = [], []
    for manifest in manifests:
        levels = {} if manifest.study is None else manifest.study.factors
        facts.append({**dict(facts_of(manifest)), **levels})
        orders.append((manifest.created or "", manifest.run_id or ""))
    return distinguish_facts(facts, orders)


def distinguish_facts(
    facts: Sequence[Mapping[str, Any]], orders: Sequence[Any] | None = None
) -> list[str]:
    """As `distinguish`, of facts by name; `orders` sort what nothing else tells apart."""
    heads = [_head(found) for found in facts]
    traits = [_traits(found) for found in facts]
    shown = _shown_traits(heads, traits, _telling_keys(heads, traits))
    names = [" ".join([head, *parts]) for head, parts in zip(heads, shown, strict=True)]
    alike = Counter(names)
    ranks = range(len(names)) if orders is None else orders
    numbers: Counter[str] = Counter()
    for at in sorted(range(len(names)), key=lambda at: ranks[at]):
        name = names[at]
        if alike[name] > 1:
            numbers[name] += 1
            names[at] = f"{name} #{numbers[name]}"
    return names


def _head(facts: Mapping[str, Any]) -> str:
    """`folder/script` of a script, else the model."""
    path = facts.get("script.path")
    if not isinstance(path, str):
        return str(facts.get("model") or "run")
    pure = PurePath(path)
    folder = facts.get("script.folder") or pure.parent.name
    return f"{folder}/{pure.stem}" if folder else pure.stem


def _traits(facts: Mapping[str, Any]) -> dict[str, str]:
    found = {
        name: level_text(value)
        for name, value in facts.items()
        if value is not None and name not in _IN_HEAD
    }
    return {**found, **_arguments(facts.get("script.arguments"))}


def _arguments(text: Any) -> dict[str, str]:
    """A script's arguments by option; a flag has an empty value, others are numbered."""
    try:
        words = json.loads(text) if isinstance(text, str) else []
    except ValueError:
        return {}
    found: dict[str, str] = {}
    option: str | None = None
    for word in map(str, words if isinstance(words, list) else []):
        if word.startswith("-") and not _is_number(word):
            name, equals, value = word.partition("=")
            found[f"-{name.lstrip('-')}"] = value
            option = None if equals else f"-{name.lstrip('-')}"
        elif option is not None:
            found[option] = word
            option = None
        else:
            found[f"-{sum(key[1:].isdecimal() for key in found) + 1}"] = word
    return found


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _telling_keys(heads: Sequence[str], traits: Sequence[Traits]) -> list[str]:
    """The fewest facts, found greedily, that tell apart all that can be told apart."""
    every = dict.fromkeys(key for found in traits for key in found)
    open_keys = [key for key in every if len({found.get(key) for found in traits}) > 1]
    held = Counter(key for found in traits for key in found)
    # What more runs have is told first: a value says more than the absence of a flag.
    open_keys.sort(key=lambda key: (-held[key], _preference(key)))
    chosen: list[str] = []
    parts: list[Any] = list(heads)
    while open_keys:
        counts = [
            len({(part, found.get(key)) for part, found in zip(parts, traits, strict=True)})
            for key in open_keys
        ]
        most = max(counts)
        if most == len(set(parts)):
            break
        best = open_keys.pop(counts.index(most))
        chosen.append(best)
        # Numbers instead of ever longer tuples.
        known: dict[Any, int] = {}
        parts = [
            known.setdefault((part, found.get(best)), len(known))
            for part, found in zip(parts, traits, strict=True)
        ]
    return sorted(chosen, key=_preference)


def _preference(key: str) -> tuple[int, str]:
    if key in _FIRST:
        return _FIRST.index(key), ""
    if key in _LAST:
        return len(_FIRST) + 2 + _LAST.index(key), ""
    return (len(_FIRST) if not key.startswith("-") else len(_FIRST) + 1), key


def _shown_traits(
    heads: Sequence[str], traits: Sequence[Traits], keys: Iterable[str]
) -> list[list[str]]:
    """Of each run those of the facts that differ among runs named alike so far."""
    shown: list[list[str]] = [[] for _ in heads]
    groups: dict[tuple[str, ...], list[int]] = {}
    for at, head in enumerate(heads):
        groups.setdefault((head,), []).append(at)
    for key in keys:
        finer: dict[tuple[str, ...], list[int]] = {}
        for before, members in groups.items():
            differs = len({traits[at].get(key) for at in members}) > 1
            for at in members:
                value = traits[at].get(key)
                if differs and value is not None and len(shown[at]) < _MOST_TRAITS:
                    shown[at].append(_word(key, value))
                finer.setdefault((*before, str(value) if differs else ""), []).append(at)
        groups = finer
    return shown


def _word(key: str, value: str) -> str:
    if len(value) > _LONGEST:
        value = "…" + value[1 - _LONGEST :]
    if key == "script.sha256":
        return f"script={value[-6:]}"
    if key.startswith("-"):
        name = key[1:]
        return value if name.isdecimal() else f"{name}={value}" if value else name
    return value if key in _BARE else f"{key.rpartition('.')[2]}={value}"
