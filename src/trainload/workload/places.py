"""Paths as users write them; opens nothing."""

from pathlib import Path

from trainload.errors import UsageError


def expand_user(text: str) -> Path:
    """The path with `~` as the folder it means; UsageError where there is no such user."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise UsageError(f"{text}: there is no such user here; write the whole path") from None
