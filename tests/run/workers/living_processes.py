"""Finds processes that a run has left behind."""

import os
from pathlib import Path


def processes_of(folder: Path) -> list[int]:
    """Ids of the living processes that have a file of this folder open."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            links = [os.readlink(link) for link in (entry / "fd").iterdir()]
        except OSError:
            continue
        if any(link.startswith(str(folder)) for link in links) and int(entry.name) != os.getpid():
            found.append(int(entry.name))
    return found
