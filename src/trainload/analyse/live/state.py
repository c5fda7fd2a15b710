"""All that is known of a run so far, of bounded size, gathered look by look; draws nothing.

Values may come from a stranger: what has no sound time or number is left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from trainload.analyse.live.channels import METERED, choose_columns, explain_absence, find_limit
from trainload.analyse.live.curve import TimeCurve
from trainload.analyse.live.view import LiveChart, LiveLayers, LiveMark, LiveSeries, LiveView
from trainload.record import Manifest
from trainload.record.follow import Look, Standing
from trainload.workload import RecordedGraph
from trainload_worker.protocol import events as said
from trainload_worker.protocol.marks import Marked
from trainload_worker.protocol.windows import LayersFailed, ModuleTable, WindowSaved

MOST_MARKS = 50
"""Shown; the record keeps more."""
MOST_PHASES = 16
TOLD = ("loss", "validation_loss", "steps_per_s")
"""Curves that the training itself tells."""


class LiveState:
    """A run so far; `take` looks, then ask for the `view`."""

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest
        self.standing: Standing = "ended" if manifest.outcome is not None else "running"
        self.curves: dict[str, TimeCurve] = {"loss": TimeCurve(), "steps_per_s": TimeCurve()}
        self.window: WindowSaved | None = None
        """The newest whose time is traced."""
        self.modules: ModuleTable | None = None
        self.layers: LiveLayers | None = None
        self.works_out_layers = False
        """Whether somebody works out the layers of a window now."""
        self._chosen: dict[str, tuple[str, ...]] = {}
        self._positions: dict[str, int] = {}
        self._columns: tuple[str, ...] = ()
        self._phases: list[str] = []
        self._epoch: int | None = None
        self._steps = 0
        self._total_steps: int | None = manifest.data.total_steps
        self._first_s: float | None = None
        self._stepped_s: float | None = None
        self._last_s: float | None = None
        self._examples: list[float] = [0.0, 0.0]
        self._accuracy: float | None = None
        self._windows = 0
        self._failures: dict[str, str] = {}
        self._marks: list[LiveMark] = []
        self._notes: tuple[str, ...] = ()

    def take(self, look: Look) -> None:
        """Take what one look found."""
        self.manifest, self.standing = look.manifest, look.standing
        self._notes = look.notes
        for event in look.events:
            self._take_event(event)
        for part in look.samples:
            self.take_samples(part.columns, part.rows)

    def take_samples(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Rows of metered values in order of the columns; `t_s` on the monotonic clock."""
        if tuple(columns) != self._columns:
            self._columns = tuple(columns)
            self._chosen = choose_columns(columns)
            drawn = [name for names in self._chosen.values() for name in names]
            self._positions = {name: columns.index(name) for name in drawn}
            kept = {*TOLD, *drawn}
            self.curves = {name: one for name, one in self.curves.items() if name in kept}
        origin_s = self.manifest.origin_s
        for row in rows:
            self._note_time(row[1])
            for name, position in self._positions.items():
                if row[position] is not None:
                    self.add(name, row[1] - origin_s, row[position])

    def add(self, column: str, t_s: float, value: float | None) -> None:
        """A value of a curve at a time since the run's start; one that is no number is left out."""
        if value is not None and math.isfinite(value):
            self.curves.setdefault(column, TimeCurve()).add(t_s, value)

    def add_steps(self, epoch: int, until: int, start_s: float, end_s: float) -> None:
        """Steps up to a number are done; times are seconds since the run's start."""
        self._steps, self._epoch = max(self._steps, until), epoch
        self._first_s = start_s if self._first_s is None else self._first_s
        self._stepped_s = end_s
        self._note_time(end_s + self.manifest.origin_s)

    def add_mark(self, t_s: float, words: str) -> None:
        """A marked moment; of many the last ones are kept."""
        self._marks = [*self._marks, LiveMark(t_s=t_s, words=words)][-MOST_MARKS:]

    def note(self, words: str) -> None:
        """Something that a viewer should know; of one kind of trouble the last is kept."""
        self._failures["view"] = words

    def add_validation(self, t_s: float, scores: Mapping[str, Any]) -> None:
        """The scores after an epoch."""
        loss, accuracy = (_number(scores.get(name)) for name in ("loss", "accuracy"))
        self.add("validation_loss", t_s, loss)
        self._accuracy = accuracy if accuracy is not None else self._accuracy

    def _take_event(self, event: said.Event) -> None:
        origin_s = self.manifest.origin_s
        if isinstance(event, said.StepsDone):
            self._take_steps(event, origin_s)
        elif isinstance(event, said.DataReady):
            self._total_steps = event.total_steps
        elif isinstance(event, said.PhaseEdge):
            self._take_phase(event)
        elif isinstance(event, said.EpochDone):
            end_s = event.validation_end_s or event.end_s
            self.add_validation(end_s - origin_s, event.validation)
        elif isinstance(event, WindowSaved):
            self._windows += 1
            if event.purpose == "time":
                self.window = event
        elif isinstance(event, ModuleTable):
            self.modules = event
        elif isinstance(event, Marked):
            self.add_mark(event.t_s - origin_s, event.words)
        elif isinstance(event, LayersFailed | said.ProbeFailed):
            what = "steps" if isinstance(event, said.ProbeFailed) else "layers"
            self._failures[what] = f"{what} are no longer seen: {event.reason}"

    def _take_steps(self, event: said.StepsDone, origin_s: float) -> None:
        count = len(event.end_s)
        if not count or len(event.loss) != count:
            return
        start_s, end_s = event.start_s - origin_s, event.end_s[-1] - origin_s
        self.add_steps(event.epoch, event.first_step + count, start_s, end_s)
        if end_s > start_s:
            self.add("steps_per_s", (start_s + end_s) / 2, count / (end_s - start_s))
            examples = [one for one in event.examples if one is not None]
            if len(examples) == count:
                self._examples[0] += sum(examples)
                self._examples[1] += end_s - start_s
        for at_s, loss in zip(event.end_s, event.loss, strict=True):
            self.add("loss", at_s - origin_s, loss)

    def _take_phase(self, event: said.PhaseEdge) -> None:
        if event.edge == "begin":
            self._phases = [*self._phases, event.name][-MOST_PHASES:]
        elif event.name in self._phases:
            del self._phases[len(self._phases) - 1 - self._phases[::-1].index(event.name)]

    def _note_time(self, t_s: float) -> None:
        if self._last_s is None or t_s > self._last_s:
            self._last_s = t_s

    def view(self, now_s: float) -> LiveView:
        """The run at a moment of the monotonic clock."""
        manifest = self.manifest
        workload, resolved = manifest.workload, manifest.setting.resolved
        training = workload.training if isinstance(workload, RecordedGraph) else None
        rate = self._rate()
        left = (self._total_steps or 0) - self._steps
        running = self.standing == "running"
        return LiveView(
            run_id=manifest.run_id,
            model=manifest.model_name,
            framework=manifest.framework,
            setting=None if resolved is None else resolved.text,
            standing=self.standing,
            outcome=manifest.outcome,
            reason=manifest.outcome_reason,
            phase=self._phases[-1] if self._phases else None,
            epoch=self._epoch,
            epochs=None if training is None else training.epochs,
            step=self._steps,
            total_steps=self._total_steps,
            elapsed_s=self._elapsed_s(now_s),
            remaining_s=left / rate if running and left > 0 and rate else None,
            steps_per_s=rate,
            examples_per_s=self._examples_per_s(rate),
            loss=self.curves["loss"].latest,
            accuracy=self._accuracy,
            charts=self._charts(),
            layers=self.layers,
            layers_note=None if self.layers is not None else self._layers_note(),
            windows=self._windows,
            traces=running and manifest.layers is not None and "layers" not in self._failures,
            marks=tuple(self._marks),
            notes=(*self._notes, *self._failures.values()),
        )

    def _rate(self) -> float | None:
        """Steps a second over the whole training so far; None before the first."""
        if self._first_s is None or self._stepped_s is None:
            return None
        trained_s = self._stepped_s - self._first_s
        return self._steps / trained_s if trained_s > 0 else None

    def _examples_per_s(self, rate: float | None) -> float | None:
        told, over_s = self._examples
        if over_s > 0:
            return told / over_s
        batch_size = self.manifest.batch_size
        return None if rate is None or batch_size is None else rate * batch_size

    def _elapsed_s(self, now_s: float) -> float | None:
        clock = self.manifest.clock
        if clock is None:
            return None
        last_s = self._last_s
        end_s = now_s if self.standing == "running" else clock.end_s or last_s
        # The clock of another machine, or of this one before it was started anew.
        if end_s is not None and last_s is not None and not 0 <= end_s - last_s < 86400:
            end_s = last_s
        return None if end_s is None or end_s < clock.start_s else end_s - clock.start_s

    def _charts(self) -> tuple[LiveChart, ...]:
        ended = None if self.standing == "running" else "the training told none"
        losses = self._series(("loss", "validation_loss"))
        told = LiveChart(name="loss", series=losses, missing=ended)
        speed = LiveChart(name="throughput", series=self._series(("steps_per_s",)), missing=ended)
        return told, speed, *(self._metered(name) for name in METERED)

    def _metered(self, name: str) -> LiveChart:
        columns = self._chosen.get(name, ())
        return LiveChart(
            name=name,
            series=self._series(columns),
            top=1.0 if name == "load" else None,
            missing=None if columns else explain_absence(name, self.manifest),
        )

    def _series(self, columns: Sequence[str]) -> tuple[LiveSeries, ...]:
        return tuple(
            LiveSeries(
                column=name,
                points=self.curves[name].points(),
                latest=self.curves[name].latest,
                limit=find_limit(name, self.manifest),
            )
            for name in columns
            if name in self.curves
        )

    def _layers_note(self) -> str:
        if self.manifest.layers is None:
            return "not traced in this run; start one with --layers"
        if self.works_out_layers:
            return "a window is traced; its layers are being worked out"
        nothing = "no window is traced yet" if self.standing == "running" else "none were traced"
        return self._failures.get("layers", nothing)


def _number(value: Any) -> float | None:
    good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if good else None
