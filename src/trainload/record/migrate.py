"""Stepwise migrations of run.json: each brings one format to the next.

Format 1 is the first; its directories stand under tests/golden and stay readable.
"""

from collections.abc import Callable
from typing import Any

MIGRATIONS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}

_VERDICTS = {"not measured": "not_measured"}
"""A spelling that watched runs of format 1.0 have."""


def mend_words(document: dict[str, Any]) -> dict[str, Any]:
    """The document with words that earlier minor versions spelt otherwise."""
    overhead = document.get("overhead")
    if not isinstance(overhead, dict) or not isinstance(overhead.get("verdict"), str):
        return document
    said = overhead["verdict"]
    return {**document, "overhead": {**overhead, "verdict": _VERDICTS.get(said, said)}}
