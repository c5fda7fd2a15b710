"""One recording: a run directory opened, sampled, told of events, and closed on any ending.

Whoever measures a training uses it: the driver, `trainload.watch`, callbacks of other tools. Knows
nothing of how the training is run.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic

from trainload._version import __version__
from trainload.hardware import read_cgroup_limits, read_job
from trainload.record import (
    Clock,
    EventReader,
    LayerTracing,
    LineAppender,
    LineReader,
    Manifest,
    Outcome,
    OverheadMeasurement,
    Processes,
    RecordedSetting,
    RunDirectory,
    SamplerUse,
    WorkerFacts,
    create_run_directory,
    layout,
    load_other_ranks,
    rank_warnings,
)
from trainload.record.control import Command, remove_commands, take_commands
from trainload.run.request import RunRequest, RunResult
from trainload.run.sampling.overhead import measure_overhead
from trainload.run.sampling.sampling import Sampling
from trainload.run.sampling.spans import StepSpans
from trainload.run.workers.verdict import Ending, decide_outcome, read_oom_kills
from trainload.workload import Masking, ScriptWorkload, open_masking, recorded_workload
from trainload_worker.protocol.events import Event, event_fields
from trainload_worker.protocol.marks import Marked

WARM_UP_S = 1.0
"""Training time before the first pause of the overhead measurement."""

MARK_DELAY_S = 10.0
"""How old a marked moment may be when it is taken; an older or later one counts as now."""

_NO_LAST_WORD = (
    "the program ended well but left without Python's own end (os._exit, or another program in its "
    "place): what it did in its last half second, or in that program, was not seen"
)


@dataclass
class Recording:
    """A run directory from its opening to its outcome, and all that is known of the run so far."""

    request: RunRequest
    run: RunDirectory
    start_s: float
    wall_clock: Callable[[], float] = time.time
    facts: WorkerFacts = field(init=False)
    spans: StepSpans = field(init=False)
    sampling: Sampling | None = None
    warnings: list[str] = field(default_factory=list)
    masking: Masking = field(default_factory=Masking)
    """What was masked in the record, so that an ending does not tell it either."""
    heard_s: float = field(init=False)
    """When the last event came."""

    def __post_init__(self) -> None:
        self.heard_s = self.start_s
        self.facts = WorkerFacts(start_s=self.start_s)
        self.spans = StepSpans(keep_s=float("inf"))
        self._events = EventReader(lines=LineReader(path=self.run.path / layout.EVENTS))
        self._limits = read_cgroup_limits()
        self._oom_before = read_oom_kills(self._limits)

    @property
    def path(self) -> Path:
        """The run directory."""
        return self.run.path

    @property
    def events_path(self) -> Path:
        """Where the training process writes its events."""
        return self.path / layout.EVENTS

    def sample(self, worker_pid: int) -> Sampling:
        """Start the meters around a process; WorkerError where no sampler can be started."""
        self.sampling = Sampling(self.request, self.path, worker_pid, self.start_s)
        self.sampling.start()
        pids = Processes(pid=os.getpid(), worker_pid=worker_pid)
        self.run.save(replace(self.run.manifest, meters=tuple(self.sampling.meters), driver=pids))
        return self.sampling

    def take_events(self) -> None:
        """Take what the training process has said since the last call."""
        self._take(self._events.read_new())

    def take_commands(self) -> bool:
        """Obey what a viewer asked since the last call; True where the run is to end.

        A mark becomes a line of the events, a window is asked of the training process.
        """
        ends = False
        for command in take_commands(self.path, self.run.manifest.run_id):
            if command.verb == "mark":
                self._mark(command)
            elif command.verb == "trace" and self.request.layer_budget is not None:
                self._ask_window()
            elif command.verb == "end":
                ends = True
        return ends

    def tend_sampler(self) -> str | None:
        """Replace a sampler that died and begin its pauses when due; what went wrong, or None."""
        if self.sampling is None:
            return None
        warning = self.sampling.keep_alive()
        if warning:
            self.warnings.append(warning)
        self._maybe_start_blocks(self.sampling)
        return warning

    def steps_per_s(self) -> float | None:
        """Rate over the whole training so far, validation included; None before the first step."""
        if not self.spans.starts_s or self.facts.last_s is None:
            return None
        trained_s = self.facts.last_s - self.spans.starts_s[0]
        return self.facts.steps / trained_s if trained_s > 0 else None

    def close(
        self,
        exit_status: int,
        *,
        stopped_by: Outcome | None = None,
        stop_reason: str | None = None,
        unpaused: str = "switched off with --no-check-overhead",
    ) -> RunResult:
        """End the sampler, decide the outcome and write it; the training has ended.

        `unpaused` says why the sampler's cost was not measured where it was not to be.
        """
        if self.sampling is not None:
            self.sampling.stop()
        remove_commands(self.path)
        self._take(self._events.read_rest())
        ending = self._ending(exit_status, stopped_by, stop_reason)
        outcome, reason = decide_outcome(ending)
        others = load_other_ranks(self.path, self.start_s)
        reason = self.masking.scrubbed(reason)
        if outcome == "completed" and self.facts.end is None:
            self.warnings.append(_NO_LAST_WORD)
        self.warnings += rank_warnings(others)
        self.warnings += self.facts.checkpoint_failures
        manifest = self.facts.written_into(self.run.manifest, others)
        if self.sampling is not None:
            manifest = replace(
                manifest,
                sampler=self.sampling.summary(),
                overhead=self._overhead(self.sampling, unpaused),
            )
        assert manifest.clock is not None, "it was opened with one"
        clock = replace(manifest.clock, end_s=monotonic(), end_wall_s=self.wall_clock())
        self.run.close(
            replace(
                manifest,
                outcome=outcome,
                outcome_reason=reason,
                training_completed=outcome == "completed" or manifest.training_completed,
                clock=clock,
                warnings=tuple(self.warnings),
                damaged_lines=self._events.damaged_lines,
            )
        )
        return RunResult(path=self.path, outcome=outcome, reason=reason, manifest=self.run.manifest)

    def _take(self, events: list[Event]) -> None:
        for event in events:
            self.heard_s = monotonic()
            self.facts.add(event)
            self.spans.add(event)

    def _mark(self, command: Command) -> None:
        now_s = monotonic()
        t_s = command.t_s if command.t_s is not None else now_s
        t_s = t_s if now_s - MARK_DELAY_S <= t_s <= now_s else now_s
        try:
            # Opened anew each time: it then sees whether the last line of the worker is torn.
            lines = LineAppender(self.events_path)
        except OSError as error:
            self.warnings.append(f"a mark could not be kept: {error.strerror}")
            return
        try:
            lines.append(event_fields(Marked(t_s=round(t_s, 6), words=command.words)))
        finally:
            lines.close()

    def _ask_window(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            os.close(os.open(self.path / layout.WINDOW_ASK, flags, 0o600))
        except OSError as error:
            self.warnings.append(f"a window could not be asked for: {error.strerror}")

    def _maybe_start_blocks(self, sampling: Sampling) -> None:
        """Begin the pauses once training is warm and its step time known."""
        step_s = self.spans.recent_step_s()
        if sampling.blocks_started or not self.request.check_overhead or step_s is None:
            return
        if self.spans.trained_s >= WARM_UP_S:
            planned_s = sampling.start_blocks(step_s)
            self.spans.keep_s = self.spans.trained_s + planned_s

    def _ending(
        self, exit_status: int, stopped_by: Outcome | None, stop_reason: str | None
    ) -> Ending:
        oom_after = read_oom_kills(self._limits)
        counted = oom_after is not None and self._oom_before is not None
        sampling = self.sampling
        return Ending(
            exit_status=exit_status,
            end_event=self.facts.end,
            stopped_by=stopped_by,
            stop_reason=stop_reason,
            oom_kills=(oom_after or 0) - (self._oom_before or 0) if counted else 0,
            sampler_deaths=tuple(sampling.deaths) if sampling else (),
            lost_samples=sampling.lost_lines if sampling else 0,
            write_error=sampling.write_error if sampling else None,
            last_log_line=_last_line(self.path / layout.WORKER_LOG),
            program_began=isinstance(self.request.workload, ScriptWorkload)
            and any(phase.name == "script" for phase in self.facts.phases),
        )

    def _overhead(self, sampling: Sampling, unpaused: str) -> OverheadMeasurement:
        measured = measure_overhead(
            self.spans.starts_s, self.spans.ends_s, sampling.pauses, self.start_s
        )
        return measured if self.request.check_overhead else replace(measured, reason=unpaused)


def open_recording(
    request: RunRequest,
    *,
    processes: int | None = None,
    wall_clock: Callable[[], float] = time.time,
) -> Recording:
    """A new run directory held by this process; RecordError where that is refused.

    `processes` says how many train together where the request itself starts none.
    """
    start_s, masking = monotonic(), open_masking()
    budget, continues = request.layer_budget, request.continues
    manifest = Manifest(
        created=datetime.fromtimestamp(wall_clock(), UTC).isoformat(timespec="seconds"),
        trainload_version=__version__,
        framework=request.framework,
        workload=recorded_workload(request.workload, masking),
        setting=RecordedSetting(asked=request.asked, resolved=request.setting),
        machine=request.machine,
        job=read_job(),
        clock=Clock(start_s=start_s, start_wall_s=wall_clock()),
        software={"trainload": __version__},
        sampler=SamplerUse(rate_hz=request.rate_hz),
        layers=None if budget is None else LayerTracing(budget=budget),
        processes=request.processes if processes is None else processes,
        task="validate" if request.validate_only else "train",
        continues=None if continues is None else continues.origin,
        study=request.study,
        environment=dict(request.environment),
    )
    run = create_run_directory(request.out, request.workload.model, manifest)
    recording = Recording(request, run, start_s, wall_clock, masking=masking)
    if masking.count:
        recording.warnings.append(
            f"masked in this record: {masking.count} values of its arguments or settings that are "
            "secret by their names; they must be given anew to run it again"
        )
    return recording


def _last_line(path: Path) -> str | None:
    """The last printable line of a log, cut to 200 characters; None where there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 4096))
            lines = file.read().decode("utf-8", "replace").split("\n")
    except OSError:
        return None
    printable = ("".join(c for c in line if c.isprintable()).strip() for line in lines)
    return next((line[:200] for line in reversed(list(printable)) if line), None)
