"""Settings: the part of a machine a run may use, written as `cpu0-3+gpu0` or `half+gpu0`.

Parses and checks against an inventory; applying a setting is the run's and the worker's duty.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from trainload.errors import SettingError
from trainload.hardware.accelerators import Accelerator
from trainload.hardware.clusters import read_clusters
from trainload.hardware.inventory import Machine

_HELP = "write it as cpu0-3, cpu0,2+gpu0, all, half, one, or a cluster's name such as big+gpu0"


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What a run asks of its machine, checked to exist."""

    text: str
    """Canonical form, such as `cpu0-1` or `cpu0-3+gpu0`."""
    cores: tuple[int, ...]
    threads: int
    accelerators: tuple[Accelerator, ...]


def resolve_setting(
    text: str | None, threads: int | None, machine: Machine, sys_root: Path = Path("/sys")
) -> Setting:
    """The setting a text describes; SettingError says what this machine has instead.

    `all`, `half` and `one` are so many of the allowed cores on any machine; `big`, `little` and
    the names of cores, such as `a57`, are clusters of boards that have them.

    None takes every allowed core and, where there is one, the first accelerator. Without
    `threads`, one thread a core, but no more than the control group's CPU quota rounded up.
    """
    if text is None:
        cores, gpus = machine.allowed_cores, tuple(a.index for a in machine.accelerators[:1])
    else:
        cores, gpus = parse_setting(_with_numbers(text, machine, sys_root))
    missing = [c for c in cores if c not in machine.allowed_cores]
    if missing:
        raise SettingError(
            f"setting {text!r}: core {missing[0]} is not available; "
            f"this process may use cpu{render_ranges(machine.allowed_cores)}"
        )
    by_index = {a.index: a for a in machine.accelerators}
    for gpu in gpus:
        if gpu not in by_index:
            known = ", ".join(f"gpu{i}" for i in by_index) or f"none ({machine.accelerator_note})"
            raise SettingError(f"setting {text!r}: no gpu{gpu} here; accelerators: {known}")
    if threads is None:
        quota = machine.cpu_quota_cores
        threads = len(cores) if quota is None else max(1, min(len(cores), -int(-quota // 1)))
    if not 1 <= threads <= 4096:
        raise SettingError(f"--threads {threads}: must lie between 1 and 4096")
    suffix = f"+gpu{render_ranges(gpus)}" if gpus else ""
    return Setting(
        text=f"cpu{render_ranges(cores)}{suffix}",
        cores=cores,
        threads=threads,
        accelerators=tuple(by_index[gpu] for gpu in gpus),
    )


def _with_numbers(text: str, machine: Machine, sys_root: Path) -> str:
    """The text with a word for cores replaced by their numbers."""
    word, plus, gpus = text.strip().partition("+")
    if not re.fullmatch(r"[a-z][a-z0-9-]*", word) or word.startswith(("cpu", "gpu")):
        return text
    allowed = machine.allowed_cores
    shares = {"all": allowed, "half": allowed[: max(1, len(allowed) // 2)], "one": allowed[:1]}
    found: Mapping[str, tuple[int, ...]] = shares
    if word not in shares:
        found = {**shares, **read_clusters(sys_root)}
    if word not in found:
        raise SettingError(
            f"setting {text!r}: no cores are called {word!r} here; known: {', '.join(found)}"
        )
    return f"cpu{render_ranges(found[word])}{plus}{gpus}"


def parse_setting(text: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Core and accelerator numbers of a setting's text; SettingError where it cannot be read."""
    match = re.fullmatch(r"cpu([0-9,-]+)(?:\+gpu([0-9,-]+))?", text.strip())
    if match is None:
        raise SettingError(f"setting {text!r} cannot be read; {_HELP}")
    cores = _parse_ranges(match[1], text)
    gpus = _parse_ranges(match[2], text) if match[2] else ()
    return cores, gpus


def render_ranges(numbers: tuple[int, ...]) -> str:
    """`(0, 1, 2, 5)` as '0-2,5'."""
    parts: list[str] = []
    ordered = sorted(numbers)
    start = 0
    for position in range(1, len(ordered) + 1):
        if position == len(ordered) or ordered[position] != ordered[position - 1] + 1:
            first, last = ordered[start], ordered[position - 1]
            parts.append(str(first) if first == last else f"{first}-{last}")
            start = position
    return ",".join(parts)


def _parse_ranges(text: str, whole: str) -> tuple[int, ...]:
    numbers: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", part)
        if match is None:
            raise SettingError(f"setting {whole!r}: {part!r} is no number or range; {_HELP}")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or last - first > 65536:
            raise SettingError(f"setting {whole!r}: the range {part!r} is not possible; {_HELP}")
        numbers.update(range(first, last + 1))
    return tuple(sorted(numbers))
