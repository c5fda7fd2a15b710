"""A step as text: whether it fits, why, what would help, and its counts; computes nothing."""

from __future__ import annotations

from collections.abc import Mapping

from trainload.analyse.peaks import MeasuredSteps
from trainload.columns import render_columns
from trainload.estimate.counts.answer import Counted
from trainload.estimate.counts.bounds import TimeBoundEstimate
from trainload.estimate.memory.answer import TOLD_APART, Alternative, MemoryAnswer
from trainload.estimate.memory.fit import MemoryEstimate, Span
from trainload.estimate.memory.ram import RamEstimate
from trainload.estimate.memory.replay import CATEGORIES, CurvePoint, thin_curve
from trainload.report.counts.terminal import (
    render_bound_verdict,
    render_counts,
    render_traced_counts,
)
from trainload.report.memory.wording import (
    NO_LAYER,
    SPANS,
    all_notes,
    group_layers,
    render_between,
    render_chance,
    render_gain,
    render_part,
    render_peak_place,
    render_verdict,
)
from trainload.report.wording import clean_text
from trainload.units import render_bytes

MOST_LAYERS = 5
"""Layers named among the activations at the peak."""
CURVE_COLUMNS, CURVE_ROWS = 64, 6
_BLOCKS = " ▁▂▃▄▅▆▇█"
_PHASES = {"forward": "forward", "backward": "backward", "update": "update", "other": ""}


def render_step(
    answer: MemoryAnswer,
    head: str,
    *,
    counted: Counted | None,
    time: TimeBoundEstimate | None = None,
    measured: MeasuredSteps | None = None,
    layers: int = 10,
) -> str:
    """The verdict first, why, what would help; then bounds, counts, layers and study R.

    `head` says what is trained and how in one line; `counted` is None for the user's own code,
    whose traced step has counts, and a `time` where a device is named.
    """
    traced = answer.estimate is not None or answer.ram is not None
    if measured is not None:
        parts = [head, "", *measured_lines(measured)]
    elif traced:
        parts = memory_lines(answer, head)
    else:
        assert counted is not None, "without a trace there is a graph"
        parts = [render_bound_verdict(counted.bound, answer.device), head]
        parts.append(f"only a lower bound: {answer.missing}")
    if counted is not None:
        parts += render_counts(counted, answer.device, layers=layers, traced=traced)
    elif answer.step is not None:
        parts += render_traced_counts(answer.step, time, answer.device)
    return "\n".join(parts)


def memory_lines(answer: MemoryAnswer, head: str) -> list[str]:
    """The verdict, what is trained, why, and what would help; nothing where nothing was traced."""
    estimate = answer.estimate
    if answer.ram is not None:
        notes = [f"  {note}" for note in all_notes(answer)]
        return [render_verdict(answer) or "", head, "", *_ram_lines(answer.ram), *notes]
    if estimate is None:
        return []
    lines = [render_verdict(answer) or "", head, "", "why", *_span_lines(estimate)]
    lines += ["", f"at the fullest moment ({render_peak_place(estimate)})", *_part_lines(estimate)]
    lines += ["", *curve_lines(estimate.curve)]
    lines += [f"  {note}" for note in all_notes(answer)]
    if answer.alternatives or answer.largest_batch is not None:
        lines += ["", *_help_lines(answer)]
    return lines


def measured_lines(measured: MeasuredSteps) -> list[str]:
    """What a few real steps took."""
    peak = measured.peak
    rows = [
        ("peak allocated on the GPU", peak.allocated_bytes),
        ("peak reserved on the GPU", peak.reserved_bytes),
        ("peak resident memory", peak.rss_bytes),
        ("its growth by building and training", peak.rss_growth_bytes),
    ]
    width = max(len(name) for name, _ in rows)
    return [
        f"measured on this machine: {measured.outcome}",
        *(f"  {name.ljust(width)}  {render_bytes(size):>9}" for name, size in rows),
        f"  record: {measured.path}",
    ]


def _ram_lines(ram: RamEstimate) -> list[str]:
    rows = [
        ("tensors and copies of them, at the fullest moment", ram.held_bytes),
        ("what malloc keeps resident for them", ram.heap_bytes),
        ("libraries that training is the first to use", ram.libraries_bytes),
    ]
    width = max(len(name) for name, _ in rows)
    return ["why", *(f"  {name.ljust(width)}  {render_bytes(size):>9}" for name, size in rows)]


