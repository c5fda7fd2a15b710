"""What the worker's events say of a run as a whole: software, setting, data, phases, its end.

Reads events only; step by step tables are made when sealing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from trainload.record.layout import events_file
from trainload.record.lines import read_events
from trainload.record.manifest import Manifest
from trainload.record.parts import (
    LayerTracing,
    Phase,
    RecordedMark,
    RecordedModel,
    RecordedRank,
    SavedCheckpoint,
)
from trainload.record.traces import ranks_of
from trainload_worker.protocol import events as said
from trainload_worker.protocol.marks import LONGEST_WORDS, Marked
from trainload_worker.protocol.windows import LayersFailed, WindowSaved

MOST_MARKS = 1000
"""Marks kept of one run; nobody finds a moment among more."""


@dataclass(kw_only=True)
class WorkerFacts:
    """Gathered from events as they come; `add` takes them one by one."""

    start_s: float
    """The run's start on the monotonic clock, which times are counted from."""
    software: dict[str, str | None] = field(default_factory=dict)
    obtained: said.Obtained | None = None
    data: said.DataReady = said.DataReady()
    model: RecordedModel = RecordedModel()
    memory: said.MemoryUse = said.MemoryUse()
    windows: int = 0
    window_cost_s: float = 0.0
    layers_failure: str | None = None
    checkpoints: list[SavedCheckpoint] = field(default_factory=list)
    checkpoint_failures: list[str] = field(default_factory=list)
    phases: list[Phase] = field(default_factory=list)
    marks: list[RecordedMark] = field(default_factory=list)
    end: said.End | None = None
    steps: int = 0
    epoch: int | None = None
    last_loss: float | None = None
    last_s: float | None = None

    def add(self, event: said.Event) -> None:
        """Take one event."""
        for name in ("t_s", "validation_end_s"):
            self._note_time(getattr(event, name, None))
        if isinstance(event, said.Hello):
            self.software = {
                "python": event.python,
                "framework": event.framework,
                "framework_version": event.framework_version,
                **event.software,
            }
        elif isinstance(event, said.SettingTaken):
            self.obtained = event.obtained
        elif isinstance(event, said.DataReady):
            self.data = event
        elif isinstance(event, said.ModelBuilt):
            self.model = replace(self.model, parameters=event.parameters, layers=event.layers)
        elif isinstance(event, said.MemoryUse):
            self.memory = event
        elif isinstance(event, said.ProbeFailed):
            self.model = replace(self.model, probe_failure=event.reason)
        elif isinstance(event, said.StepMarks):
            self.model = replace(self.model, step_marks=event.by)
        elif isinstance(event, said.ProbeNote):
            self.model = replace(self.model, probe_notes=(*self.model.probe_notes, event.words))
        elif isinstance(event, WindowSaved):
            self.windows += 1
            self.window_cost_s += event.cost_s
            self._note_time(event.end_s)
        elif isinstance(event, LayersFailed):
            self.layers_failure = event.reason
        elif isinstance(event, said.CheckpointSaved):
            self._add_checkpoint(event)
        elif isinstance(event, said.PhaseEdge):
            self._add_phase(event)
        elif isinstance(event, Marked) and len(self.marks) < MOST_MARKS:
            t_s = round(event.t_s - self.start_s, 6)
            self.marks.append(RecordedMark(t_s=t_s, words=event.words[:LONGEST_WORDS]))
        elif isinstance(event, said.StepsDone):
            self._add_steps(event)
        elif isinstance(event, said.EpochDone):
            self._note_time(event.end_s)
        elif type(event) is said.End:
            self.end = event

    @property
    def completed(self) -> bool:
        """Whether the training itself reached its end, by the worker's own word."""
        return self.end is not None and self.end.outcome == "completed"

    @property
    def failures(self) -> list[str]:
        """What could not be seen of the training, in words; [] where all was."""
        probe = self.model.probe_failure
        steps = [] if probe is None else [f"steps were no longer seen: {probe}"]
        layers = self.layers_failure
        return steps + ([] if layers is None else [f"layers were no longer traced: {layers}"])

    def written_into(
        self, manifest: Manifest, others: Mapping[int, WorkerFacts] | None = None
    ) -> Manifest:
        """The manifest with all that the worker's events tell, and those of other processes."""
        layers = manifest.layers
        silent = WorkerFacts(start_s=self.start_s)
        count = (manifest.processes or 1) if others is not None else 1
        ranks = [self, *((others or {}).get(rank, silent) for rank in range(1, count))]
        obtained = self.obtained if count == 1 else _obtained_together(ranks)
        told = [RecordedRank(obtained=rank.obtained, memory=rank.memory) for rank in ranks]
        return replace(
            manifest,
            software={**manifest.software, **self.software},
            setting=replace(manifest.setting, obtained=obtained),
            ranks=tuple(told) if count > 1 else (),
            data=self.data,
            model=self.model,
            memory=self.memory,
            layers=None if layers is None else self._layers(layers),
            checkpoints=tuple(self.checkpoints),
            phases=tuple(self.phases),
            marks=tuple(self.marks),
            training_completed=self.completed,
        )

    def _layers(self, asked: LayerTracing) -> LayerTracing:
        return replace(
            asked,
            windows=self.windows,
            cost_s=round(self.window_cost_s, 6),
            failure=self.layers_failure,
        )

    def _add_checkpoint(self, event: said.CheckpointSaved) -> None:
        if event.state == "failed" or event.file is None:
            self.checkpoint_failures.append(f"not saved: {event.reason}")
            return
        self.checkpoints.append(
            SavedCheckpoint(
                file=event.file,
                epoch=event.epoch,
                step=event.step,
                bytes=event.bytes,
                cost_s=event.cost_s,
            )
        )

    def _add_phase(self, event: said.PhaseEdge) -> None:
        t_s = round(event.t_s - self.start_s, 6)
        if event.edge == "begin":
            self.phases.append(Phase(name=event.name, start_s=t_s, detail=event.detail))
            return
        for position in reversed(range(len(self.phases))):
            phase = self.phases[position]
            if phase.name == event.name and phase.end_s is None:
                self.phases[position] = replace(phase, end_s=t_s)
                return

    def _add_steps(self, event: said.StepsDone) -> None:
        self.steps = max(self.steps, event.first_step + len(event.end_s))
        self.epoch = event.epoch
        if event.end_s:
            self._note_time(event.end_s[-1])
        if event.loss:
            self.last_loss = event.loss[-1]

    def _note_time(self, value: float | None) -> None:
        if value is not None and (self.last_s is None or value > self.last_s):
            self.last_s = value


