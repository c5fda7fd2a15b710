"""Has a worker time the kernels of a device while the meters are read, and puts both together.

Prints nothing; who wants to see progress passes a function.
"""

import os
import signal
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from trainload._version import __version__
from trainload.errors import Terminated, UsageError, WorkerError
from trainload.hardware import read_machine
from trainload.hardware.calibrations import OPERATIONS, Calibration, Point
from trainload.hardware.calibrations.types import DTYPES
from trainload.hardware.naming import device_key
from trainload.record import EventReader, LineReader, layout
from trainload.run.calibration.power import PowerLog, open_power_log
from trainload.run.calibration.quiet import find_disturbance, refuse_disturbed, watch_others
from trainload.run.calibration.target import CalibrationTarget, choose_target
from trainload.run.workers.interrupts import signals_as_interrupts
from trainload.run.workers.processes import WorkerProcess, worker_environment
from trainload.units import render_percent
from trainload_worker.protocol.events import End, Event, Hello
from trainload_worker.protocol.spec import SettingSpec, SweepSpec
from trainload_worker.protocol.sweep import (
    SweepBegun,
    SweepDispatch,
    SweepHeld,
    SweepIdle,
    SweepLack,
    SweepPoint,
)

_POLL_S = 0.05
_START_S = 90.0
"""What an interpreter, its framework and the device may take to start and to end."""
_GRACE_S = 3.0
_NOISY_SPREAD = 0.1
_OTHERS = 0.1
"""Share of the host's cores that others may take without a note."""
_BAR = 24

Show = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class CalibrationRequest:
    """A device of this machine to be calibrated."""

    python: str
    """Interpreter of torch's environment."""
    device: str | None = None
    seconds: float = 150.0
    anyway: bool = False
    """Also where others use the device or the host."""

    def __post_init__(self) -> None:
        if not 2 <= self.seconds <= 3600:
            raise UsageError(f"--seconds {self.seconds:g}: must lie between 2 and 3600")


@dataclass(kw_only=True)
class Heard:
    """What the worker has said so far."""

    hello: Hello | None = None
    begun: SweepBegun | None = None
    begun_s: float = 0.0
    idle: SweepIdle | None = None
    dispatch: SweepDispatch | None = None
    points: list[SweepPoint] = field(default_factory=list)
    held: dict[int, SweepHeld] = field(default_factory=dict)
    lacks: list[SweepLack] = field(default_factory=list)
    end: End | None = None
    others_fraction: float | None = None
    """Of the host's cores that other processes took meanwhile; None where nothing told it."""

    def add(self, event: Event, now_s: float) -> None:
        """Take one event."""
        if isinstance(event, Hello):
            self.hello = event
        elif isinstance(event, SweepBegun):
            self.begun, self.begun_s = event, now_s
        elif isinstance(event, SweepIdle):
            self.idle = event
        elif isinstance(event, SweepDispatch):
            self.dispatch = event
        elif isinstance(event, SweepPoint):
            self.points.append(event)
        elif isinstance(event, SweepHeld):
            self.held[event.point] = event
        elif isinstance(event, SweepLack):
            self.lacks.append(event)
        elif isinstance(event, End):
            self.end = event


def calibrate_device(request: CalibrationRequest, show: Show | None = None) -> Calibration:
    """Time the device's kernels; SettingError where it is not free, WorkerError where it cannot."""
    target = choose_target(request.device, read_machine())
    log = open_power_log(target)
    try:
        found = find_disturbance(target, log)
        if not request.anyway:
            refuse_disturbed(target, found)
        with signals_as_interrupts(), tempfile.TemporaryDirectory(prefix="trainload-") as folder:
            heard = _follow(request, target, log, Path(folder), show)
        return assemble(target, heard, log, found)
    finally:
        log.close()


def _follow(
    request: CalibrationRequest,
    target: CalibrationTarget,
    log: PowerLog,
    folder: Path,
    show: Show | None,
) -> Heard:
    """Everything that the worker said, once it has ended; the meters are read all the while."""
    events_path, words = folder / layout.EVENTS, folder / layout.WORKER_LOG
    events = EventReader(lines=LineReader(path=events_path))
    heard, start_s, status = Heard(), time.monotonic(), None
    seen = {} if target.visible is None else {"CUDA_VISIBLE_DEVICES": target.visible}
    worker = WorkerProcess(request.python, words, worker_environment(target.setting, seen))
    try:
        worker.send_spec(_spec(request, target, log, events_path))
        others = watch_others(worker.pid)
        while status is None:
            status = worker.wait(_POLL_S)
            log.read()
            others.look()
            now_s = time.monotonic()
            for event in events.read_new():
                heard.add(event, now_s)
            if show is not None and status is None:
                show(render_progress(heard, target, request.seconds, now_s))
            if status is None and now_s - start_s > request.seconds + _START_S:
                worker.end(_GRACE_S)
                raise WorkerError(f"{target.name}: the sweep did not end in its time")
    except (KeyboardInterrupt, Terminated):
        worker.end(_GRACE_S, signal.SIGINT)
        raise
    finally:
        worker.sweep()
    if heard.end is not None and heard.end.outcome == "completed" and not heard.points:
        raise WorkerError(f"{target.name}: nothing was timed in its time; give more: --seconds 60")
    if heard.end is None or heard.end.outcome != "completed":
        raise WorkerError(f"{target.name} was not calibrated: {explain_end(heard.end, words)}")
    heard.others_fraction = others.fraction(os.cpu_count() or 1)
    return heard


