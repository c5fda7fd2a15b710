"""What a live screen or page shows of a run at one moment: frozen values, made by others."""

from __future__ import annotations

from dataclasses import dataclass

from trainload.record.follow import Standing
from trainload_worker.protocol.outcomes import Outcome


@dataclass(frozen=True, kw_only=True)
class LiveSeries:
    """One line of a chart; times are seconds since the run's start."""

    column: str
    """What it is, with its unit as suffix; as meters and tables call it."""
    points: tuple[tuple[float, float], ...]
    latest: float | None
    limit: float | None = None
    """What it may not pass, in its unit; None where nothing limits it."""


@dataclass(frozen=True, kw_only=True)
class LiveChart:
    """A chart of series that share a unit."""

    name: str
    """loss, throughput, load, memory, gpu_memory or power."""
    series: tuple[LiveSeries, ...]
    top: float | None = None
    """Where its axis ends; None: with the highest value."""
    missing: str | None = None
    """Why there is nothing to draw, and will not be."""


@dataclass(frozen=True, kw_only=True)
class LayerShare:
    """A layer without those inside it, in one step of the newest traced window."""

    layer: str
    class_name: str | None
    time_s: float
    fraction: float
    """Of the step."""


@dataclass(frozen=True, kw_only=True)
class LiveLayers:
    """The costliest layers of one traced window, times as traced."""

    window: int
    step_s: float
    parts: tuple[tuple[str, float], ...]
    """Seconds of a step by part, the largest first."""
    layers: tuple[LayerShare, ...]


@dataclass(frozen=True, kw_only=True)
class LiveMark:
    """A moment that somebody marked, in seconds since the run's start."""

    t_s: float
    words: str


@dataclass(frozen=True, kw_only=True)
class LiveView:
    """A run at one moment; what is not known (yet) is None."""

    run_id: str | None
    model: str | None
    framework: str | None
    setting: str | None
    standing: Standing
    outcome: Outcome | None
    reason: str | None
    phase: str | None
    epoch: int | None
    """The one that is trained now, from 0."""
    epochs: int | None
    step: int
    total_steps: int | None
    elapsed_s: float | None
    remaining_s: float | None
    steps_per_s: float | None
    """Over the whole training so far, validation included."""
    examples_per_s: float | None
    loss: float | None
    accuracy: float | None
    """Of the last validation."""
    charts: tuple[LiveChart, ...]
    layers: LiveLayers | None
    layers_note: str | None
    """Why there are no layers, or none yet."""
    windows: int
    traces: bool
    """Whether a window can be asked for."""
    marks: tuple[LiveMark, ...]
    notes: tuple[str, ...]
