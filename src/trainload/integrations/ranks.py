"""How processes that torchrun started on one machine find their common run directory.

The first one makes it and leaves its path in a small file beside it; the others wait for that.
"""

import hashlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

from trainload.errors import RecordError
from trainload.files import write_whole

WAIT_S = 60.0


@dataclass(frozen=True, kw_only=True)
class Rank:
    """Which of how many processes this is."""

    number: int
    count: int
    group: str
    """The same for all processes of one start, different for another start."""


def find_rank() -> Rank:
    """This process's place, from what torchrun leaves in the environment; alone without it."""
    number, count = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "")
    if not (number.isdigit() and count.isdigit()):
        return Rank(number=0, count=1, group="")
    names = ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT")
    # One agent starts all processes of a machine: its number tells one start from another.
    words = [os.environ.get(name, "") for name in names] + [str(os.getppid())]
    group = hashlib.sha256(" ".join(words).encode()).hexdigest()[:16]
    return Rank(number=int(number), count=int(count), group=group)


def offer_run(rank: Rank, path: Path) -> None:
    """Tell the other processes of the group where the run directory is."""
    if rank.count > 1:
        sign = path.parent / f".run-{rank.group}"
        write_whole(sign, path.name.encode("utf-8"))


def join_run(rank: Rank, parent: Path, wait_s: float = WAIT_S) -> Path:
    """The run directory that the group's first process made; RecordError if none comes."""
    sign = parent / f".run-{rank.group}"
    deadline_s = time.monotonic() + wait_s
    while time.monotonic() < deadline_s:
        if sign.exists():
            return parent / sign.read_text(encoding="utf-8")
        time.sleep(0.05)
    raise RecordError(
        f"process {rank.number} found no run of process 0 in {parent} within {wait_s:g} s; "
        "does every process use trainload.watch with the same folder?"
    )


def withdraw_run(rank: Rank, parent: Path) -> None:
    """Take the sign away; harmless where there is none."""
    (parent / f".run-{rank.group}").unlink(missing_ok=True)
