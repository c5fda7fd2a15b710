"""Paths as users write them, and the folder of what is kept for them; opens nothing."""

import os
from pathlib import Path

from trainload.errors import UsageError

DECODED = "images"
"""Where decoded images stand in the cache."""


def expand_user(text: str) -> Path:
    """The path with `~` as the folder it means; UsageError where there is no such user."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise UsageError(f"{text}: there is no such user here; write the whole path") from None


def cache_folder(word: str | None) -> Path:
    """The folder that --cache names, or the user's own."""
    if word is not None:
        return expand_user(word).absolute()
    base = os.environ.get("XDG_CACHE_HOME") or ""
    root = Path(base) if Path(base).is_absolute() else Path.home() / ".cache"
    return root / "trainload"
