"""How a run may end, and the exit codes by which a worker says so."""

from typing import Literal, Mapping

Outcome = Literal["completed", "failed", "out_of_memory", "killed", "timed_out", "interrupted"]
WorkerOutcome = Literal["completed", "failed", "out_of_memory", "killed", "interrupted"]
"""What a worker itself can tell; only a driver gives up waiting."""

EXIT_BAD_SPEC = 2
EXIT_EVENTS_LOST = 74  # EX_IOERR of sysexits.h: the last word could not be written
EXIT_CODES: Mapping[str, int] = {
    "completed": 0,
    "failed": 1,
    "killed": 1,
    "out_of_memory": 3,
    "interrupted": 130,
}
