"""What the worker's events say of a run as a whole: software, setting, data, phases, its end.

Reads events only; step by step tables are made when sealing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainload.record.layout import events_file
from trainload.record.lines import LineReader, is_number
from trainload.record.traces import ranks_of


@dataclass(kw_only=True)
class WorkerFacts:
    """Gathered from events as they come; `add` takes them one by one."""

    software: dict[str, Any] = field(default_factory=dict)
    obtained: dict[str, Any] | None = None
    data: dict[str, Any] = field(default_factory=dict)
    model: dict[str, Any] = field(default_factory=dict)
    memory: dict[str, Any] = field(default_factory=dict)
    windows: int = 0
    window_cost_s: float = 0.0
    layers_failure: str | None = None
    checkpoints: list[dict[str, Any]] = field(default_factory=list)
    checkpoint_failures: list[str] = field(default_factory=list)
    phases: list[dict[str, Any]] = field(default_factory=list)
    end: dict[str, Any] | None = None
    steps: int = 0
    epoch: int | None = None
    last_loss: float | None = None
    last_s: float | None = None

    def add(self, event: Any, start_s: float) -> None:
        """Take one event; what is not understood is passed over."""
        if not isinstance(event, Mapping):
            return
        kind = event.get("kind")
        for key in ("t_s", "end_s", "validation_end_s"):
            self._note_time(event.get(key))
        if kind == "hello":
            self.software = {
                "python": event.get("python"),
                "framework": event.get("framework"),
                "framework_version": event.get("framework_version"),
                **(event["software"] if isinstance(event.get("software"), dict) else {}),
            }
        elif kind == "setting" and isinstance(event.get("obtained"), dict):
            self.obtained = event["obtained"]
        elif kind in ("data", "model", "memory"):
            setattr(self, kind, {k: v for k, v in event.items() if k not in ("kind", "t_s")})
        elif kind == "probe" and event.get("state") == "failed":
            self.model = {**self.model, "probe_failure": str(event.get("reason"))}
        elif kind == "window" and is_number(event.get("cost_s")):
            self.windows += 1
            self.window_cost_s += event["cost_s"]
        elif kind == "layers" and event.get("state") == "failed":
            self.layers_failure = str(event.get("reason"))
        elif kind == "checkpoint":
            self._add_checkpoint(event)
        elif kind == "phase":
            self._add_phase(event, start_s)
        elif kind == "steps":
            self._add_steps(event)
        elif kind == "end":
            self.end = dict(event)

    @property
    def failures(self) -> list[str]:
        """What could not be seen of the training, in words; [] where all was."""
        probe = self.model.get("probe_failure")
        steps = [] if probe is None else [f"steps were no longer seen: {probe}"]
        layers = self.layers_failure
        return steps + ([] if layers is None else [f"layers were no longer traced: {layers}"])

    def _add_checkpoint(self, event: Mapping[str, Any]) -> None:
        if event.get("state") == "saved":
            names = ("file", "epoch", "step", "bytes", "cost_s")
            self.checkpoints.append({name: event.get(name) for name in names})
        elif event.get("state") == "failed":
            self.checkpoint_failures.append(f"not saved: {event.get('reason')}")

    def _add_phase(self, event: Mapping[str, Any], start_s: float) -> None:
        name, t_s = event.get("name"), event.get("t_s")
        if not isinstance(name, str) or not is_number(t_s):
            return
        if event.get("edge") == "begin":
            self.phases.append({"name": name, "start_s": round(t_s - start_s, 6), "end_s": None})
            return
        for phase in reversed(self.phases):
            if phase["name"] == name and phase["end_s"] is None:
                phase["end_s"] = round(t_s - start_s, 6)
                return

    def _add_steps(self, event: Mapping[str, Any]) -> None:
        ends, losses = event.get("end_s"), event.get("loss")
        first = event.get("first_step")
        if not isinstance(ends, list) or not isinstance(losses, list) or not isinstance(first, int):
            return
        self.steps = max(self.steps, first + len(ends))
        epoch = event.get("epoch")
        self.epoch = epoch if isinstance(epoch, int) else self.epoch
        if ends:
            self._note_time(ends[-1])
        if losses:
            self.last_loss = losses[-1] if is_number(losses[-1]) else None

    def _note_time(self, value: Any) -> None:
        if is_number(value) and (self.last_s is None or value > self.last_s):
            self.last_s = float(value)


def load_facts(run_dir: Path, start_s: float, rank: int = 0) -> tuple[WorkerFacts, int]:
    """Facts of a process's whole events file, and how many of its lines are damaged."""
    reader = LineReader(path=run_dir / events_file(rank))
    facts = WorkerFacts()
    for event in reader.read_rest():
        facts.add(event, start_s)
    return facts, reader.damaged_lines


def load_other_ranks(run_dir: Path, start_s: float) -> dict[int, WorkerFacts]:
    """Facts of every process but the first, which speaks for the run."""
    return {rank: load_facts(run_dir, start_s, rank)[0] for rank in ranks_of(run_dir)[1:]}


def rank_warnings(others: Mapping[int, WorkerFacts]) -> tuple[str, ...]:
    """What a reader should know of processes beside the first."""
    return tuple(f"rank {rank}: {words}" for rank, f in others.items() for words in f.failures)
