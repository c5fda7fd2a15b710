"""Windows around any backend: when they open, what they record, and that they never do harm."""

import json
from array import array
from pathlib import Path
from typing import Any

import pytest
from worker_specs import make_spec

from trainload_worker.errors import SpecError
from trainload_worker.frameworks.backends import Backend, LayerSummary, StepBatch, watch_layers
from trainload_worker.process.events import EventWriter
from trainload_worker.protocol.spec import parse_spec
from trainload_worker.windows.graph_windows import LayerWindows, module_table
from trainload_worker.windows.labelled_events import LabelledWindow, layer
from trainload_worker.windows.plan import FIRST_STEPS


class Clock:
    """Time that passes only when told."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.late_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class FakeTracer:
    """Keeps a list of what it was asked for; fails where it is told to."""

    def __init__(self, clock: Clock, fails: str = "", fails_at: int = 0) -> None:
        self.calls: list[Any] = []
        self.clock, self.fails, self.fails_at = clock, fails, fails_at
        self.kept = 0
        self.labelled = 0
        self.aftermath_s = 0.0

    def _note(self, what: str, *more: Any) -> None:
        seen = sum(call[0] == what for call in self.calls)
        self.calls.append((what, *more))
        if what == self.fails and seen == self.fails_at:
            raise RuntimeError(f"no {what} today")

    def open(self, folder: str) -> None:
        self._note("open")
        self.clock.now_s += 0.02
        (Path(folder) / "raw").write_bytes(b"x" * 1000)

    def mark(self, step: int) -> None:
        self._note("mark", step)

    def close(self) -> None:
        self._note("close")
        self.kept += 1
        self.clock.late_s += self.aftermath_s

    def label(self, path: str) -> int:
        assert self.kept > 0
        self.kept -= 1
        self.labelled += 1
        Path(path).write_text("half")
        self._note("label", Path(path).name)
        window = LabelledWindow()
        window.mark(1, 0.0)
        window.add("matmul", 1.0, 2.0, 0, layer("output", "forward"))
        return window.save(path)


class LateBackend:
    """Steps of 10 ms, each seen to end two steps later unless waited for."""

    late = 2

    def __init__(self, clock: Clock, tracer: FakeTracer) -> None:
        self.clock, self.tracer = clock, tracer
        self.under_way: list[float] = []
        self.breaks_at = -1
        self.count = 0

    def make_tracer(self) -> FakeTracer:
        return self.tracer

    def run_step(self, _rows: Any) -> None:
        if self.count == self.breaks_at:
            raise MemoryError("out of it")
        self.count += 1
        self.clock.now_s += 0.01 + self.clock.late_s
        self.clock.late_s = 0.0
        self.under_way.append(self.clock.now_s)

    def collect(self, drain: bool) -> StepBatch:
        count = len(self.under_way) - (0 if drain else self.late)
        ended, self.under_way = self.under_way[: max(count, 0)], self.under_way[max(count, 0) :]
        return StepBatch(ended, [1.0] * len(ended))

    def evaluate(self) -> str:
        self.clock.now_s += 5.0
        return "evaluated"

    def save(self) -> str:
        return "saved"


class Training:
    """A training of a fake backend, traced by a fake tracer."""

    def __init__(self, folder: Path, fails: str = "", fails_at: int = 0, budget: float = 0.5):
        layers = {"budget": budget, "folder": str(folder), "file_form": "window-{index}.json"}
        document = make_spec(folder, layers=layers)
        spec = parse_spec(json.dumps(document))
        assert spec.layers is not None
        self.clock = Clock()
        self.tracer = FakeTracer(self.clock, fails, fails_at)
        self.backend = LateBackend(self.clock, self.tracer)
        self.folder = folder
        summaries = [LayerSummary("hidden1.linear", 1216), LayerSummary("output", 170)]
        self.windows = LayerWindows(
            self.backend,  # type: ignore[arg-type]  # what the training needs of one
            spec,
            spec.layers,
            summaries,
            EventWriter(str(folder / "events.jsonl")),
            self.clock,
        )
        self.ends: list[float] = []

    def steps(self, count: int, epoch: bool = False) -> None:
        for _ in range(count):
            self.windows.run_step(array("q", [0]))
            self.ends += self.windows.collect(False).end_s
        if epoch:
            self.ends += self.windows.collect(True).end_s

    def events(self, kind: str) -> list[dict[str, Any]]:
        text = (self.folder / "events.jsonl").read_text()
        found = [json.loads(line) for line in text.splitlines()]
        return [event for event in found if event["kind"] == kind]

    def marks(self) -> list[int]:
        return [call[1] for call in self.tracer.calls if call[0] == "mark"]


def test_windows_open_when_due_and_are_labelled_after_the_training(tmp_path: Path) -> None:
    training = Training(tmp_path)
    training.steps(60, epoch=True)
    assert not training.tracer.labelled, "in the training's time nothing is labelled"
    training.windows.finish()
    # All of the first window's steps, from the one before it on.
    assert training.marks()[:4] == [FIRST_STEPS - 1, FIRST_STEPS, FIRST_STEPS + 1, FIRST_STEPS + 2]
    windows = training.events("window")
    assert len(windows) == training.tracer.labelled >= 2
    first = windows[0]
    assert (first["first_step"], first["last_step"]) == (FIRST_STEPS + 1, FIRST_STEPS + 2)
    assert first["disturbed"] == [FIRST_STEPS - 1, FIRST_STEPS + 3]
    assert first["purpose"] == "time"
    assert first["device"] == "cpu"
    assert first["cost_s"] == pytest.approx(0.02, abs=1e-6)
    assert all((tmp_path / window["file"]).is_file() for window in windows)
    assert not list(tmp_path.glob("*.part"))
    assert not list(tmp_path.glob(".windows-*"))
    (modules,) = training.events("modules")
    assert [(m["layer"], m["class"], m["parameters"]) for m in modules["modules"]] == [
        ("hidden1.linear", "linear", 1216),
        ("hidden1.activation", "leaky_relu", 0),
        ("output", "linear", 170),
    ]
    assert {m["root"] for m in modules["modules"]} == {"mlp"}


def test_a_slower_step_after_a_window_is_part_of_its_cost(tmp_path: Path) -> None:
    training = Training(tmp_path)
    training.tracer.aftermath_s = 0.03
    training.steps(FIRST_STEPS + 3, epoch=True)
    training.windows.evaluate()
    training.steps(4, epoch=True)
    training.windows.finish()
    (window,) = training.events("window")
    assert window["cost_s"] == pytest.approx(0.05, abs=1e-6)


def test_no_step_is_lost_or_told_twice(tmp_path: Path) -> None:
    training = Training(tmp_path)
    training.steps(25, epoch=True)
    training.steps(15, epoch=True)
    training.windows.finish()
    assert len(training.ends) == 40
    assert training.ends == sorted(set(training.ends))


def test_what_lies_between_epochs_belongs_to_no_step(tmp_path: Path) -> None:
    training = Training(tmp_path)
    training.steps(FIRST_STEPS, epoch=True)
    assert training.windows.evaluate() == "evaluated"  # type: ignore[comparison-overlap]
    training.steps(4)
    training.windows.finish()
    assert training.marks()[:3] == [FIRST_STEPS - 1, FIRST_STEPS - 1, FIRST_STEPS]
    (window,) = training.events("window")
    assert window["cost_s"] == pytest.approx(0.02, abs=1e-6), "validation is no cost of tracing"


def test_an_epoch_s_end_keeps_a_window_that_has_a_step_to_use(tmp_path: Path) -> None:
    training = Training(tmp_path)
    training.steps(FIRST_STEPS + 2, epoch=True)
    training.windows.evaluate()
    training.windows.finish()
    (window,) = training.events("window")
    assert window["first_step"] == window["last_step"] == FIRST_STEPS + 1


@pytest.mark.parametrize("fails", ["open", "mark", "close"])
def test_a_failing_tracer_ends_the_windows_and_not_the_training(tmp_path: Path, fails: str) -> None:
    training = Training(tmp_path, fails)
    training.steps(40, epoch=True)
    training.windows.finish()
    assert len(training.ends) == 40
    failed = training.events("layers")
    assert failed[0]["state"] == "failed"
    assert failed[0]["reason"] == f"RuntimeError: no {fails} today"
    assert not training.events("window")
    assert sum(call[0] == "open" for call in training.tracer.calls) == 1
    assert sum(call[0] == "close" for call in training.tracer.calls) == 1


def test_a_tracer_that_fails_later_leaves_the_windows_before(tmp_path: Path) -> None:
    training = Training(tmp_path, "open", fails_at=1)
    training.steps(80, epoch=True)
    training.windows.finish()
    assert len(training.events("window")) == 1
    assert len(training.events("layers")) == 1


def test_a_window_that_cannot_be_labelled_is_reported_and_the_others_kept(tmp_path: Path) -> None:
    training = Training(tmp_path, "label")
    training.steps(60, epoch=True)
    training.windows.finish()
    (failed,) = training.events("layers")
    assert failed["reason"] == "window 0 cannot be read: RuntimeError: no label today"
    assert [window["index"] for window in training.events("window")][:1] == [1]
    assert not (tmp_path / "window-0.json").exists()
    assert not list(tmp_path.glob("*.part"))


def test_an_interrupted_training_keeps_its_windows(tmp_path: Path) -> None:
    training = Training(tmp_path)
    training.backend.breaks_at = FIRST_STEPS + 2
    with pytest.raises(MemoryError):
        training.steps(30)
    training.windows.finish()
    (window,) = training.events("window")
    assert window["last_step"] == FIRST_STEPS + 1


def test_an_open_window_without_a_step_to_use_is_thrown_away(tmp_path: Path) -> None:
    training = Training(tmp_path)
    training.steps(FIRST_STEPS + 1)
    training.windows.finish()
    assert training.tracer.calls[-1] == ("close",)
    assert not training.events("window")
    assert not training.events("layers")


def test_the_backend_s_errors_are_the_training_s(tmp_path: Path) -> None:
    training = Training(tmp_path)
    training.steps(3)

    def collect(_drain: bool) -> StepBatch:
        raise RuntimeError("the device is gone")

    training.backend.collect = collect  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match="the device is gone"):
        training.windows.run_step(array("q", [0]))
    with pytest.raises(RuntimeError, match="the device is gone"):
        training.windows.collect(True)
    assert training.windows.save() == "saved"


def test_a_backend_without_a_tracer_is_refused_in_one_line(tmp_path: Path) -> None:
    layers = {"budget": 0.03, "folder": str(tmp_path), "file_form": "window-{index}.json"}
    spec = parse_spec(json.dumps(make_spec(tmp_path, layers=layers)))
    events = EventWriter(str(tmp_path / "events.jsonl"))
    with pytest.raises(SpecError, match="layers of 'fake' cannot be told apart"):
        watch_layers(_Plain(), spec, [], events)  # type: ignore[arg-type]
    without = parse_spec(json.dumps(make_spec(tmp_path)))
    plain: Backend = _Plain()  # type: ignore[assignment]
    trained, probe = watch_layers(plain, without, [], events)  # type: ignore[arg-type]
    assert trained is plain
    probe.finish()
    assert [row["layer"] for row in module_table(spec, [])] == [  # type: ignore[arg-type]
        "hidden1.linear",
        "hidden1.activation",
        "output",
    ]


class _Plain:
    """A backend that nobody can trace."""
