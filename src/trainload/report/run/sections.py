"""The sections of one run in the HTML report; pieces of HTML from rows of text."""

from collections.abc import Mapping, Sequence
from typing import Any

from trainload.analyse import RunSummary
from trainload.analyse.attribution.types import RunLayers
from trainload.record import Manifest, Run
from trainload.report.layers.html import render_layers_section
from trainload.report.markup import escape, render_details, render_log, render_pairs, render_table
from trainload.report.run.plots import Figure, RunPlots, series_names
from trainload.report.run.rows import (
    counter_rows,
    energy_rows,
    gpu_load,
    layer_rows,
    load_rows,
    machine_rows,
    meter_rows,
    quality_rows,
    render_coverage,
    render_rate,
    render_warmup,
    setting_rows,
    software_rows,
    time_rows,
    title_of,
    workload_rows,
)
from trainload.report.wording import render_energy, render_outcome, render_overhead, render_sampler
from trainload.units import render_bytes, render_percent, render_seconds
from trainload.workload import RecordedScript, RecordedWatch

_BADGES: Mapping[str | None, str] = {"completed": "good", None: "open"}
COLOURS = 8


def render_badge(outcome: str | None) -> str:
    """The outcome as a badge: its colour repeats what the word says."""
    kind = _BADGES.get(outcome, "bad")
    return f'<span class="badge {kind}">{escape(render_outcome(outcome))}</span>'


def render_run(
    run: Run,
    summary: RunSummary,
    plots: RunPlots,
    anchor: str,
    layers: RunLayers | None = None,
) -> str:
    """All sections of one run."""
    manifest = run.manifest
    return "\n".join(
        (
            f'<article id="{anchor}" aria-labelledby="{anchor}-title">',
            _render_head(manifest, summary, anchor),
            _render_cards(summary),
            f'<p class="overhead">{escape(_sentence(render_overhead(manifest.overhead)))}</p>',
            _render_log_tail(run, summary),
            _render_layers(layers, plots, anchor),
            _render_plots("Training", plots, plots.training, 0, summary, manifest, anchor),
            _render_plots(
                "Loads", plots, plots.loads, len(plots.training), summary, manifest, anchor
            ),
            _render_energy(summary, manifest),
            _render_environment(manifest, summary),
            "</article>",
        )
    )


def _render_layers(layers: RunLayers | None, plots: RunPlots, anchor: str) -> str:
    if layers is None:
        return ""
    legends = [series_names(figure) for figure in plots.data["figures"]]
    return render_layers_section(layers, plots.layers, anchor, legends)


def cards_of(summary: RunSummary) -> list[tuple[str, str, str]]:
    """The first figures to look at: label, figure, origin."""
    step, best = summary.step_time, summary.best
    cards = [
        ("Duration", render_seconds(summary.duration_s), "monotonic clock"),
        ("Training", render_seconds(summary.training_s), f"{summary.steps:,} steps, measured"),
        (
            "Step, median",
            render_seconds(step.median_s),
            f"measured, {render_warmup(summary)}",
        ),
    ]
    if summary.examples_per_s is not None:
        rate = render_rate(summary.examples_per_s).removesuffix(" examples/s")
        cards.append(("Throughput", rate, "examples per second after warm-up, measured"))
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
    if summary.peak_rss_bytes is not None:
        cards.append(("Peak memory", render_bytes(summary.peak_rss_bytes), "resident, whole run"))
    return cards


def _covered(between_s: float | None, summary: RunSummary) -> str:
    coverage = render_coverage(between_s, summary)
    return f"{coverage} of {summary.covered}" if coverage else f"over {summary.covered}"


def _render_head(manifest: Manifest, summary: RunSummary, anchor: str) -> str:
    reason = ""
    if summary.reason and summary.outcome != "completed":
        reason = f'<p class="reason">{escape(_sentence(summary.reason))}</p>'
    warnings = ""
    if summary.warnings:
        items = "".join(f"<li>{escape(_sentence(w))}</li>" for w in summary.warnings)
        warnings = (
            f'<section class="warnings" aria-label="Warnings"><h3>Warnings</h3>'
            f"<ul>{items}</ul></section>"
        )
    return (
        f'<header><h2 id="{anchor}-title">{escape(title_of(manifest))} '
        f"{render_badge(summary.outcome)}</h2>"
        f'<p class="quiet">{escape(summary.run_id)} · started {escape(manifest.created)}</p>'
        f"{reason}</header>{warnings}"
    )


def _render_cards(summary: RunSummary) -> str:
    items = "".join(
        f"<div><dt>{escape(label)}</dt><dd>{escape(figure)}<small>{escape(origin)}</small></dd></div>"
        for label, figure, origin in cards_of(summary)
    )
    return f'<dl class="cards">{items}</dl>'