def _spec(
    request: CalibrationRequest, target: CalibrationTarget, log: PowerLog, events: Path
) -> SweepSpec:
    setting = target.setting
    return SweepSpec(
        events_path=str(events),
        framework="torch",
        target=target.kind,
        limit_s=request.seconds,
        setting=SettingSpec(
            cores=setting.cores,
            threads=setting.threads,
            accelerators=tuple(gpu.uuid for gpu in setting.accelerators),
        ),
        hold_s=min(log.hold_s, request.seconds / 60),
        parent_pid=os.getpid(),
    )


def assemble(
    target: CalibrationTarget, heard: Heard, log: PowerLog, disturbed: tuple[str, ...] = ()
) -> Calibration:
    """The calibration that the worker's words and the meters' readings make."""
    begun, gpu = heard.begun, target.accelerator
    assert begun is not None
    powers = {n: log.mean_w(held.begin_s, held.end_s) for n, held in heard.held.items()}
    software = {key: value for key, value in _software(heard.hello).items() if value}
    software["trainload"] = __version__
    software["threads"] = str(target.setting.threads)
    if gpu is not None and gpu.driver:
        software["driver"] = gpu.driver
    machine = read_machine()
    # What NVML did not list is what torch says it is.
    key, name = target.key, target.name
    if target.visible is not None:
        key, name = device_key(begun.device), begun.device
    return Calibration(
        device=key,
        points=tuple(
            Point(
                operation=said.operation,
                dtype=said.dtype,
                sizes=said.sizes,
                flops=said.flops,
                bytes=said.bytes,
                seconds=said.seconds,
                power_w=powers.get(n),
                sustained_s=heard.held[n].seconds if n in heard.held else None,
            )
            for n, said in enumerate(heard.points)
        ),
        dispatch_s=dict(heard.dispatch.seconds) if heard.dispatch is not None else {},
        idle_w=None if heard.idle is None else log.mean_w(heard.idle.begin_s, heard.idle.end_s),
        taken_at=datetime.now(UTC).isoformat(timespec="seconds"),
        software=software,
        source=f"trainload calibrate on {_printable(name)}. {_printable(begun.method)}",
        lacks=_lacks(heard, powers),
        notes=_notes(heard, log, disturbed),
        host_cpu=_printable(machine.cpu_model) if machine.cpu_model else None,
    )


def _software(hello: Hello | None) -> dict[str, str | None]:
    if hello is None:
        return {}
    known = {"python": hello.python, hello.framework or "framework": hello.framework_version}
    return {**known, **hello.software}


def _lacks(heard: Heard, powers: dict[int, float | None]) -> tuple[str, ...]:
    assert heard.begun is not None
    measured = {point.operation for point in heard.points}
    found = [kind for kind in DTYPES if kind not in heard.begun.dtypes]
    found += [kind for kind in OPERATIONS if kind not in measured]
    found += [lack.what for lack in heard.lacks if lack.what.partition(" ")[0] in measured]
    if all(power is None for power in powers.values()):
        found.append("power")
    return tuple(dict.fromkeys(found))


def _notes(heard: Heard, log: PowerLog, disturbed: tuple[str, ...]) -> tuple[str, ...]:
    notes = [f"calibrated although {words}" for words in disturbed]
    throttled = log.throttling()
    if throttled is not None:
        notes.append(throttled)
    if heard.others_fraction is not None and heard.others_fraction > _OTHERS:
        taken = render_percent(heard.others_fraction)
        notes.append(f"others took {taken} of the host's cores meanwhile")
    spreads = [point.spread for point in heard.points if point.spread is not None]
    if spreads and median(spreads) > _NOISY_SPREAD:
        notes.append(f"noisy: samples of one point spread by {median(spreads):.0%} in the median")
    notes += [f"{lack.what}: {_printable(lack.reason)}" for lack in heard.lacks]
    return tuple(notes)


def render_progress(heard: Heard, target: CalibrationTarget, limit_s: float, now_s: float) -> str:
    """One line with a bar."""
    if heard.begun is None:
        return f"calibrating {target.name}: starting torch"
    done = min(1.0, (now_s - heard.begun_s) / limit_s)
    bar = "█" * int(_BAR * done) + "·" * (_BAR - int(_BAR * done))
    doing = f"{len(heard.points)} points"
    if heard.held:
        doing += f", power of {len(heard.held)}"
    return f"calibrating {target.name} {bar} {done * limit_s:.0f} of {limit_s:.0f} s, {doing}"


def explain_end(end: End | None, log: Path) -> str:
    """Why a worker ended that was not through: its own word, else the last line of its log."""
    if end is not None and end.reason:
        return end.reason
    try:
        lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    except OSError:
        lines = []
    return next((line[:200] for line in reversed(lines) if line), "the worker said nothing")


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)[:1000]
