"""The driver: one measured run from its request to its closed directory.

Starts the worker, follows it under a recording, and ends it. Prints nothing; who wants to see
progress passes a function.
"""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import asdict, replace

from trainload.errors import Terminated, WorkerError
from trainload.record import Outcome, layout
from trainload.record.checkpoints import checkpoint_metadata
from trainload.run.estimated import adopt_estimate, adopt_prediction
from trainload.run.recording import Recording, open_recording
from trainload.run.request import RunProgress, RunRequest, RunResult
from trainload.run.sampling.sampling import Sampling
from trainload.run.workers.interrupts import (
    interrupts_ignored,
    signals_as_interrupts,
    stopping_signal,
)
from trainload.run.workers.output import Echo, ScriptOutput
from trainload.run.workers.processes import WorkerProcess, worker_command, worker_environment
from trainload.workload import ScriptWorkload, WatchedWorkload, Workload
from trainload_worker.protocol.spec import (
    AnySpec,
    LaunchSpec,
    LayersSpec,
    RankFiles,
    ResumeSpec,
    SaveSpec,
    ScriptSpec,
    SettingSpec,
    TrainSpec,
)

POLL_S = 0.5
INTERRUPT_GRACE_S = 10.0
TIMEOUT_GRACE_S = 5.0

ShowProgress = Callable[[RunProgress], None]


def execute_run(
    request: RunRequest,
    show: ShowProgress | None = None,
    wall_clock: Callable[[], float] = time.time,
    echo: Echo | None = None,
    stdin: int | None = None,
) -> RunResult:
    """Run a workload once and leave one closed run directory.

    What a script prints goes to its log and, while it runs, to `echo`; it reads from `stdin`.

    Raises only where no run can be started; every ending of a started run is an outcome.
    """
    recording = open_recording(request, wall_clock=wall_clock)
    adopt_estimate(request, recording.path)
    adopt_prediction(request, recording.path)
    with signals_as_interrupts():
        return _Driver(request, recording, show, echo, stdin).drive()


class _Driver:
    """One run in progress."""

    def __init__(
        self,
        request: RunRequest,
        recording: Recording,
        show: ShowProgress | None,
        echo: Echo | None,
        stdin: int | None,
    ) -> None:
        self.request = request
        self.echo = echo
        self.stdin = stdin
        self.recording = recording
        self.show = show
        self.worker: WorkerProcess | None = None
        self.stopped_by: Outcome | None = None
        self.stop_reason: str | None = None

    def drive(self) -> RunResult:
        """From the first process to the closed record."""
        status = 1
        try:
            worker, sampling = self._start()
            status = self._follow(worker, sampling)
        except (KeyboardInterrupt, Terminated) as stop:
            self.stopped_by = "interrupted"
            self.stop_reason = str(stop) if isinstance(stop, Terminated) else "Ctrl-C"
            status = self._end_worker()
        except WorkerError as error:
            self.stopped_by, self.stop_reason = "failed", str(error)
        except Exception as error:
            # Our own mistake: the record says so before the traceback shows it.
            self.stopped_by, self.stop_reason = "failed", f"the driver met {error!r}"
            raise
        finally:
            with interrupts_ignored():
                result = self._close(status)
        return result

    def _start(self) -> tuple[WorkerProcess, Sampling]:
        """Both processes, meters open before the worker is given its work."""
        log = self.recording.path / layout.WORKER_LOG
        request = self.request
        scripted = isinstance(request.workload, ScriptWorkload)
        # A script chooses its threads itself, as it would without us.
        chosen = scripted and request.asked.threads is None and request.processes == 1
        worker = WorkerProcess(
            request.python,
            log,
            worker_environment(request.setting, request.environment, threads=not chosen),
            ScriptOutput(self.echo, log) if scripted else None,
            self.stdin if scripted and request.processes == 1 else None,
        )
        self.worker = worker
        sampling = self.recording.sample(worker.pid)
        spec = worker_spec(request, self.recording)
        if isinstance(spec, ScriptSpec):
            spec = replace(spec, stdin_fd=worker.stdin_fd)
        worker.send_spec(spec)
        return worker, sampling

    def _follow(self, worker: WorkerProcess, sampling: Sampling) -> int:
        """Watch until the worker has ended; its exit status."""
        timeout_s = self.request.timeout_s
        deadline_s = float("inf") if timeout_s is None else self.recording.start_s + timeout_s
        while True:
            wait_s = min(POLL_S, deadline_s - time.monotonic())
            status = worker.wait(wait_s, *sampling.exit_watches)
            if status is not None:
                return status
            if time.monotonic() >= deadline_s:
                self.stopped_by = "timed_out"
                self.stop_reason = f"still running after the {timeout_s:g} s of --timeout"
                return worker.end(TIMEOUT_GRACE_S)
            if self.recording.take_commands():
                raise Terminated("asked to end by a viewer")
            self.recording.take_events()
            self._show(sampling, self.recording.tend_sampler())

    def _show(self, sampling: Sampling, warning: str | None) -> None:
        """Tell whoever watches; a watcher that has gone away is no reason to stop a training."""
        if self.show is None:
            return
        try:
            self.show(self._progress(sampling, warning))
        except (OSError, ValueError) as error:
            self.show = None
            self.recording.warnings.append(f"progress could not be shown any more: {error}")

    def _end_worker(self) -> int:
        """End the worker in good order; a second interrupt ends it at once."""
        if self.worker is None:
            return 1
        try:
            return self.worker.end(INTERRUPT_GRACE_S, stopping_signal())
        except (KeyboardInterrupt, Terminated):
            return self.worker.end(0.0, signal.SIGKILL)

    def _progress(self, sampling: Sampling, warning: str | None) -> RunProgress:
        now_s, facts = time.monotonic(), self.recording.facts
        total, per_s = facts.data.total_steps, self.recording.steps_per_s()
        open_phases = [phase.name for phase in facts.phases if phase.end_s is None]
        return RunProgress(
            path=self.recording.path,
            elapsed_s=now_s - self.recording.start_s,
            phase=open_phases[-1] if open_phases else "start",
            epoch=facts.epoch,
            epochs=self.request.workload.epochs,
            step=facts.steps,
            total_steps=total,
            steps_per_s=per_s,
            loss=facts.last_loss,
            remaining_s=(total - facts.steps) / per_s if total and per_s else None,
            loads=sampling.latest_loads(),
            silent_s=now_s - self.recording.heard_s,
            warning=warning,
        )

    def _close(self, status: int) -> RunResult:
        """End both children whatever their state, decide the outcome, close the record."""
        if self.worker is not None:
            self.worker.sweep()
            if self.worker.output_problem is not None:
                self.recording.warnings.append(self.worker.output_problem)
        return self.recording.close(
            status, stopped_by=self.stopped_by, stop_reason=self.stop_reason
        )


