"""Collectors on files from elsewhere: what a training log says, by named patterns.

Reads files that others wrote, in bounded memory; writes and draws nothing. Traces are read by
`trainload.analyse.attribution`.
"""

from pathlib import Path

from trainload.analyse.collect.choose import Choice, choose_pattern
from trainload.analyse.collect.lines import LogLine, LogLines, recognise
from trainload.analyse.collect.log import Experiment, LogReading
from trainload.analyse.collect.named import NAMED
from trainload.analyse.collect.patterns import Pattern, load_patterns
from trainload.errors import UsageError

__all__ = [
    "NAMED",
    "Choice",
    "Experiment",
    "LogLine",
    "LogLines",
    "LogReading",
    "Pattern",
    "choose_for_file",
    "choose_pattern",
    "load_patterns",
    "recognise",
]


def choose_for_file(path: Path, *, forced: str | None = None, own: Path | None = None) -> Choice:
    """The pattern for a log file: the forced one, else the best of one's own, else of the named.

    `own` is a JSON file of patterns; without `forced` only those are tried where it is given.
    """
    mine = load_patterns(own) if own is not None else ()
    known = {**NAMED, **{pattern.name: pattern for pattern in mine}}
    if forced is not None and forced not in known:
        raise UsageError(f"--pattern {forced}: unknown; known are {', '.join(known)}")
    tried = list(known.values()) if forced is not None or not mine else list(mine)
    return choose_pattern(LogLines(path), tried, where=str(path), forced=forced)