def _obtained_together(ranks: Sequence[WorkerFacts]) -> said.Obtained | None:
    """What all processes have of the setting; that of the first where one never said.

    Processes of a script may share cores; its threads are those of all.
    """
    parts = [rank.obtained for rank in ranks if rank.obtained is not None]
    if len(parts) < len(ranks):
        return ranks[0].obtained
    cores = [part.cores for part in parts if part.cores is not None]
    threads = [part.threads for part in parts if part.threads is not None]
    cards = [part.accelerators for part in parts if part.accelerators is not None]
    whole = len(parts)
    return replace(
        parts[0],
        cores=tuple(sorted(set().union(*cores))) if len(cores) == whole else None,
        threads=sum(threads) if len(threads) == whole else None,
        accelerators=sum(cards, ()) if len(cards) == whole else None,
        notes=tuple(dict.fromkeys(note for part in parts for note in part.notes)),
    )


def load_facts(run_dir: Path, start_s: float, rank: int = 0) -> tuple[WorkerFacts, int]:
    """Facts of a process's whole events file, and how many of its lines are damaged."""
    events, damaged = read_events(run_dir / events_file(rank))
    facts = WorkerFacts(start_s=start_s)
    for event in events:
        facts.add(event)
    return facts, damaged


def load_other_ranks(run_dir: Path, start_s: float) -> dict[int, WorkerFacts]:
    """Facts of every process but the first, which speaks for the run."""
    return {rank: load_facts(run_dir, start_s, rank)[0] for rank in ranks_of(run_dir)[1:]}


def rank_warnings(others: Mapping[int, WorkerFacts]) -> tuple[str, ...]:
    """What a reader should know of processes beside the first."""
    return tuple(f"rank {rank}: {words}" for rank, f in others.items() for words in f.failures)
