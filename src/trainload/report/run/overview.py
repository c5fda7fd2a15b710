"""The first sections of a run: how it ended, its first figures, what it printed at the end."""

from collections.abc import Mapping

from trainload.analyse import RunSummary
from trainload.report.markup import escape, render_details, render_log
from trainload.report.run.headline import render_rate, render_warmup
from trainload.report.run.rows import (
    gpu_load,
    render_coverage,
    title_of,
)
from trainload.report.run.view import RunView
from trainload.report.wording import render_energy, render_outcome, render_overhead, render_sentence
from trainload.units import MISSING, render_bytes, render_percent, render_seconds

_BADGES: Mapping[str | None, str] = {"completed": "good", None: "open"}


def render_head(view: RunView) -> str:
    """Title, outcome with its reason, and warnings."""
    manifest, summary, anchor = view.manifest, view.summary, view.anchor
    reason = ""
    if summary.reason and summary.outcome != "completed":
        reason = f'<p class="reason">{escape(render_sentence(summary.reason))}</p>'
    warnings = ""
    if summary.warnings:
        items = "".join(f"<li>{escape(render_sentence(w))}</li>" for w in summary.warnings)
        warnings = f'<div class="warnings"><h3>Warnings</h3><ul>{items}</ul></div>'
    return (
        f'<header><h2 id="{anchor}-title">{escape(title_of(manifest))} '
        f"{_render_badge(summary.outcome)}</h2>"
        f'<p class="quiet">{escape(summary.run_id)} · started {escape(manifest.created)}</p>'
        f"{reason}</header>{warnings}"
    )


def _render_badge(outcome: str | None) -> str:
    """The outcome as a badge: its colour repeats what the word says."""
    kind = _BADGES.get(outcome, "bad")
    return f'<span class="badge {kind}">{escape(render_outcome(outcome))}</span>'


def render_cards(view: RunView) -> str:
    """The first figures, and what the instrument itself cost."""
    items = "".join(
        f"<div><dt>{escape(label)}</dt><dd>{escape(figure)}<small>{escape(origin)}</small></dd></div>"
        for label, figure, origin in cards_of(view.summary)
    )
    overhead = escape(render_sentence(render_overhead(view.manifest.overhead)))
    return f'<dl class="cards">{items}</dl>\n<p class="overhead">{overhead}</p>'


def cards_of(summary: RunSummary) -> list[tuple[str, str, str]]:
    """The first figures to look at: label, figure, origin."""
    step, best = summary.step_time, summary.best
    cards = [
        ("Duration", render_seconds(summary.duration_s), "monotonic clock"),
        ("Training", render_seconds(summary.training_s), f"{summary.steps:,} steps, measured")
        if summary.steps
        else ("Training", MISSING, "no step was seen"),
        (
            "Step time",
            render_seconds(step.median_s),
            f"median, measured, {render_warmup(summary)}",
        ),
    ]
    if summary.examples_per_s is not None:
        rate = render_rate(summary.examples_per_s).removesuffix(" examples/s")
        cards.append(("Throughput", rate, "examples per second of the median step, measured"))
    if summary.tokens_per_s is not None:
        rate = render_rate(summary.tokens_per_s, "").strip()
        cards.append(("Tokens", rate, "tokens per second of the median step, measured"))
    if summary.final is None and summary.last_loss is not None:
        cards.append(("Loss", f"{summary.last_loss:.4g}", "of the last step"))
    accuracy = best.validation.get("accuracy") if best else None
    if best is not None and accuracy is not None:
        cards.append(
            ("Best accuracy", render_percent(accuracy), f"validation, epoch {best.epoch + 1}")
        )
    gpu = gpu_load(summary)
    for label, column in (
        ("CPU load of the run", summary.columns.get("run_cpu_load_fraction")),
        ("CPU load of the host", summary.columns.get("host_cpu_load_fraction")),
        (f"GPU {gpu[0]} load", gpu[1]) if gpu else ("", None),
    ):
        if column is not None:
            cards.append((label, render_percent(column.mean), f"mean over {summary.covered}"))
    cards += [
        (
            f"Energy, {s.source}",
            render_energy(s.energy_j, watt_hours=False),
            f"{s.provenance}, {_covered(s.between_s, summary)}",
        )
        for s in summary.energy[:2]
    ]
    return cards + _memory_cards(summary)


def _memory_cards(summary: RunSummary) -> list[tuple[str, str, str]]:
    """The GPU's peak first where one was used."""
    peaks, cards = summary.peaks, []
    if peaks.gpu_allocated_bytes is not None:
        origin = f"allocated by torch, {render_bytes(peaks.gpu_reserved_bytes)} reserved"
        cards.append(("Peak GPU memory", render_bytes(peaks.gpu_allocated_bytes), origin))
    if peaks.gpu_process_bytes is not None:
        size = render_bytes(peaks.gpu_process_bytes)
        cards.append(("Peak GPU memory held", size, "by the run's processes, as the driver tells"))
    if peaks.host_bytes is not None:
        origin = {"pss": "proportional (PSS)", "rss": "resident"}.get(
            peaks.host_source or "", "sum of resident sizes"
        )
        cards.append(("Peak host memory", render_bytes(peaks.host_bytes), f"{origin}, whole run"))
    return cards


def _covered(between_s: float | None, summary: RunSummary) -> str:
    coverage = render_coverage(between_s, summary)
    return f"{coverage} of {summary.covered}" if coverage else f"over {summary.covered}"


def render_log_tail(view: RunView) -> str:
    """The last lines of `worker.log`; empty for a run that completed or still runs."""
    if view.summary.outcome in ("completed", None):
        return ""
    tail = view.run.worker_log_tail()
    if not tail.strip():
        return '<p class="quiet">The training process printed nothing.</p>'
    return render_details(
        "The last lines the training process printed",
        render_log(tail),
    )