def _span_lines(estimate: MemoryEstimate) -> list[str]:
    rows = []
    for name, title, words in SPANS:
        span: Span = getattr(estimate, name)
        rows.append((f"  {title}", render_bytes(span.value_bytes), render_between(span), words))
    table = render_columns(("", "", "19 in 20 within", ""), rows, right={1})
    return table.splitlines()


def _part_lines(estimate: MemoryEstimate) -> list[str]:
    peak = estimate.peak
    total = max(peak.total_bytes, 1)
    parts = sorted(
        ((name, peak.by_category[name]) for name in CATEGORIES if peak.by_category[name]),
        key=lambda part: -part[1],
    )
    rows = [
        (
            f"  {render_part(name)}",
            render_bytes(size),
            f"{size / total * 100:.0f} %",
            _bar(size / total),
        )
        for name, size in parts
    ]
    lines = render_columns(("", "", "", ""), rows, right={1, 2}).splitlines()[1:]
    lines += _named("activations by part of the model", group_layers(peak.activations_by_layer))
    return lines + _named("largest activations", peak.activations_by_layer)


def _named(title: str, sizes: Mapping[str, int]) -> list[str]:
    """The largest few in one line; none where there are none."""
    largest = list(sizes.items())[:MOST_LAYERS]
    if not largest:
        return []
    named = ", ".join(
        f"{clean_text(name) or NO_LAYER} {render_bytes(size)}" for name, size in largest
    )
    more = len(sizes) - len(largest)
    return [f"  {title}: {named}" + (f" and {more} more" if more else "")]


def _bar(share: float, width: int = 24) -> str:
    eighths = round(share * width * 8)
    return "█" * (eighths // 8) + (" ▏▎▍▌▋▊▉"[eighths % 8]).strip()


def curve_lines(curve: tuple[CurvePoint, ...]) -> list[str]:
    """What is held over one step, as a small picture."""
    if not curve:
        return []
    points = thin_curve(curve, CURVE_COLUMNS)
    top = max(point.peak_bytes for point in points)
    heights = [round(point.peak_bytes / max(top, 1) * CURVE_ROWS * 8) for point in points]
    lines = ["memory held over one step"]
    for row in range(CURVE_ROWS - 1, -1, -1):
        cells = "".join(_BLOCKS[min(max(height - row * 8, 0), 8)] for height in heights)
        label = render_bytes(top) if row == CURVE_ROWS - 1 else "0" if row == 0 else ""
        lines.append(f"  {label:>9} │{cells.rstrip()}")
    return [*lines, f"  {'':>9} └{_phase_line(points)}"]


def _phase_line(points: tuple[CurvePoint, ...]) -> str:
    """The phases under the picture, each where it begins."""
    line, before = "", None
    for at, point in enumerate(points):
        phase = _PHASES.get(point.phase, "")
        if phase and phase != before and len(line) <= at:
            line = line.ljust(at, "─") + f"{phase} "
            before = phase
    return line.rstrip()


def _help_lines(answer: MemoryAnswer) -> list[str]:
    lines = ["what would help"]
    vain = [one for one in answer.alternatives if one.helps is False]
    rows = [_help_row(one) for one in answer.alternatives if one.helps is not False]
    titles = ("  ", "needs", "less by", "then", "")
    if rows:
        lines += render_columns(titles, rows, right={1, 2}).splitlines()
    largest = answer.largest_batch
    if largest is not None:
        said = "none" if largest.batch_size is None else f"{largest.batch_size:,}"
        lines.append(f"  largest batch that fits: {said} ({largest.note})")
    if vain:
        lines += ["what would not help", *map(_vain_line, vain)]
    return lines


def _vain_line(one: Alternative) -> str:
    gain, needed = one.gain_bytes or 0, one.needed_bytes or 0
    said = f"needs {render_gain(gain)}" if gain < -TOLD_APART * needed else "needs as much"
    return f"  {one.name}: {said}" + (f"; {one.note}" if one.note else "")


def _help_row(one: Alternative) -> tuple[str, ...]:
    chance = "" if one.verdict != "too close to call" else f" ({render_chance(one.running_out)})"
    return (
        f"  {one.name}",
        render_bytes(one.needed_bytes),
        render_gain(one.gain_bytes),
        f"{one.verdict}{chance}",
        one.option or one.note or "",
    )
