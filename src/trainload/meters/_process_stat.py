"""One process's line of /proc/<pid>/stat; follows no tree."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ProcessStat:
    """What the meters need of proc(5) stat."""

    zombie: bool
    parent_pid: int
    cpu_ticks: int
    """Own and reaped children's user and system time, in clock ticks."""
    kernel_ticks: int
    """Of those, the system's."""
    page_faults: int
    """Own and reaped children's that no disk was read for."""
    threads: int
    rss_pages: int


def parse_process_stat(text: bytes) -> ProcessStat | None:
    """The line's fields; None where it is cut short, as of a process that just ended."""
    # The command stands in parentheses and may hold blanks and parentheses itself.
    fields = text[text.rfind(b")") + 2 :].split(None, 22)
    if len(fields) < 22:
        return None
    try:
        return ProcessStat(
            fields[0] in b"ZX",
            int(fields[1]),
            int(fields[11]) + int(fields[12]) + int(fields[13]) + int(fields[14]),
            int(fields[12]) + int(fields[14]),
            int(fields[7]) + int(fields[8]),
            int(fields[17]),
            int(fields[21]),
        )
    except ValueError:
        return None


def read_parent_pid(proc_root: Path, pid: int) -> int | None:
    """The parent's process id; None where the process is not (or no longer) there."""
    try:
        stat = parse_process_stat((proc_root / str(pid) / "stat").read_bytes())
    except OSError:
        return None
    return None if stat is None else stat.parent_pid


def is_in_tree(proc_root: Path, pid: int, root_pid: int) -> bool:
    """Whether `pid` is `root_pid` or descends from it."""
    current: int | None = pid
    for _ in range(1000):  # the tree may change while it is climbed
        if current == root_pid:
            return True
        if not current:
            return False
        current = read_parent_pid(proc_root, current)
    return False
