"""Printing of what the report room renders, and of what cannot be read."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainload.api.loading import Run

from trainload_worker.protocol.offers import list_offers

_STEERING = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
FRAMEWORK_NAMES = ", ".join(offer.name for offer in list_offers())
"""Those that a user may name, for help texts."""


_plain: ContextVar[bool] = ContextVar("plain", default=False)


def use_plain(wished: bool) -> None:
    """Whether this command prints plain lines; $TRAINLOAD_PLAIN has it so without being asked."""
    _plain.set(wished)


def is_plain() -> bool:
    """Whether lines are to be plain: no bars, boxes, colours or lines written over."""
    return _plain.get() or os.environ.get("TRAINLOAD_PLAIN", "") not in ("", "0")


def print_rendered(rendered: Any, *, width: int = 160) -> None:
    """Print a rich renderable on standard output; `width` cells where no terminal tells.

    NO_COLOR and TERM=dumb are heeded as by other programs.
    """
    from rich.console import Console

    console = Console(highlight=False)
    if is_plain():
        from trainload.report.plain import render_plain

        sys.stdout.write("".join(f"{line}\n" for line in render_plain(rendered, console)))
        return
    if not console.is_terminal:
        console = Console(highlight=False, width=width)
    console.print(rendered)


def json_text(value: Any) -> str:
    """A value as JSON that every reader takes: what is no finite number is null.

    Half characters, as file names may hold them, stand in it escaped.
    """
    text = json.dumps(_finite(value), indent=1, ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def write_page(path: Path, text: str) -> None:
    """Write a page whole or not at all; RecordError where that cannot be."""
    from trainload.errors import RecordError
    from trainload.files import write_whole

    try:
        write_whole(path, text.encode("utf-8"))
    except OSError as error:
        raise RecordError(f"cannot write {path}: {error.strerror}") from error


def complain(error: object) -> int:
    """One line on standard error; the exit status that goes with it.

    Words of a stranger may stand in it: what would steer a terminal is shown escaped.
    """
    text = _STEERING.sub(lambda one: ascii(one[0])[1:-1], " ".join(str(error).split()))
    sys.stderr.write(f"error: {text}\n")
    return 2


def open_readable(paths: Sequence[Path]) -> tuple[list[Run], int]:
    """Those of the paths that are runs, and 2 where some were not; an error if none was."""
    from trainload.api.loading import load
    from trainload.errors import RecordError

    runs, errors = [], []
    for path in paths:
        try:
            runs.append(load(path))
        except RecordError as error:
            errors.append(error)
    if not runs:
        raise errors[0]
    for fault in errors:
        complain(fault)
    return runs, 2 if errors else 0
