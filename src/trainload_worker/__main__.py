"""Runs one training by the specification on standard input; alone exits the process.

A training in several processes is run by starting a worker for each of them.
Exit codes: 0 completed, 1 failed or killed, 2 the specification cannot be read, 3 out of memory,
74 the end could not be recorded, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
import traceback
from time import monotonic
from typing import Callable, NoReturn

from trainload_worker.errors import SpecError, WorkerProblem
from trainload_worker.frameworks.backends import Probe
from trainload_worker.frameworks.create import (
    create_backend,
    create_layer_probe,
    create_probe,
    leave_ranks,
    measure_limits,
    sweep_kernels,
    trace_operations,
    watch_layers,
)
from trainload_worker.process.endings import classify
from trainload_worker.process.events import EventWriter, greet
from trainload_worker.process.launch import launch_ranks
from trainload_worker.process.memory_peaks import MemoryPeaks
from trainload_worker.process.script import run_script, show_error, words_of
from trainload_worker.process.signals import Interrupted, StopRequest
from trainload_worker.protocol.events import End, LayerParameters, ModelBuilt, PhaseEdge, RankEnd
from trainload_worker.protocol.outcomes import EXIT_BAD_SPEC, EXIT_CODES, EXIT_EVENTS_LOST
from trainload_worker.protocol.spec import (
    AnySpec,
    LaunchSpec,
    MeasureSpec,
    ScriptSpec,
    SettingSpec,
    SweepSpec,
    TraceSpec,
    TrainSpec,
    parse_spec,
)
from trainload_worker.training.checkpoint import Checkpoints, open_resumed
from trainload_worker.training.feed import loader_notes
from trainload_worker.training.loop import Course, train, validate
from trainload_worker.training.prepare import prepare
from trainload_worker.training.ranks import rank_notes
from trainload_worker.training.state import Position


def main() -> NoReturn:
    """Reads the specification, runs it and exits with the outcome's code."""
    stop = StopRequest()
    stop.install()
    try:
        spec = parse_spec(sys.stdin.buffer.read())
        events = EventWriter(spec.events_path)
    except SpecError as error:
        _finish(EXIT_BAD_SPEC, str(error))
    except OSError as error:
        _finish(EXIT_EVENTS_LOST, f"the events cannot be recorded: {error}")
    except Interrupted as error:
        _finish(EXIT_CODES["interrupted"], f"interrupted by {error}")
    if isinstance(spec, ScriptSpec):
        _run_program(spec, events, stop)
    ending = _run_to_end(spec, events, stop)
    if isinstance(spec, LaunchSpec):
        events.mend()
    recorded = events.write(_last_word(spec, ending, events.lost_count))
    events.close()
    if not recorded:
        _finish(EXIT_EVENTS_LOST, f"the end of the run ({ending.outcome}) could not be recorded")
    _finish(EXIT_CODES[ending.outcome], None)


def _run_to_end(spec: AnySpec, events: EventWriter, stop: StopRequest) -> End:
    """Whatever the specification asks for; from its end on signals are ignored."""
    run = _Run(spec, events, stop)
    try:
        ending = run.execute()
        stop.ignore()
        return ending
    except BaseException as error:  # noqa: BLE001 - whatever ends a run is recorded as its outcome
        stop.ignore()
        # The frames hold what filled the memory; the last words need some of it.
        traceback.clear_frames(error.__traceback__)
        if stop.reason is not None and isinstance(spec, TrainSpec) and _is_rank(spec):
            # A rank that obeyed sooner has left: what its peers then meet is no failure.
            error = Interrupted(stop.reason)
        ending = classify(error, run.phase, program_folder(spec))
        _report(error, ending)
        return ending


def _run_program(spec: ScriptSpec, events: EventWriter, stop: StopRequest) -> NoReturn:
    """Runs a user's script and ends as Python would without us.

    The script may have replaced anything that our last words need. They are then missing, and
    the exit status alone tells.
    """
    run = _Run(spec, events, stop)
    raised: BaseException | None = None
    try:
        run.execute()
    except BaseException as error:  # noqa: BLE001 - whatever ends a run is recorded as its outcome
        raised = error
    status = 0
    try:
        stop.ignore()
        status = _tell_end(run, spec, events, raised)
    except Exception:  # noqa: BLE001 - see above
        status = 0 if raised is None else 1
    if raised is None or status == EXIT_EVENTS_LOST:
        sys.exit(status)
    if isinstance(raised, (WorkerProblem, Interrupted)):
        sys.exit(status)
    if isinstance(raised, SystemExit):
        raise raised.with_traceback(None)
    show_error(raised, spec.path)
    sys.exit(status)


