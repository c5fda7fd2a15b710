"""A ranking as tables of text: best by metric and cell, wins, energies, missing cells, fronts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trainload.columns import render_columns
from trainload.report.ranking.words import LEGEND, metric_name, render_best, render_metric
from trainload.report.wording import clean_text

if TYPE_CHECKING:
    import polars as pl

    from trainload.analyse.ranking import Ranking

MOST_COLUMNS = 6
"""Settings side by side; with more each contest has a line of its own."""


@dataclass(frozen=True, kw_only=True)
class TextTable:
    """One table; the columns numbered in `right` hold numbers."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[int] = frozenset()
    note: str | None = None


def ranking_tables(ranking: Ranking, most: int | None = 40) -> list[TextTable]:
    """Every table of a ranking that has rows, at most so many each."""
    parts = [_best_table(ranking, metric) for metric in ranking.metrics]
    parts += [_wins(ranking), *_energy(ranking), *_fronts(ranking), *_missing(ranking)]
    return [_cut(table, most) for table in parts if table.rows]


def render_text(ranking: Ranking) -> str:
    """The ranking for a terminal."""
    parts = []
    for table in ranking_tables(ranking):
        body = render_columns(table.columns, table.rows, set(table.right))
        parts.append("\n".join(filter(None, (table.title, body, table.note))))
    return "\n\n".join([*parts, "\n".join([LEGEND, *map(clean_text, ranking.notes)])])


def render_markdown(ranking: Ranking) -> str:
    """The ranking as Markdown, for a page or a pull request."""
    parts = [f"## Ranking by {_escaped(ranking.by)}"]
    for table in ranking_tables(ranking, None):
        rule = ["---:" if at in table.right else "---" for at in range(len(table.columns))]
        lines = [table.columns, rule, *table.rows]
        body = "\n".join("| " + " | ".join(map(_escaped, line)) + " |" for line in lines)
        parts.append("\n\n".join(filter(None, (f"### {_escaped(table.title)}", body, table.note))))
    notes = [f"- {_escaped(note)}" for note in (LEGEND, *ranking.notes)]
    return "\n\n".join([*parts, "\n".join(notes)]) + "\n"


def _escaped(text: str) -> str:
    """Text that Markdown shows as it is."""
    safe = clean_text(text).replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|")
    for character in "\\`*_[]":
        if character != "\\":
            safe = safe.replace(character, f"\\{character}")
    return safe


def _best_table(ranking: Ranking, metric: str) -> TextTable:
    rows = ranking.best.filter(metric=metric).to_dicts()
    title = f"{metric_name(metric)}: best {clean_text(ranking.by)}"
    rest = ranking.within[1:]
    settings = list(dict.fromkeys(_levels(row, rest) for row in rows))
    if not rest or len(settings) > MOST_COLUMNS:
        shown = [(_levels(row, ranking.within), render_best(row)) for row in rows]
        return TextTable(title=title, columns=(" ".join(ranking.within), "best"), rows=tuple(shown))
    first = ranking.within[0]
    models = list(dict.fromkeys(row[first] for row in rows))
    found = {(row[first], _levels(row, rest)): render_best(row) for row in rows}
    return TextTable(
        title=title,
        columns=(first, *settings),
        rows=tuple(
            (clean_text(model), *(found.get((model, setting), "–") for setting in settings))
            for model in models
        ),
    )


def _levels(row: dict[str, Any], names: Sequence[str]) -> str:
    return " ".join(clean_text(row[name]) for name in names)


def _wins(ranking: Ranking) -> TextTable:
    """A row a metric: the score over all contests and over each setting, then how certain."""
    frame = ranking.wins
    overs = list(dict.fromkeys(frame["over"].to_list()))
    last = f"{ranking.within[-1]}=" if ranking.within else ""
    parts = [over for over in overs if last and over.startswith(last)][:MOST_COLUMNS]
    rows = []
    for metric in ranking.metrics:
        whole = frame.filter(metric=metric, over=overs[0])
        scores = [frame.filter(metric=metric, over=over) for over in (overs[0], *parts)]
        counts = [int(whole[name].sum()) for name in ("decided", "not_decided", "by_mean_only")]
        told = [" : ".join(map(str, found["wins"].to_list())) for found in scores]
        rows.append((metric_name(metric), *told, *map(str, (*counts, whole["no_contest"][0]))))
    columns = ("metric", "together", *(clean_text(over.removeprefix(last)) for over in parts),
               "decided", "not decided", "by mean only", "without rival")  # fmt: skip
    return TextTable(
        title="Wins, " + " : ".join(map(clean_text, ranking.levels)),
        columns=columns,
        rows=tuple(rows),
        right=frozenset(range(1, len(columns))),
    )


def _energy(ranking: Ranking) -> Iterator[TextTable]:
    frame = ranking.energy
    wrong = frame.filter(frame["contradicts"])
    if frame.is_empty():
        return
    names = (*ranking.within, ranking.by)
    rows = [
        (
            _levels(row, names),
            f"{row['energy_wh']:,.2f} Wh",
            f"{row['power_times_time_wh']:,.2f} Wh",
            f"{row['difference_fraction']:+.1%}",
            clean_text(row["run"]),
        )
        for row in wrong.to_dicts()
    ]
    yield TextTable(
        title=f"Energies that contradict mean power × time: {wrong.height} of {frame.height}",
        columns=("cell", "energy", "power × time", "off by", "run"),
        rows=tuple(rows),
        right=frozenset((1, 2, 3)),
    )


def _fronts(ranking: Ranking) -> Iterator[TextTable]:
    frame: pl.DataFrame = ranking.pareto
    if frame.is_empty():
        return
    names = (*ranking.within, ranking.by)
    axes = [name for name, kind in frame.schema.items() if kind.is_float()]
    rows = [
        (clean_text(row["over"]), _levels(row, names), *(render_metric(a, row[a]) for a in axes))
        for row in frame.filter(frame["on_front"]).to_dicts()
    ]
    yield TextTable(
        title="Pareto fronts: no other cell is better in all of these (by medians)",
        columns=("over", "cell", *map(metric_name, axes)),
        rows=tuple(rows),
        right=frozenset(range(2, 2 + len(axes))),
    )


def _missing(ranking: Ranking) -> Iterator[TextTable]:
    names = (*ranking.within, ranking.by)
    rows = [
        (
            _levels(row, names),
            "all" if row["metric"] is None else metric_name(row["metric"]),
            clean_text(row["reason"]),
        )
        for row in ranking.missing.to_dicts()
    ]
    yield TextTable(
        title=f"Missing: {len(rows)}", columns=("cell", "metric", "reason"), rows=tuple(rows)
    )


def _cut(table: TextTable, most: int | None) -> TextTable:
    if most is None or len(table.rows) <= most:
        return table
    note = f"{most} of {len(table.rows)} rows; all of them with --markdown, --csv or --json"
    return TextTable(
        title=table.title,
        columns=table.columns,
        rows=table.rows[:most],
        right=table.right,
        note=note,
    )
