"""The words of a live view, the same on the screen and on the page; computes nothing."""

from __future__ import annotations

from trainload.analyse.live import LiveChart, LiveView
from trainload.report.wording import clean_text, render_name, render_outcome
from trainload.units import MISSING, render_bytes, render_percent, render_seconds, unit_of

TITLES = {
    "loss": "Loss",
    "throughput": "Throughput",
    "load": "Loads",
    "memory": "Memory",
    "gpu_memory": "GPU memory",
    "power": "Power",
}
_STANDINGS = {"running": "running", "ended": "ended", "abandoned": "its driver is gone"}


def render_figure(column: str, value: float | None) -> str:
    """A value in its column's unit, short enough for an axis; a dash when missing."""
    if value is None:
        return MISSING
    unit = unit_of(column)
    if unit == "bytes":
        return render_bytes(value)
    if unit == "fraction":
        return render_percent(value, 0)
    if unit == "1/s":
        return f"{value:,.0f}/s" if abs(value) >= 1000 else f"{value:.3g}/s"
    return f"{value:.3g} {unit}" if unit else f"{value:.4g}"


def render_legend(chart: LiveChart) -> list[str]:
    """Name and latest value of each series; a limit stands beside the first that it is of."""
    labels, told = [], set()
    for one in chart.series:
        name = "steps" if one.column == "steps_per_s" else render_name(one.column)
        label = f"{name} {render_figure(one.column, one.latest)}"
        if one.limit is not None and one.limit not in told:
            told.add(one.limit)
            label += f" of {render_figure(one.column, one.limit)}"
        labels.append(label)
    return labels


def render_empty(chart: LiveChart) -> str:
    """What stands in the place of a chart without a line."""
    return clean_text(chart.missing) if chart.missing else "nothing yet"


def render_title(view: LiveView) -> str:
    """Which run it is."""
    parts = [view.run_id or view.model or "run", view.framework, view.setting]
    return " · ".join(clean_text(part) for part in parts if part)


def render_standing(view: LiveView) -> str:
    """Whether it goes on, or how it ended."""
    if view.outcome is None:
        phase = f": {clean_text(view.phase)}" if view.phase and view.standing == "running" else ""
        return _STANDINGS[view.standing] + phase
    reason = f": {clean_text(view.reason)}" if view.reason else ""
    return render_outcome(view.outcome) + reason


def render_figures(view: LiveView) -> tuple[tuple[str, str], ...]:
    """The figures of the head, a name and a value each."""
    done = f"{view.step:,}"
    if view.total_steps:
        share = min(1.0, view.step / view.total_steps)
        done += f" of {view.total_steps:,} ({render_percent(share, 0)})"
    # Of a program's epochs nothing is known.
    epoch = MISSING
    if view.epochs is not None and view.epoch is not None:
        epoch = f"{view.epoch + 1} of {view.epochs}"
    return (
        ("epoch", epoch),
        ("step", done),
        ("elapsed", render_seconds(view.elapsed_s)),
        ("left", render_seconds(view.remaining_s)),
        ("steps", render_figure("steps_per_s", view.steps_per_s)),
        ("examples", render_figure("examples_per_s", view.examples_per_s)),
        ("loss", render_figure("loss", view.loss)),
        ("accuracy", render_percent(view.accuracy)),
    )


def render_notes(view: LiveView, most: int = 6) -> tuple[str, ...]:
    """Marks and what a viewer should know, the newest marks first."""
    marks = [
        f"mark at {render_seconds(mark.t_s)}{f': {clean_text(mark.words)}' if mark.words else ''}"
        for mark in reversed(view.marks)
    ]
    notes = [clean_text(note) for note in view.notes]
    return tuple([*notes, *marks][:most])