def _tell_end(
    run: _Run, spec: ScriptSpec, events: EventWriter, raised: BaseException | None
) -> int:
    """Records how a script ended; the exit status that goes with it."""
    ending = End("completed")
    if raised is not None:
        ending = classify(raised, run.phase, program_folder(spec))
        if isinstance(raised, (WorkerProblem, Interrupted)):
            _say(f"{ending.outcome}: {ending.reason}")
        if ending.outcome == "out_of_memory":
            # The frames hold what filled the memory; the last words need some of it.
            traceback.clear_frames(raised.__traceback__)
    recorded = events.write(_last_word(spec, ending, events.lost_count))
    events.close()
    return EXIT_CODES[ending.outcome] if recorded else EXIT_EVENTS_LOST


def _last_word(spec: AnySpec, ending: End, lost: int) -> End:
    """One of several processes ends by itself; the run's end is the launcher's to tell."""
    kind = RankEnd if _is_rank(spec) else End
    return kind(
        outcome=ending.outcome,
        reason=ending.reason,
        t_s=monotonic(),
        events_lost=lost + ending.events_lost,
        rank=ending.rank,
        signal=ending.signal,
    )


def _is_rank(spec: AnySpec) -> bool:
    return isinstance(spec, (ScriptSpec, TrainSpec)) and spec.rank is not None


class _Run:
    """One run from its specification to its last step; `phase` says how far it came."""

    def __init__(self, spec: AnySpec, events: EventWriter, stop: StopRequest) -> None:
        self._spec = spec
        self._events = events
        self._stop = stop
        self.phase = "start"

    def execute(self) -> End:
        """Whichever of the kinds of work the specification asks for."""
        notes = self._take_setting()
        if isinstance(self._spec, LaunchSpec):
            # The ranks have the same setting and tell what became of it.
            return launch_ranks(self._spec, self._stop)
        if isinstance(self._spec, TraceSpec):
            self._execute_trace(self._spec)
            return End("completed")
        if isinstance(self._spec, SweepSpec):
            self._execute_sweep(self._spec)
            return End("completed")
        if isinstance(self._spec, MeasureSpec):
            self._begin("measure")
            measure_limits(self._spec, self._events, self._stop.check)
            self._end()
            return End("completed")
        if isinstance(self._spec, ScriptSpec):
            self._execute_script(self._spec, notes)
        else:
            self._execute_graph(self._spec, notes)
        return End("completed")

    def _execute_graph(self, spec: TrainSpec, notes: list[str]) -> None:
        resumed, said = open_resumed(spec)
        backend = create_backend(spec)
        opened = backend.open()
        remarks = [*notes, *said, *loader_notes(spec), *rank_notes(spec)]
        greet(self._events, spec.framework, opened, remarks)
        self._begin("prepare")
        prepared = prepare(spec, Position() if resumed is None else resumed.position)
        self._events.write(prepared.describe())
        self._end()
        self._begin("build")
        peaks = MemoryPeaks()
        layers = backend.build(prepared.dataset, prepared.split)
        if resumed is not None:
            resumed.load_into(backend.state, spec.training.optimizer.name)
        counts = tuple(LayerParameters(layer.name, layer.parameter_count) for layer in layers)
        total = sum(layer.parameter_count for layer in layers)
        self._events.write(ModelBuilt(parameters=total, layers=counts))
        self._end()
        if spec.validate_only:
            self._begin("validate")
            validate(spec, backend, self._events, prepared.start)
            leave_ranks(backend, spec)
            self._end()
            return
        self._begin("train")
        checkpoints = Checkpoints(spec, backend.state, self._events)
        course = Course(backend.state, backend.feed, checkpoints)
        trained, probe = watch_layers(backend, spec, layers, self._events)
        probe.attach()
        try:
            train(spec, trained, prepared, self._events, self._stop, course)
            self._events.write(peaks.read())
            if trained is not backend:
                # To label what was traced is no part of the training.
                self._end()
                self._begin("layers")
        finally:
            self._finish(probe, shielded=trained is not backend)
        leave_ranks(backend, spec)
        self._end()

    def _finish(self, probe: Probe, *, shielded: bool) -> None:
        """Ends the probe and writes what it holds; shielded, no signal interrupts that."""
        if not shielded or self._stop.reason is not None:
            probe.finish()
            return
        with self._stop.shielded(patience_s=None):
            probe.finish()

    def _execute_trace(self, spec: TraceSpec) -> None:
        self._begin("trace")
        self._events.write(trace_operations(spec, self._events))
        self._end()

    def _execute_sweep(self, spec: SweepSpec) -> None:
        self._begin("sweep")
        sweep_kernels(spec, self._events, self._stop.check)
        self._end()

    def _execute_script(self, spec: ScriptSpec, notes: list[str]) -> None:
        probe, opened = create_probe(spec.framework, self._events)
        greet(self._events, spec.framework, opened, notes)
        self._begin("script")
        layers = create_layer_probe(spec.framework, self._events, spec.layers)
        # In this order: a step's end is taken before the layers' probe does its work after it.
        probe.attach()
        layers.attach()
        probe.on_backward_step = layers.mark_step
        peaks = MemoryPeaks()
        try:
            with self._stop.in_program():
                run_script(spec)
        finally:
            # Not one of these may stand in the place of what the script raised.
            for finish in (lambda: self._events.write(peaks.read()), layers.finish, probe.finish):
                _attempt(finish)
        self._end()

    def _take_setting(self) -> list[str]:
        """Binds this process before any framework starts its threads."""
        note = self._stop.follow_driver(self._spec.parent_pid)
        notes = [] if note is None else [note]
        return notes + bind_cores(self._spec.setting)

    def _begin(self, phase: str) -> None:
        self._stop.check()
        self.phase = phase
        self._events.write(PhaseEdge(phase, "begin", monotonic()))

    def _end(self) -> None:
        self._events.write(PhaseEdge(self.phase, "end", monotonic()))


