"""The tables of the page of many runs: runs, cells with the best, effects, configuration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainload.analyse.study import change_of
from trainload.report.many.overview import render_change
from trainload.report.many.view import ManyRuns, ShownRun
from trainload.report.markup import Cell, escape, render_sortable
from trainload.report.wording import (
    clean_text,
    render_metric,
    render_name,
    render_origin,
    render_outcome,
    render_overhead,
)
from trainload.units import MISSING

MOST_CHIPS = 40
"""Levels of one factor that get a chip."""
MOST_BESIDE = 8
"""Runs whose configuration stands in columns; of more, values are counted."""
MOST_VALUES = 12
_WORDS = {"better": "better", "worse": "worse", "unchanged": "~", "missing": "missing"}


def render_filters(many: ManyRuns) -> str:
    """The search box, and chips for the levels of every factor that has several."""
    chips = []
    for at, (factor, levels) in enumerate(many.levels.items()):
        if len(levels) < 2:
            continue
        labels = "".join(
            f'<label class="chip"><input type="checkbox" data-factor="{at}" data-level="{number}">'
            f'<span dir="auto">{escape(level)}</span></label>'
            for number, level in enumerate(levels[:MOST_CHIPS])
        )
        if len(levels) > MOST_CHIPS:
            labels += f'<span class="quiet">{len(levels) - MOST_CHIPS} more: search</span>'
        chips.append(f"<fieldset><legend>{escape(factor)}</legend>{labels}</fieldset>")
    return (
        '<form class="filters" aria-label="Which runs are shown">'
        '<label class="search">Search <input type="search" id="search" '
        'placeholder="name, level, outcome"></label>'
        f'{"".join(chips)}<button type="button" id="clear">Show all</button>'
        '<p role="status" id="shown"></p></form>'
    )


def render_runs(many: ManyRuns) -> str:
    """Every run in one row: what tells it from others, how it ended, its figures."""
    metrics = many.overview.metrics
    titles = [
        ("run", "open it below"),
        ("outcome", ""),
        *((clean_text(name), "") for name in many.tidy.factors),
        *((render_name(metric), render_origin(metric)) for metric in metrics),
        ("own overhead", "measured by alternating blocks with and without the instrument"),
        ("does not count because", ""),
    ]
    rows = (
        (_row_attributes(levels, at), _run_cells(many, shown, levels, metrics))
        for at, (shown, levels) in enumerate(zip(many.runs, many.run_levels, strict=True))
    )
    table = render_sortable(titles, rows, label="Runs", name="runs-table")
    return f'<section id="runs"><h2>Runs</h2>{render_filters(many)}{table}</section>'


def _row_attributes(levels: Sequence[int], run: int | None = None) -> str:
    told = "" if run is None else f' data-run="{run}"'
    return f'data-levels="{" ".join(map(str, levels))}"{told}'


def _run_cells(
    many: ManyRuns, shown: ShownRun, levels: Sequence[int], metrics: Sequence[str]
) -> list[Cell]:
    figures = shown.figures
    outcome = "not readable" if figures is None else render_outcome(figures.outcome)
    good = figures is not None and figures.outcome == "completed"
    overhead = render_overhead(shown.run.manifest.overhead) if shown.run else MISSING
    words = overhead.removeprefix("own overhead: ")
    return [
        Cell(text=shown.name, title=clean_text(shown.key), mark="opens"),
        Cell(text=outcome, mark="good" if good else "bad"),
        *(_level_cell(many, factor, level) for factor, level in enumerate(levels)),
        *(_metric_cell(metric, figures.metrics if figures else {}) for metric in metrics),
        Cell(text=words.partition(" (")[0].partition(":")[0], title=words),
        Cell(text=clean_text(shown.reason or ""), mark="words"),
    ]


def _level_cell(many: ManyRuns, factor: int, level: int) -> Cell:
    if level < 0:
        return Cell(text=MISSING)
    text = many.levels[many.tidy.factors[factor]][level]
    return Cell(text=clean_text(text), value=_number(text), mark="level", title=clean_text(text))


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _metric_cell(metric: str, metrics: Mapping[str, float]) -> Cell:
    value = metrics.get(metric)
    return Cell(text=render_metric(metric, value), value=value, title=render_origin(metric))


def render_cells(many: ManyRuns) -> str:
    """Medians of every cell with interval and n; the best marked where the interval allows it."""
    metrics, frame = many.overview.metrics, many.overview.cells
    if frame.is_empty():
        return ""
    factors = many.tidy.factors
    found: dict[tuple[str, ...], dict[str, Mapping[str, Any]]] = {}
    for row in frame.iter_rows(named=True):
        found.setdefault(tuple(row[name] for name in factors), {})[row["metric"]] = row
    standings = {
        metric: {
            tuple(row[name] for name in factors): row["standing"]
            for row in many.overview.best[metric].iter_rows(named=True)
        }
        for metric in metrics
    }
    told_apart = {metric for metric, told in standings.items() if "worse" in told.values()}
    alone = {
        metric: all(word in ("best", "worse") for word in told.values()) and len(told) > 1
        for metric, told in standings.items()
    }
    titles = [
        ("cell", ""),
        ("n", "runs that count"),
        *(_metric_title(metric, standings[metric]) for metric in metrics),
    ]
    rows = (
        (
            _row_attributes(many.positions(levels)),
            [
                Cell(text=_cell_name(levels)),
                _count_cell(told),
                *(
                    _median_cell(
                        metric,
                        told.get(metric),
                        standings[metric].get(levels) if metric in told_apart else None,
                        alone[metric],
                    )
                    for metric in metrics
                ),
            ],
        )
        for levels, told in found.items()
    )
    table = render_sortable(titles, rows, label="Cells", name="cells-table")
    return (
        f'<section id="cells"><h2>Time, accuracy and cost of each cell</h2>{table}'
        '<p class="quiet">Medians, with their 95 % interval where the repetitions give one. '
        "★ the best, where every other cell is shown to be worse; ~ cannot be told from the best "
        "by these repetitions, before a column's name none can.</p></section>"
    )


def _metric_title(metric: str, standings: Mapping[tuple[str, ...], str]) -> tuple[str, str]:
    """The name, with `~` where these repetitions tell no cell from the best."""
    hover = f"median with 95 % interval; {render_origin(metric)}"
    if "worse" in standings.values() or len(standings) < 2:
        return render_name(metric), hover
    return f"~ {render_name(metric)}", f"no cell can be told from the best; {hover}"


def _cell_name(levels: Sequence[str | None]) -> str:
    return " · ".join(clean_text(level) for level in levels if level is not None) or "all runs"


def _count_cell(told: Mapping[str, Mapping[str, Any]]) -> Cell:
    count = max((row["n"] for row in told.values()), default=0)
    return Cell(text=str(count), value=count)


def _median_cell(
    metric: str, row: Mapping[str, Any] | None, standing: str | None, alone: bool
) -> Cell:
    if row is None:
        return Cell(text=MISSING, title="no run of this cell tells it")
    text = render_metric(metric, row["median"])
    interval = row["note"] or ""
    small = ""
    if row["low"] is not None:
        small = f"{render_metric(metric, row['low'])} … {render_metric(metric, row['high'])}"
    if standing == "best" and alone:
        return Cell(
            text=f"★ {text}",
            value=row["median"],
            title=f"best; {interval}",
            small=small,
            mark="top",
        )
    if standing is None:
        return Cell(text=text, value=row["median"], title=interval, small=small)
    if standing != "worse":
        words = f"not told from the best, n = {row['n']}; {interval}"
        return Cell(text=f"~ {text}", value=row["median"], title=words, small=small)
    return Cell(text=text, value=row["median"], title=f"worse than the best; {interval}",
                small=small)  # fmt: skip


def render_effects(many: ManyRuns) -> str:
    """What each level changes against the reference, for every metric of the overview."""
    factors = list(many.tidy.factors)
    rows = [
        (_effect_attributes(many, factors.index(row["factor"]), row["level"]), cells)
        for metric in many.overview.metrics
        for row, cells in _effect_rows(many, metric)
    ]
    if not rows:
        return ""
    if all(cells[4].value is None for _, cells in rows):
        return (
            '<section id="effects"><h2>What each level changes</h2><p class="quiet">~ Nothing can '
            "be said: a comparison needs cells that differ in one factor alone, with two runs each "
            "or three such pairs.</p></section>"
        )
    titles = [
        ("factor", ""), ("level", ""), ("reference", "the level that most cells have"),
        ("figure", ""), ("change", "level − reference, of cells that are equal otherwise"),
        ("from", "95 % interval, corrected for many comparisons"), ("to", ""),
        ("n", "pairs of cells"), ("verdict", ""),
    ]  # fmt: skip
    table = render_sortable(titles, rows, label="Effects of levels", name="effects-table")
    return (
        f'<section id="effects"><h2>What each level changes</h2>{table}<p class="quiet">'
        "Delta is level − reference. ~ stands where no difference is shown.</p></section>"
    )


def _effect_attributes(many: ManyRuns, factor: int, level: str) -> str:
    levels = [-2] * len(many.tidy.factors)
    levels[factor] = many.levels[many.tidy.factors[factor]].index(level)
    return _row_attributes(levels)


def _effect_rows(many: ManyRuns, metric: str) -> Iterator[tuple[Mapping[str, Any], list[Cell]]]:
    for row in many.overview.effects[metric].iter_rows(named=True):
        ratio = row["scale"] == "ratio - 1"
        change = change_of(row, metric)
        texts = [
            render_change(metric, row[name], ratio=ratio) for name in ("effect", "low", "high")
        ]
        yield (
            row,
            [
                Cell(text=clean_text(row["factor"])),
                Cell(text=clean_text(row["level"]), value=_number(row["level"]), mark="words"),
                Cell(text=clean_text(row["base"]), mark="words"),
                Cell(text=render_name(metric), title=render_origin(metric), mark="words"),
                *(
                    Cell(text=text, value=row[name])
                    for text, name in zip(texts, ("effect", "low", "high"), strict=True)
                ),
                Cell(text=str(row["pairs"]), value=row["pairs"]),
                Cell(
                    text=_WORDS[change] if change != "missing" else "~ too few runs",
                    title=row["verdict"],
                    mark={"better": "good", "worse": "bad"}.get(change, "words"),
                ),
            ],
        )


def render_configuration(many: ManyRuns) -> str:
    """What the runs were asked to be; "differences only" hides what is equal in all."""
    told = [shown for shown in many.runs if shown.figures is not None]
    if not told:
        return ""
    facts = [shown.figures.facts for shown in told if shown.figures is not None]
    names = list(dict.fromkeys(name for found in facts for name in found))
    beside = len(told) <= MOST_BESIDE
    heads = [shown.name for shown in told] if beside else ["values, with the number of runs"]
    rows = []
    for name in names:
        values = [_fact(found.get(name)) for found in facts]
        differs = len(set(values)) > 1
        cells = [Cell(text=clean_text(name))]
        if beside:
            cells += [
                Cell(text=value, mark="differs words" if value != values[0] else "words")
                for value in values
            ]
        else:
            cells.append(Cell(text=_counted(values), mark="words"))
        rows.append(("" if differs else 'class="same"', cells))
    titles = [("setting", ""), *((head, "") for head in heads)]
    if beside:
        titles[1] = (f"{heads[0]} (reference)", "the left-most is the reference")
    equal = sum('class="same"' in attributes for attributes, _ in rows)
    table = render_sortable(titles, rows, label="Configuration", name="configuration-table")
    return (
        '<section id="configuration"><h2>Configuration</h2><form class="filters" '
        'aria-label="Which settings are shown"><label><input type="checkbox" id="differences"'
        f"{'' if equal == len(rows) else ' checked'}> differences only "
        f"({equal} of {len(rows)} settings are equal)</label>"
        '<label class="search">Search <input type="search" id="setting-search"></label></form>'
        f"{table}</section>"
    )


def _fact(value: Any) -> str:
    return MISSING if value is None else clean_text(value)


def _counted(values: Sequence[str]) -> str:
    counts = Counter(values).most_common()
    shown = ", ".join(f"{value} ({count})" for value, count in counts[:MOST_VALUES])
    return shown + (f" and {len(counts) - MOST_VALUES} more" if len(counts) > MOST_VALUES else "")
