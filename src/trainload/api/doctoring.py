"""What works on this machine, what is missing, and the command that mends it.

Looks and changes nothing; a finding that nothing can mend says so.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from trainload._version import __version__
from trainload.errors import TrainloadError
from trainload.units import render_bytes

State = Literal["good", "missing", "not here", "broken"]
"""missing: a command mends it; not here: this machine has none of it; broken: in the way of use."""

LEAST_FREE_BYTES = 1 << 30
_LIBRARIES = (
    ("polars", "reading runs: show, compare, analyse", "pip install polars"),
    ("plotly", "pages: report", "pip install 'trainload[report]'"),
    ("scipy", "statistics and predictions", "pip install 'trainload[report]'"),
    ("kaleido", "plots as PNG and SVG", "pip install 'trainload[plots]'"),
    ("pillow", "folders of images as data", "pip install 'trainload[images]'"),
    ("fsspec", "data at remote addresses", "pip install 'trainload[remote]'"),
)
_MENDS = re.compile(r"mend with `([^`]+)`|(pip install [^;]+)")


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that was looked at."""

    topic: str
    name: str
    state: State
    words: str
    mend: str | None = None
    """The command that mends it; None where nothing needs or can be mended."""


def examine(out: Path = Path("runs"), *, sys_root: Path = Path("/sys")) -> tuple[Finding, ...]:
    """Every finding, in the order in which one needs them; runs land below `out`."""
    return (
        *_program(),
        *_libraries(),
        *_frameworks(),
        *_devices(),
        *_meters(sys_root),
        *_places(out),
    )


def _program() -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    words = f"trainload {__version__} on Python {version}"
    yield Finding(topic="program", name="trainload", state="good", words=words)


def _libraries() -> Iterator[Finding]:
    for name, use, mend in _LIBRARIES:
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            words = f"not installed; for {use}"
            yield Finding(topic="library", name=name, state="missing", words=words, mend=mend)
            continue
        words = f"{version}, for {use}"
        yield Finding(topic="library", name=name, state="good", words=words)


def _frameworks() -> Iterator[Finding]:
    from trainload.run import list_environments

    for found in list_environments():
        create = f"trainload env create {found.framework}"
        if found.state in ("ready", "here"):
            where = "in this environment" if found.state == "here" else str(found.python)
            words = f"{found.version}, {where}"
            yield Finding(topic="framework", name=found.framework, state="good", words=words)
        elif found.python is None:
            yield Finding(
                topic="framework",
                name=found.framework,
                state="missing",
                words="not installed",
                mend=create,
            )
        else:
            words = found.problem or found.state
            force = f"{create} --force"
            yield Finding(
                topic="framework", name=found.framework, state="broken", words=words, mend=force
            )


def _devices() -> Iterator[Finding]:
    from trainload.hardware import read_machine

    machine = read_machine()
    cores = f"{len(machine.allowed_cores)} of {machine.logical_cores} cores may be used"
    quota = machine.cpu_quota_cores
    limit = "" if quota is None else f", but the container gives the time of {quota:g}"
    yield Finding(topic="machine", name="cores", state="good", words=f"{cores}{limit}")
    memory = render_bytes(machine.memory_limit_bytes or machine.memory_total_bytes)
    yield Finding(topic="machine", name="memory", state="good", words=memory)
    for one in machine.accelerators:
        words = f"{one.name}, {render_bytes(one.memory_bytes)}, driver {one.driver or 'unknown'}"
        yield Finding(topic="machine", name=f"gpu{one.index}", state="good", words=words)
    if not machine.accelerators:
        words, mend = _split_mend(machine.accelerator_note or "no NVIDIA GPU")
        state: State = "missing" if mend else "not here"
        yield Finding(topic="machine", name="GPU", state=state, words=words, mend=mend)


def _meters(sys_root: Path) -> Iterator[Finding]:
    from trainload.meters import METERS, MeterContext, available_columns, open_meters

    names = [name for name in METERS if name != "replay"]
    meters = open_meters(MeterContext(target_pid=os.getpid(), sys_root=sys_root), names)
    for meter in meters:
        columns = available_columns(meter)
        reasons = [q.reason for q in meter.quantities if q.provenance == "unavailable"]
        reason = next((one for one in reasons if one), getattr(meter, "reason", None))
        words, mend = _split_mend(reason or "")
        if columns:
            count = f"{len(columns)} column{'' if len(columns) == 1 else 's'}"
            partly = f"; not all: {words}" if words and mend else ""
            state: State = "missing" if partly else "good"
            yield Finding(
                topic="meter", name=meter.name, state=state, words=f"{count}{partly}", mend=mend
            )
        else:
            state = "missing" if mend else "not here"
            words = words or "nothing to read here"
            yield Finding(topic="meter", name=meter.name, state=state, words=words, mend=mend)
        meter.close()
    yield Finding(
        topic="meter",
        name="perf and ptrace",
        state="good",
        words="no permission needed: stacks are sampled from inside the training",
    )


def _places(out: Path) -> Iterator[Finding]:
    from trainload.run import environments_folder
    from trainload.workload import cache_folder

    for name, folder in (
        ("runs", out),
        ("cache of data", cache_folder(None)),
        ("environments", environments_folder()),
    ):
        yield _place(name, Path(folder))


def _place(name: str, folder: Path) -> Finding:
    """Whether a folder may be written, or made, and how much is free there."""
    there = folder.expanduser().absolute()
    while not there.exists() and there != there.parent:
        there = there.parent
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        return Finding(
            topic="disk", name=name, state="broken", words=f"{folder} cannot be written",
            mend=f"mkdir -p {folder} && chmod u+rwx {folder}",
        )  # fmt: skip
    try:
        free = shutil.disk_usage(there).free
    except OSError as error:
        words = f"{folder}: {error.strerror}"
        return Finding(topic="disk", name=name, state="broken", words=words)
    words = f"{folder}, {render_bytes(free)} free"
    if free < LEAST_FREE_BYTES:
        return Finding(
            topic="disk",
            name=name,
            state="missing",
            words=words,
            mend=f"du -sh {there}/* | sort -h",
        )
    return Finding(topic="disk", name=name, state="good", words=words)


def _split_mend(reason: str) -> tuple[str, str | None]:
    """A reason and the command in it, apart."""
    found = _MENDS.search(reason)
    if found is None:
        return reason, None
    return reason[: found.start()].rstrip("; "), (found[1] or found[2]).strip()


def defaults_finding(path: Path | None, error: TrainloadError | None) -> Finding:
    """Whether the user's file of defaults can be used."""
    name = "your defaults"
    if error is not None:
        return Finding(
            topic="program",
            name=name,
            state="broken",
            words=str(error),
            mend=f"${{EDITOR:-vi}} {path}",
        )
    there = path is not None and path.exists()
    words = str(path) if there else f"none in {path}" if path is not None else "switched off"
    return Finding(topic="program", name=name, state="good", words=words)
