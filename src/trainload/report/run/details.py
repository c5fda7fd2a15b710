"""The last section of a run: everything about it that has no section of its own."""

from trainload.report.markup import escape, render_details, render_pairs, render_table
from trainload.report.run.headline import time_rows
from trainload.report.run.marks import mark_rows
from trainload.report.run.rows import (
    job_rows,
    layer_rows,
    machine_rows,
    meter_rows,
    quality_rows,
    rank_rows,
    setting_rows,
    software_rows,
    workload_rows,
)
from trainload.report.run.view import RunView
from trainload.report.wording import render_sampler, render_sentence


def render_details_section(view: RunView) -> str:
    """Tables that unfold: all times, machine, setting, software, workload, layers, meters."""
    manifest, summary = view.manifest, view.summary
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
        render_details("Marks", render_pairs(mark_rows(manifest, 1000))) if manifest.marks else "",
        render_details(
            "Machine", render_pairs([*machine_rows(manifest.machine), *job_rows(manifest.job)])
        ),
        render_details(
            "Setting",
            render_pairs([*setting_rows(manifest.setting), *rank_rows(manifest.ranks)]),
        ),
        render_details("Software", render_pairs(software_rows(manifest.software))),
        render_details("Workload", render_pairs(workload_rows(manifest))),
        render_details("Layers", layer_table) if layers else "",
        render_details(
            "Meters", meters + f"<p>{escape(render_sentence(render_sampler(manifest.sampler)))}</p>"
        ),
    )
    return f'<section class="environment"><h3>Details</h3>{"".join(parts)}</section>'