def _attempt(finish: Callable[[], object]) -> None:
    """Does what may fail in a program that has replaced what it needs; the rest goes on."""
    try:
        finish()
    except Exception as error:  # noqa: BLE001 - the user's program has its own end
        _say(f"not all of the record could be written: {words_of(error)}")


def program_folder(spec: AnySpec) -> str | None:
    """Where the lines stand that a reason should name: a script's own; None for ours."""
    return os.path.dirname(spec.path) if isinstance(spec, ScriptSpec) else None


def bind_cores(setting: SettingSpec) -> list[str]:
    """Binds this process to the setting's cores; a note says where that was refused."""
    if setting.cores is None:
        return []
    if not hasattr(os, "sched_setaffinity"):
        return ["this system cannot bind a process to cores"]
    try:
        os.sched_setaffinity(0, setting.cores)
    except (OSError, ValueError) as error:
        return [f"binding to cores {list(setting.cores)} was refused: {error}"]
    return []


def _report(error: BaseException, ending: End) -> None:
    """Leaves the traceback in the log; a problem the user can mend needs its message alone."""
    if isinstance(error, (WorkerProblem, Interrupted)):
        _say(f"{ending.outcome}: {ending.reason}")
        return
    try:
        traceback.print_exception(type(error), error, error.__traceback__)
    except (OSError, MemoryError):
        _say(f"{ending.outcome}: {ending.reason}")


def _say(text: str) -> None:
    try:
        sys.stderr.write(f"trainload_worker: {text}\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        pass  # the log's disk is full, or the program took the stream: the exit code still tells


def _finish(code: int, message: str | None) -> NoReturn:
    if message is not None:
        _say(message)
    try:
        sys.stdout.flush()
    except OSError:
        # Python would flush again at exit and replace the exit code by its own.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.exit(code)


__all__ = ["bind_cores", "main"]

if __name__ == "__main__":
    main()
