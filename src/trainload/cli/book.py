"""`trainload book`: the reference book of what trainings took."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from trainload.analyse.book import Book, BookEntry

EPILOG = """\b
Examples:
  trainload book
  trainload book runs studies --out site
  trainload book runs prediction.json --json
  trainload book runs/mlp-20261115-044612-50f856 --contribute --out contribution"""
_SHOWN = (
    "peak_device_bytes",
    "peak_reserved_bytes",
    "peak_host_bytes",
    "step_s",
    "examples_per_s",
    "validation_accuracy",
)


def book_verb(
    places: list[Path] = typer.Argument(
        None,
        metavar="[FOLDER]…",
        help="Folders of runs, tables of the book, predictions as JSON; default what is shipped.",
    ),
    out: Path | None = typer.Option(None, metavar="DIR", help="Write the site and tables there."),
    contribute: bool = typer.Option(
        False, "--contribute", help="Write the named runs, stripped of names and paths, to --out."
    ),
    hide: list[str] = typer.Option([], metavar="WORD", help="Strip this word too; repeatable."),
    as_json: bool = typer.Option(False, "--json", help="Print the entries as JSON."),
) -> None:
    """Build the reference book from any store of runs: a searchable site and tables.

    Model × framework × device × batch × precision: memory, time, throughput, energy, accuracy,
    with origin, versions and repetitions. Equal runs are repetitions of one entry.
    """
    from trainload.api.booking import book
    from trainload.cli.printing import json_text
    from trainload.errors import UsageError

    named = list(places or ())
    if contribute:
        _contribute(named, out, hide, as_json=as_json)
        return
    if hide:
        raise UsageError("--hide goes with --contribute")
    found = book(named, out=out)
    if as_json:
        typer.echo(json_text(_document(found)))
        return
    typer.echo(_render(found))
    if out is not None:
        typer.echo(f"\n{out / 'index.html'}")


def _contribute(runs: list[Path], out: Path | None, hide: list[str], *, as_json: bool) -> None:
    from trainload.api.booking import contribute
    from trainload.cli.printing import json_text
    from trainload.errors import UsageError

    if out is None:
        raise UsageError("--contribute needs --out DIR, where the stripped runs go")
    done = contribute(runs, out, hide=hide)
    if as_json:
        typer.echo(json_text({"runs": [str(run.path) for run in done]}))
        return
    for run in done:
        typer.echo(f"{run.path}: {run.steps.height:,} steps, {run.samples.height:,} samples")
    typer.echo("read run.json once before you give it away")


def _document(found: Book) -> dict[str, object]:
    from trainload.analyse.book import table_json

    return {
        "title": found.title,
        **table_json(found.entries, "trainload book"),
        "left_out": [{"run": run, "reason": reason} for run, reason in found.left_out],
        "notes": list(found.notes),
    }


def _render(found: Book) -> str:
    from trainload.columns import render_columns
    from trainload.report.book.html import TITLES

    titles = ("model", "framework", "device", "batch", "precision")
    heads = (*titles, *(TITLES[metric][0] for metric in _SHOWN), "origin", "n")
    rows = [_row(entry) for entry in found.entries]
    numbers = {3, *range(len(titles), len(titles) + len(_SHOWN)), len(heads) - 1}
    lines = [f"{found.title}: {len(rows)} entries", "", render_columns(heads, rows, numbers)]
    if found.left_out:
        lines += ["", f"{len(found.left_out)} runs do not count:"]
        lines += [f"  {_clean(run)}: {_clean(reason)}" for run, reason in found.left_out]
    return "\n".join([*lines, *found.notes])


def _row(entry: BookEntry) -> list[str]:
    from trainload.report.wording import render_metric
    from trainload.units import MISSING

    model = f"{entry.model} ({entry.variant})" if entry.variant else entry.model
    figures = (entry.figures.get(metric) for metric in _SHOWN)
    told = (
        MISSING if figure is None else render_metric(metric, figure.value)
        for metric, figure in zip(_SHOWN, figures, strict=True)
    )
    facts = (model, entry.framework, entry.device, entry.batch_size, entry.precision)
    texts = [MISSING if fact is None else _clean(fact)[:48] for fact in facts]
    count = MISSING if entry.repetitions is None else str(entry.repetitions)
    return [*texts, *told, entry.origin, count]


def _clean(value: object) -> str:
    from trainload.report.wording import clean_text

    return clean_text(value)
