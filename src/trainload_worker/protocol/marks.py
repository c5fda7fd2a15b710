"""A moment that somebody marked while a run went on, as a line of events.jsonl; opens no file."""

from dataclasses import dataclass
from typing import ClassVar

LONGEST_WORDS = 200
"""Characters that may be said of a moment."""


@dataclass(frozen=True)
class Marked:
    """A moment that a person wants to find again."""

    t_s: float
    words: str = ""
    KIND: ClassVar[str] = "mark"
