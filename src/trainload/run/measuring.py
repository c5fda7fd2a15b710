"""Has a worker measure what this machine reaches, program by program; prints nothing.

Who wants to see progress passes a function.
"""

import os
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from trainload._version import __version__
from trainload.errors import Terminated, WorkerError
from trainload.hardware import Setting, read_machine, resolve_setting
from trainload.hardware.limits import MachineLimits
from trainload.record import EventReader, LineReader, layout
from trainload.run.calibration.sweeping import explain_end
from trainload.run.settle import read_load
from trainload.run.workers.interrupts import signals_as_interrupts
from trainload.run.workers.processes import WorkerProcess, worker_environment
from trainload.units import render_percent
from trainload_worker.protocol.events import End, Event, Hello
from trainload_worker.protocol.measure import PROGRAMS, MachineFacts, Measured, MeasureLack
from trainload_worker.protocol.spec import MeasureSpec, SettingSpec

_POLL_S = 0.1
_GRACE_S = 3.0
_LAST_S = 180.0
"""What a program that began in time may still take."""
_LOOK_S = 1.0
_MOST_OTHERS = 0.15
"""Share of the cores that others may take without a note."""

Show = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class MeasureRequest:
    """What is to be measured here."""

    python: str
    """Interpreter of torch's environment."""
    programs: Sequence[str] = PROGRAMS
    quick: bool = False
    limit_s: float = 1200.0
    """After which no further program begins."""
    folder: Path | None = None
    """On the drive to measure; None the system's folder for files that do not stay."""


@dataclass(kw_only=True)
class _Heard:
    hello: Hello | None = None
    facts: MachineFacts = field(default_factory=MachineFacts)
    measured: list[Measured] = field(default_factory=list)
    lacks: list[MeasureLack] = field(default_factory=list)
    end: End | None = None

    def add(self, event: Event) -> None:
        if isinstance(event, Hello):
            self.hello = event
        elif isinstance(event, MachineFacts):
            self.facts = event
        elif isinstance(event, Measured):
            self.measured.append(event)
        elif isinstance(event, MeasureLack):
            self.lacks.append(event)
        elif isinstance(event, End):
            self.end = event


def measure_machine(request: MeasureRequest, show: Show | None = None) -> MachineLimits:
    """Run the programs; WorkerError where the worker ended before any of them was through.

    What it did not come to is said to lack, with the reason of its end.
    """
    machine = read_machine()
    setting = resolve_setting("all+gpu0" if machine.accelerators else "all", None, machine)
    load = read_load(_LOOK_S)
    with (
        signals_as_interrupts(),
        tempfile.TemporaryDirectory(prefix="trainload-", dir=request.folder) as folder,
    ):
        heard = _follow(request, setting, Path(folder), show)
    notes = []
    if load is not None and load > _MOST_OTHERS:
        notes.append(f"the host's cores were at {render_percent(load)} load before it began")
    beside = [one.others_fraction or 0.0 for one in heard.measured]
    if beside and max(beside) > _MOST_OTHERS:
        most = render_percent(max(beside))
        notes.append(f"others took up to {most} of the cores while it was measured")
    return MachineLimits(
        taken_at=datetime.now(UTC).isoformat(timespec="seconds"),
        quick=request.quick,
        facts={
            **heard.facts.facts,
            "cores": str(len(setting.cores)),
            "memory_bytes": str(machine.memory_total_bytes or ""),
            "gpu": setting.accelerators[0].name if setting.accelerators else "none",
        },
        measured=tuple(heard.measured),
        lacks=tuple(heard.lacks),
        software=_software(heard.hello),
        notes=tuple(notes),
    )


def _follow(request: MeasureRequest, setting: Setting, folder: Path, show: Show | None) -> _Heard:
    events_path, words = folder / layout.EVENTS, folder / layout.WORKER_LOG
    events = EventReader(lines=LineReader(path=events_path))
    heard, start_s, status, late = _Heard(), time.monotonic(), None, None
    environment = worker_environment(setting)
    if not setting.accelerators:
        # A GPU that NVML does not list is torch's to find.
        environment.pop("CUDA_VISIBLE_DEVICES", None)
        if "CUDA_VISIBLE_DEVICES" in os.environ:
            environment["CUDA_VISIBLE_DEVICES"] = os.environ["CUDA_VISIBLE_DEVICES"]
    worker = WorkerProcess(request.python, words, environment)
    try:
        worker.send_spec(_spec(request, setting, events_path, folder))
        while status is None:
            status = worker.wait(_POLL_S)
            for event in events.read_new():
                heard.add(event)
            elapsed_s = time.monotonic() - start_s
            if show is not None and status is None:
                show(_progress(heard, request, elapsed_s))
            if status is None and elapsed_s > request.limit_s + _LAST_S:
                status = worker.end(_GRACE_S)
                late = "the measurement did not end in its time"
    except (KeyboardInterrupt, Terminated):
        worker.end(_GRACE_S, signal.SIGINT)
        raise
    finally:
        worker.sweep()
    if heard.end is None or heard.end.outcome != "completed":
        reason = late or explain_end(heard.end, words)
        if not heard.measured:
            raise WorkerError(f"the machine was not measured: {reason}")
        told = {one.program for one in heard.measured} | {one.program for one in heard.lacks}
        # What was found before is as good as ever.
        heard.lacks += [MeasureLack(one, reason) for one in request.programs if one not in told]
    return heard


def _spec(request: MeasureRequest, setting: Setting, events: Path, folder: Path) -> MeasureSpec:
    return MeasureSpec(
        events_path=str(events),
        framework="torch",
        programs=tuple(request.programs),
        folder=str(folder),
        limit_s=request.limit_s,
        setting=SettingSpec(
            cores=setting.cores,
            threads=setting.threads,
            accelerators=tuple(gpu.uuid for gpu in setting.accelerators),
        ),
        quick=request.quick,
        parent_pid=os.getpid(),
    )


def _progress(heard: _Heard, request: MeasureRequest, elapsed_s: float) -> str:
    done = len(heard.measured) + len(heard.lacks)
    total = len(request.programs)
    doing = request.programs[done] if done < total else "ending"
    return f"measuring this machine: {doing}, {done} of {total} done, {elapsed_s:.0f} s"


def _software(hello: Hello | None) -> dict[str, str]:
    found = {"trainload": __version__}
    if hello is not None:
        told = {
            "python": hello.python,
            hello.framework or "framework": hello.framework_version,
            **hello.software,
        }
        found |= {name: value for name, value in told.items() if value}
    return found