def worker_spec(request: RunRequest, recording: Recording) -> AnySpec:
    """What the worker of a request is told to do."""
    workload, path = request.workload, recording.path.resolve()
    assert not isinstance(workload, WatchedWorkload), "it trains where it is watched"
    setting = SettingSpec(
        cores=request.setting.cores,
        threads=request.setting.threads,
        accelerators=tuple(a.uuid for a in request.setting.accelerators),
    )
    events_path = str(path / layout.EVENTS)
    layers = _layers_spec(request, str(path))
    work: TrainSpec | ScriptSpec
    if isinstance(workload, Workload):
        continues = request.continues
        work = TrainSpec(
            events_path=events_path,
            framework=request.framework,
            graph=workload.graph.to_spec(),
            data=workload.data,
            training=workload.training,
            seeds=workload.seeds,
            setting=setting,
            parent_pid=os.getpid(),
            fake=request.fake,
            layers=layers,
            save=_save_spec(request, workload, recording),
            resume=None if continues is None else ResumeSpec(str(continues.path.resolve())),
            validate_only=request.validate_only,
        )
    else:
        work = _script_spec(request, workload, events_path, setting, layers)
    if request.processes == 1:
        return work
    ranks = tuple(
        RankFiles(str(path / layout.events_file(rank)), layout.window_form(rank))
        for rank in range(request.processes)
    )
    return LaunchSpec(
        events_path=events_path,
        command=tuple(worker_command(request.python)),
        ranks=ranks,
        setting=setting,
        work=work,
        parent_pid=os.getpid(),
    )


def _script_spec(
    request: RunRequest,
    workload: ScriptWorkload,
    events_path: str,
    setting: SettingSpec,
    layers: LayersSpec | None,
) -> ScriptSpec:
    return ScriptSpec(
        events_path=events_path,
        framework=request.framework,
        path=str(workload.place),
        setting=setting,
        arguments=workload.arguments,
        parent_pid=os.getpid(),
        layers=layers,
    )


def _layers_spec(request: RunRequest, folder: str) -> LayersSpec | None:
    if request.layer_budget is None:
        return None
    together = request.processes > 1
    return LayersSpec(
        budget=request.layer_budget,
        folder=folder,
        file_form=layout.window_form(0),
        plan=f"{folder}/{layout.WINDOW_PLAN}" if together else None,
        ask=f"{folder}/{layout.WINDOW_ASK}",
    )


def _save_spec(request: RunRequest, workload: Workload, recording: Recording) -> SaveSpec | None:
    """Where and when the worker leaves checkpoints; None where it leaves none."""
    if not request.save:
        return None
    folder = recording.path.resolve()
    return SaveSpec(
        path=str(folder / layout.CHECKPOINT),
        # Braces of the folder's own name are no places to fill.
        epoch_form=str(folder).replace("{", "{{").replace("}", "}}") + f"/{layout.CHECKPOINT_FORM}",
        every=request.save_every,
        metadata=checkpoint_metadata(workload.graph, recording.path.name, asdict(workload.seeds)),
    )
