"""The driver: one measured run from its request to its closed directory.

Starts worker and sampler, follows them, and closes the record on any ending. Prints nothing; who
wants to see progress passes a function.
"""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from trainload._version import __version__
from trainload.errors import WorkerError
from trainload.hardware import read_cgroup_limits
from trainload.record import (
    Clock,
    LineReader,
    Manifest,
    Outcome,
    RunDirectory,
    WorkerFacts,
    create_run_directory,
    fields_from_facts,
    layout,
    load_other_ranks,
    rank_warnings,
)
from trainload.record.checkpoints import checkpoint_metadata
from trainload.run.estimated import adopt_estimate
from trainload.run.request import RunProgress, RunRequest, RunResult
from trainload.run.sampling.overhead import measure_overhead
from trainload.run.sampling.sampling import Sampling
from trainload.run.sampling.spans import StepSpans
from trainload.run.workers.interrupts import Terminated, interrupts_ignored, signals_as_interrupts
from trainload.run.workers.processes import WorkerProcess, worker_command, worker_environment
from trainload.run.workers.verdict import Ending, decide_outcome, read_oom_kills
from trainload.workload import WatchedWorkload, Workload

POLL_S = 0.5
INTERRUPT_GRACE_S = 10.0
TIMEOUT_GRACE_S = 5.0
WARM_UP_S = 1.0
"""Training time before the first pause of the overhead measurement."""

ShowProgress = Callable[[RunProgress], None]


def execute_run(
    request: RunRequest,
    show: ShowProgress | None = None,
    wall_clock: Callable[[], float] = time.time,
) -> RunResult:
    """Run a workload once and leave one closed run directory.

    Raises only where no run can be started; every ending of a started run is an outcome.
    """
    manifest = _first_manifest(request, wall_clock)
    run = create_run_directory(request.out, request.workload.model, manifest)
    adopt_estimate(request, run.path)
    with signals_as_interrupts():
        return _Driver(request, run, show, wall_clock).drive()