def _render_log_tail(run: Run, summary: RunSummary) -> str:
    if summary.outcome in ("completed", None):
        return ""
    tail = run.worker_log_tail()
    if not tail.strip():
        return '<p class="quiet">The training process printed nothing.</p>'
    return render_details(
        "The last lines the training process printed",
        f'<pre tabindex="0">{render_log(tail)}</pre>',
    )


def _render_plots(
    title: str,
    plots: RunPlots,
    figures: Sequence[Figure],
    first: int,
    summary: RunSummary,
    manifest: Manifest,
    anchor: str,
) -> str:
    if not figures:
        nothing = "No sample was taken." if title == "Loads" else _no_training(summary, manifest)
        return f'<section><h3>{title}</h3><p class="quiet">{nothing}</p></section>'
    drawn = "".join(
        _render_figure(figure, plots.data["figures"][at], f"{anchor}-plot-{at}", summary, manifest)
        for at, figure in enumerate(figures, start=first)
    )
    key = ""
    if plots.bands:
        names = "".join(
            f'<li><span class="band b{at % 4}"></span>{escape(name)}</li>'
            for at, name in enumerate(plots.bands)
        )
        key = f'<ul class="key" aria-label="Shaded stretches of time">{names}</ul>'
    return f'<section><h3>{title}</h3>{key}<div class="plots">{drawn}</div></section>'


def _no_training(summary: RunSummary, manifest: Manifest) -> str:
    """Why no plot of the training is there."""
    if not summary.steps:
        return "No step was finished."
    if isinstance(manifest.workload, RecordedScript):
        return "Losses and scores are known to the script alone."
    if isinstance(manifest.workload, RecordedWatch):
        return "No loss was told."
    return "No loss was finite."


def _render_figure(
    figure: Figure, data: Mapping[str, Any], name: str, summary: RunSummary, manifest: Manifest
) -> str:
    if figure.note:
        canvas = f'<p class="quiet">{escape(figure.note)}</p>'
    else:
        legend = "".join(
            f'<label><input type="checkbox" checked data-plot="{name}" data-series="{at}">'
            f'<span class="swatch s{at % COLOURS}{" dotted" if at >= COLOURS else ""}"></span>'
            f"<span>{escape(series)}</span></label>"
            for at, series in enumerate(series_names(data))
        )
        canvas = (
            f'<div class="canvas" id="{name}" role="img" aria-label="{escape(figure.title)}"></div>'
            f'<div class="legend" role="group" aria-label="Series of {escape(figure.title)}">'
            f"{legend}</div>"
        )
    rows = [
        (r.column, r.min, r.mean, r.max, r.readings, r.provenance)
        for r in load_rows(summary, manifest, figure.columns)
    ]
    table = ""
    if rows:
        titles = ("quantity", "min", "mean", "max", "readings", "provenance")
        label = f"Figures of {figure.title}"
        table = render_details(
            f"Figures over {summary.covered}",
            render_table(titles, rows, label=label, numbers=(1, 2, 3, 4)),
        )
    return f"<figure><h4>{escape(figure.title)}</h4>{canvas}{table}</figure>"


def _render_energy(summary: RunSummary, manifest: Manifest) -> str:
    energy, counters = energy_rows(summary), counter_rows(summary, manifest)
    if energy:
        content = render_table(
            ("source", "energy", "mean power", "provenance"),
            energy,
            label="Energy by source",
            numbers=(1, 2),
        )
        content += '<p class="quiet">Sources may overlap, so they are not added up.</p>'
    else:
        content = '<p class="quiet">No meter of energy or power was available; see the meters.</p>'
    if counters:
        content += render_details(
            f"Other amounts over {summary.covered}",
            render_table(
                ("counter", "amount", "provenance"), counters, label="Counters", numbers=(1,)
            ),
        )
    return f"<section><h3>Energy over {summary.covered}</h3>{content}</section>"


def _render_environment(manifest: Manifest, summary: RunSummary) -> str:
    layers = layer_rows(manifest)
    layer_table = render_table(
        ("layer", "kind", "output shape", "attributes"), layers, label="Layers"
    )
    meters = render_table(
        ("meter", "column", "provenance", "source", "refresh", "reason"),
        meter_rows(manifest.meters, summary),
        label="Meters",
    )
    parts = (
        render_details(
            "All times and scores",
            render_pairs([*time_rows(summary), *quality_rows(summary, manifest)]),
        ),
        render_details("Machine", render_pairs(machine_rows(manifest.machine))),
        render_details("Setting", render_pairs(setting_rows(manifest.setting))),
        render_details("Software", render_pairs(software_rows(manifest.software))),
        render_details("Workload", render_pairs(workload_rows(manifest))),
        render_details("Layers", layer_table) if layers else "",
        render_details(
            "Meters", meters + f"<p>{escape(_sentence(render_sampler(manifest.sampler)))}</p>"
        ),
    )
    return f'<section class="environment"><h3>Details</h3>{"".join(parts)}</section>'


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '!', '?')) else '.'}"