class _Driver:
    """One run in progress."""

    def __init__(
        self,
        request: RunRequest,
        run: RunDirectory,
        show: ShowProgress | None,
        wall_clock: Callable[[], float],
    ) -> None:
        self.request = request
        self.run = run
        self.show = show
        self.wall_clock = wall_clock
        self.start_s = self.heard_s = run.manifest.clock.start_s
        self.events = LineReader(path=run.path / layout.EVENTS)
        self.facts = WorkerFacts()
        self.spans = StepSpans(keep_s=float("inf"))
        self.limits = read_cgroup_limits()
        self.oom_before = read_oom_kills(self.limits)
        self.worker: WorkerProcess | None = None
        self.sampling: Sampling | None = None
        self.stopped_by: Outcome | None = None
        self.stop_reason: str | None = None
        self.warnings: list[str] = []

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
        request, path = self.request, self.run.path
        environment = worker_environment(request.setting)
        worker = WorkerProcess(request.python, path / layout.WORKER_LOG, environment)
        self.worker = worker
        sampling = Sampling(request, path, worker.pid, self.start_s)
        self.sampling = sampling
        sampling.start()
        self.run.update(
            meters=tuple(sampling.meters),
            driver={"pid": os.getpid(), "worker_pid": worker.pid},
        )
        worker.send_spec(self._worker_spec())
        return worker, sampling

    def _worker_spec(self) -> dict[str, Any]:
        workload, setting = self.request.workload, self.request.setting
        continues = self.request.continues
        assert not isinstance(workload, WatchedWorkload), "it trains where it is watched"
        return {
            "format": 1,
            "events_path": str(self.events.path.resolve()),
            "framework": self.request.framework,
            **workload.to_worker(),
            "setting": {
                "cores": list(setting.cores),
                "threads": setting.threads,
                "accelerators": [a.uuid for a in setting.accelerators],
            },
            "parent_pid": os.getpid(),
            "fake": dict(self.request.fake),
            "layers": self._layers_spec(),
            "processes": self._processes_spec(),
            "save": self._save_spec(),
            "resume": None if continues is None else {"path": str(continues.path.resolve())},
            "validate_only": self.request.validate_only,
        }

    def _save_spec(self) -> dict[str, Any] | None:
        """Where and when the worker leaves checkpoints; None where it leaves none."""
        workload = self.request.workload
        if not self.request.save or not isinstance(workload, Workload):
            return None
        folder = self.run.path.resolve()
        return {
            "path": str(folder / layout.CHECKPOINT),
            "every": self.request.save_every,
            # Braces of the folder's own name are no places to fill.
            "epoch_form": str(folder).replace("{", "{{").replace("}", "}}")
            + f"/{layout.CHECKPOINT_FORM}",
            "metadata": checkpoint_metadata(
                workload.graph, self.run.path.name, asdict(workload.seeds)
            ),
        }

    def _processes_spec(self) -> dict[str, Any] | None:
        """How the worker starts others beside it; None where it trains itself."""
        if self.request.processes == 1:
            return None
        folder = self.run.path.resolve()
        return {
            "command": worker_command(self.request.python),
            "ranks": [
                {
                    "events_path": str(folder / layout.events_file(rank)),
                    "window_form": layout.window_form(rank),
                }
                for rank in range(self.request.processes)
            ],
        }

    def _layers_spec(self) -> dict[str, Any] | None:
        budget = self.request.layer_budget
        if budget is None:
            return None
        folder = str(self.run.path.resolve())
        together = self.request.processes > 1
        return {
            "budget": budget,
            "folder": folder,
            "file_form": layout.window_form(0),
            "plan": f"{folder}/{layout.WINDOW_PLAN}" if together else None,
        }

    def _follow(self, worker: WorkerProcess, sampling: Sampling) -> int:
        """Watch until the worker has ended; its exit status."""
        timeout_s = self.request.timeout_s
        deadline_s = float("inf") if timeout_s is None else self.start_s + timeout_s
        while True:
            wait_s = min(POLL_S, deadline_s - time.monotonic())
            status = worker.wait(wait_s, *sampling.exit_watches)
            if status is not None:
                return status
            if time.monotonic() >= deadline_s:
                self.stopped_by = "timed_out"
                self.stop_reason = f"still running after the {timeout_s:g} s of --timeout"
                return worker.end(TIMEOUT_GRACE_S)
            self._take_events(self.events.read_new())
            warning = sampling.keep_alive()
            if warning:
                self.warnings.append(warning)
            self._maybe_start_blocks(sampling)
            self._show(sampling, warning)

    def _show(self, sampling: Sampling, warning: str | None) -> None:
        """Tell whoever watches; a watcher that has gone away is no reason to stop a training."""
        if self.show is None:
            return
        try:
            self.show(self._progress(sampling, warning))
        except (OSError, ValueError) as error:
            self.show = None
            self.warnings.append(f"progress could not be shown any more: {error}")

    def _end_worker(self) -> int:
        """End the worker in good order; a second interrupt ends it at once."""
        if self.worker is None:
            return 1
        try:
            return self.worker.end(INTERRUPT_GRACE_S, signal.SIGINT)
        except (KeyboardInterrupt, Terminated):
            return self.worker.end(0.0, signal.SIGKILL)

    def _take_events(self, events: list[Any]) -> None:
        for event in events:
            self.heard_s = time.monotonic()
            self.facts.add(event, self.start_s)
            self.spans.add(event)

    def _maybe_start_blocks(self, sampling: Sampling) -> None:
        """Begin the pauses once training is warm and its step time known."""
        step_s = self.spans.recent_step_s()
        if sampling.blocks_started or not self.request.check_overhead or step_s is None:
            return
        if self.spans.trained_s >= WARM_UP_S:
            planned_s = sampling.start_blocks(step_s)
            self.spans.keep_s = self.spans.trained_s + planned_s

    def _progress(self, sampling: Sampling, warning: str | None) -> RunProgress:
        now_s = time.monotonic()
        total = self.facts.data.get("total_steps")
        total = total if isinstance(total, int) else None
        per_s = self._steps_per_s()
        open_phases = [p["name"] for p in self.facts.phases if p["end_s"] is None]
        return RunProgress(
            elapsed_s=now_s - self.start_s,
            phase=open_phases[-1] if open_phases else "start",
            epoch=self.facts.epoch,
            epochs=self.request.workload.epochs,
            step=self.facts.steps,
            total_steps=total,
            steps_per_s=per_s,
            loss=self.facts.last_loss,
            remaining_s=(total - self.facts.steps) / per_s if total and per_s else None,
            loads=sampling.latest_loads(),
            silent_s=now_s - self.heard_s,
            warning=warning,
        )

    def _steps_per_s(self) -> float | None:
        """Rate over the whole training so far, validation included: what time left depends on."""
        if not self.spans.starts_s or self.facts.last_s is None:
            return None
        trained_s = self.facts.last_s - self.spans.starts_s[0]
        return self.facts.steps / trained_s if trained_s > 0 else None

    def _close(self, status: int) -> RunResult:
        """End both children whatever their state, decide the outcome, close the record."""
        if self.worker is not None:
            self.worker.sweep()
        if self.sampling is not None:
            self.sampling.stop()
        self._take_events(self.events.read_rest())
        outcome, reason = decide_outcome(self._ending(status))
        changes: dict[str, Any] = fields_from_facts(self.run.manifest, self.facts)
        self.warnings += rank_warnings(load_other_ranks(self.run.path, self.start_s))
        self.warnings += self.facts.checkpoint_failures
        if self.sampling is not None:
            changes["sampler"] = self.sampling.summary()
            changes["overhead"] = self._overhead(self.sampling)
        end_s, end_wall_s = time.monotonic(), self.wall_clock()
        clock = replace(self.run.manifest.clock, end_s=end_s, end_wall_s=end_wall_s)
        self.run.close(
            outcome,
            reason,
            clock=clock,
            warnings=tuple(self.warnings),
            damaged_lines=self.events.damaged_lines,
            **changes,
        )
        return RunResult(
            path=self.run.path, outcome=outcome, reason=reason, manifest=self.run.manifest
        )

    def _ending(self, status: int) -> Ending:
        oom_after = read_oom_kills(self.limits)
        counted = oom_after is not None and self.oom_before is not None
        return Ending(
            exit_status=status,
            end_event=self.facts.end,
            stopped_by=self.stopped_by,
            stop_reason=self.stop_reason,
            oom_kills=(oom_after or 0) - (self.oom_before or 0) if counted else 0,
            sampler_deaths=tuple(self.sampling.deaths) if self.sampling else (),
            lost_samples=self.sampling.lost_lines if self.sampling else 0,
            write_error=self.sampling.write_error if self.sampling else None,
            last_log_line=_last_line(self.run.path / layout.WORKER_LOG),
        )

    def _overhead(self, sampling: Sampling) -> dict[str, Any]:
        measured = measure_overhead(
            self.spans.starts_s, self.spans.ends_s, sampling.pauses, self.start_s
        )
        if not self.request.check_overhead:
            measured = replace(measured, reason="switched off with --no-check-overhead")
        return measured.to_json()


def _first_manifest(request: RunRequest, wall_clock: Callable[[], float]) -> Manifest:
    return Manifest(
        run_id="",
        created=datetime.fromtimestamp(wall_clock(), UTC).isoformat(timespec="seconds"),
        trainload_version=__version__,
        framework=request.framework,
        workload=request.workload.to_json(),
        setting={
            "asked": dict(request.asked),
            "resolved": request.setting.to_json(),
            "obtained": None,
        },
        machine=request.machine.to_json(),
        clock=Clock(start_s=time.monotonic(), start_wall_s=wall_clock()),
        software={"trainload": __version__},
        sampler={"rate_hz": request.rate_hz},
        layers=None if request.layer_budget is None else {"budget": request.layer_budget},
        processes=request.processes,
        task="validate" if request.validate_only else "train",
        continues=None if request.continues is None else request.continues.to_json(),
    )


def _last_line(path: Path) -> str | None:
    """The last printable line of a log, cut to 200 characters; None where there is none."""
    try:
        lines = path.read_bytes()[-4096:].decode("utf-8", "replace").split("\n")
    except OSError:
        return None
    printable = ("".join(c for c in line if c.isprintable()).strip() for line in lines)
    return next((line[:200] for line in reversed(list(printable)) if line), None)
