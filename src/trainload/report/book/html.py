"""The book as a static site: the table of entries and the page of network sizes.

Each file stands alone and asks the network for nothing; what stands in runs is escaped text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainload._version import __version__
from trainload.analyse.book import METRICS, Book, BookEntry, BookFigure
from trainload.estimate.sizes.networks import NetworkSize
from trainload.report.markup import Cell, escape, render_pairs, render_sortable, render_table
from trainload.report.page import THEME, render_controls, render_page
from trainload.report.wording import clean_text, render_metric
from trainload.units import MISSING, render_bytes, render_flop

INDEX, SIZES = "index.html", "sizes.html"
MOST_CHIPS = 40
"""Levels of one column that get a chip; others are found by the search."""
_FILTERS = ("model", "framework", "device", "batch_size", "precision", "origin")
TITLES = {
    "peak_device_bytes": ("device memory", "most that the run's processes held of the device"),
    "peak_reserved_bytes": ("reserved", "most that the framework's allocator reserved"),
    "peak_host_bytes": ("host memory", "most that the run's processes held of the host"),
    "step_s": ("step", "median of the steps after warm-up"),
    "examples_per_s": ("examples/s", "examples of the median step over its time"),
    "mean_power_w": ("power", "mean over the training, of the source named on hover"),
    "energy_per_example_j": ("energy/example", "mean power over examples a second"),
    "validation_accuracy": ("accuracy", "on the validation set, last epoch"),
    "duration_s": ("whole run", "from its start to its end"),
    "energy_j": ("energy", "of the whole training"),
}
"""Of each metric its name, and what it is."""
_FOOTER = (
    f"Made by trainload {escape(__version__)}. A dash is a missing value, never zero. "
    "This file asks the network for nothing."
)


def render_index(book: Book) -> str:
    """The page with the table of entries, its search and filters."""
    levels = {name: _levels(book.entries, name) for name in _FILTERS}
    return render_page(
        title=book.title,
        skip="Skip to the table",
        top=_top(book.title, here=INDEX),
        sections=(_entries(book, levels), _sources(book)),
        footer=_FOOTER,
        data=None,
        styles=("report.css", "many.css", "book.css"),
        scripts=("look.js", "tables.js", "book.js"),
        plots=False,
    )


def _top(title: str, here: str) -> str:
    pages = ((INDEX, "Trainings"), (SIZES, "Network sizes"))
    items = "".join(
        f"<li>{name}</li>" if page == here else f'<li><a href="{page}">{name}</a></li>'
        for page, name in pages
    )
    return (
        f'<header class="top"><h1>{escape(title)}</h1>'
        f'<nav aria-label="Pages"><ul>{items}</ul></nav></header>'
        + render_controls("How the page looks", (THEME,))
    )


def _levels(entries: Sequence[BookEntry], name: str) -> list[str]:
    values = {getattr(entry, name) for entry in entries}
    known = sorted((v for v in values if v is not None), key=lambda v: (isinstance(v, str), v))
    return [str(value) for value in known]


def _entries(book: Book, levels: dict[str, list[str]]) -> str:
    shown = [m for m in METRICS if any(m in entry.figures for entry in book.entries)]
    titles = [
        ("model", "what tells it from like entries stands below"),
        ("framework", "its version on hover"),
        ("device", "which part of the machine stands below"),
        ("batch", "examples in a step"),
        ("precision", ""),
        *(TITLES[metric] for metric in shown),
        ("origin", "measured, predicted or imported; from what on hover"),
        ("n", "repetitions"),
        ("note", ""),
    ]
    rows = (
        (_attributes(entry, levels, at), _cells(entry, shown))
        for at, entry in enumerate(book.entries)
    )
    table = render_sortable(titles, rows, label="Trainings", name="book-table")
    words = (
        "Figures are medians over repetitions with the 95 % interval of the median below, of a "
        "prediction its range; without an interval there were under three repetitions. The same "
        'table: <a href="book.csv">CSV</a>, <a href="book.parquet">Parquet</a>, '
        '<a href="book.json">JSON</a>.'
    )
    return (
        f'<section id="runs"><h2>{len(book.entries)} trainings</h2>'
        f'{_filters(levels)}<p class="quiet">{words}</p>{table}</section>'
    )


def _filters(levels: dict[str, list[str]]) -> str:
    chips = []
    for at, (name, known) in enumerate(levels.items()):
        if len(known) < 2:
            continue
        labels = "".join(
            f'<label class="chip"><input type="checkbox" data-factor="{at}" data-level="{number}">'
            f'<span dir="auto">{escape(level)}</span></label>'
            for number, level in enumerate(known[:MOST_CHIPS])
        )
        if len(known) > MOST_CHIPS:
            labels += f'<span class="quiet">{len(known) - MOST_CHIPS} more: search</span>'
        legend = name.replace("_size", "")
        group = f"<fieldset><legend>{legend}</legend>{labels}</fieldset>"
        # Many models would fill the page before its table.
        many = len(known) > 12
        fold = f"<details><summary>{legend}: {len(known)}</summary>{group}</details>"
        chips.append(fold if many else group)
    return (
        '<form class="filters" aria-label="Which entries are shown">'
        '<label class="search">Search <input type="search" id="search" '
        'placeholder="model, device, software"></label>'
        f'{"".join(chips)}<button type="button" id="clear">Show all</button>'
        '<p role="status" id="shown"></p></form>'
    )


def _attributes(entry: BookEntry, levels: dict[str, list[str]], at: int) -> str:
    told = []
    for name, known in levels.items():
        value = getattr(entry, name)
        told.append(-1 if value is None else known.index(str(value)))
    return f'data-levels="{" ".join(map(str, told))}" data-run="{at}"'


def _cells(entry: BookEntry, shown: Sequence[str]) -> list[Cell]:
    versions = ", ".join(f"{k} {v}" for k, v in sorted(entry.software.items()) if v)
    framework = " ".join(filter(None, (entry.framework, entry.framework_version)))
    return [
        Cell(text=entry.model, small=entry.variant, title=f"{framework}; {versions}"),
        _word(entry.framework, small=entry.framework_version or "", title=versions),
        _word(entry.device, small=entry.setting or ""),
        Cell(
            text=MISSING if entry.batch_size is None else str(entry.batch_size),
            value=entry.batch_size,
        ),
        _word(entry.precision, small=entry.optimizer or ""),
        *(_figure(metric, entry.figures.get(metric), entry) for metric in shown),
        Cell(text=entry.origin, title=_source(entry), mark="level"),
        Cell(
            text=MISSING if entry.repetitions is None else str(entry.repetitions),
            value=entry.repetitions,
        ),
        Cell(text=entry.note, mark="words"),
    ]


def _word(text: str | None, *, small: str = "", title: str = "") -> Cell:
    return Cell(text=MISSING if text is None else text, small=small, title=title, mark="level")


def _figure(metric: str, figure: BookFigure | None, entry: BookEntry) -> Cell:
    if figure is None:
        return Cell(text=MISSING)
    small = ""
    if figure.low is not None and figure.high is not None:
        small = f"{render_metric(metric, figure.low)} – {render_metric(metric, figure.high)}"
    of = f"of {entry.energy_source}, " if entry.energy_source and "_w" in metric else ""
    counted = "predicted" if entry.origin == "predicted" else f"n = {figure.repetitions}"
    return Cell(
        text=render_metric(metric, figure.value),
        value=figure.value,
        small=small,
        title=f"{of}{counted}",
    )


def _source(entry: BookEntry) -> str:
    runs = ", ".join(sorted(entry.runs))
    return "; ".join(filter(None, (entry.source, entry.created, runs)))


def _sources(book: Book) -> str:
    counts: dict[str, int] = {}
    for entry in book.entries:
        name = f"{entry.origin}: {entry.source}"
        counts[name] = counts.get(name, 0) + 1
    pairs = [(clean_text(name), f"{count} entries") for name, count in sorted(counts.items())]
    left = ""
    if book.left_out:
        rows = [(name, reason) for name, reason in book.left_out]
        left = "<h3>Runs that do not count</h3>" + render_table(
            ("run", "why"), rows, label="Runs that do not count"
        )
    notes = "".join(f"<li>{escape(note)}</li>" for note in book.notes)
    return (
        f'<section id="sources"><h2>Where it comes from</h2>{render_pairs(pairs)}'
        f"{f'<ul>{notes}</ul>' if notes else ''}{left}</section>"
    )


def render_sizes(sizes: Sequence[NetworkSize], title: str, source: str) -> str:
    """The page of network sizes: recomputed from graphs, published figures beside."""
    published = [size for size in sizes if size.published_parameter_mib is not None]
    own = [size for size in sizes if size.published_parameter_mib is None]
    return render_page(
        title=f"{title}: network sizes",
        skip="Skip to the tables",
        top=_top(title, here=SIZES),
        sections=(_published_sizes(published, source), _own_sizes(own)),
        footer=_FOOTER,
        data=None,
        styles=("report.css", "many.css", "book.css"),
        scripts=("look.js", "tables.js", "book.js"),
        plots=False,
    )


def _published_sizes(sizes: Sequence[NetworkSize], source: str) -> str:
    titles = [
        ("network", ""),
        ("input", ""),
        ("parameters, here", "4 bytes each, from the layer graph"),
        ("published", ""),
        ("features, here", "outputs of all layers that keep their own, one image, 4 bytes a value"),
        ("published", ""),
        ("FLOPs forward", "one image, two for a multiply-add"),
    ]
    rows = (("", list(_size_cells(size))) for size in sizes)
    table = render_sortable(titles, rows, label="Published sizes", name="published-table")
    return (
        '<section id="published"><h2>Light networks, recomputed</h2>'
        f'<p class="quiet">Published: {escape(source)}.</p>{table}</section>'
    )


def _size_cells(size: NetworkSize) -> Iterator[Cell]:
    yield Cell(text=size.name)
    yield Cell(text=size.input)
    yield Cell(text=f"{size.parameter_mib:.1f} MiB", value=size.parameter_mib)
    yield _published(size.published_parameter_mib)
    yield Cell(text=f"{size.feature_mib:,.0f} MiB", value=size.feature_mib)
    yield _published(size.published_feature_mib)
    yield Cell(text=render_flop(size.flop_forward), value=float(size.flop_forward))


def _published(value: float | None) -> Cell:
    return Cell(text=MISSING) if value is None else Cell(text=f"{value:,.0f} MB", value=value)


def _own_sizes(sizes: Sequence[NetworkSize]) -> str:
    titles = [
        ("network", ""),
        ("input", ""),
        ("parameters", ""),
        ("as float32", "4 bytes each"),
        ("features", "outputs of all layers that keep their own, one example, 4 bytes a value"),
        ("FLOPs forward", "one example, two for a multiply-add"),
    ]
    rows = (
        (
            "",
            [
                Cell(text=size.name),
                Cell(text=size.input),
                Cell(text=f"{size.parameters:,}", value=float(size.parameters)),
                Cell(text=render_bytes(size.parameters * 4), value=size.parameter_mib),
                Cell(text=render_bytes(size.feature_mib * 2**20), value=size.feature_mib),
                Cell(text=render_flop(size.flop_forward), value=float(size.flop_forward)),
            ],
        )
        for size in sizes
    )
    return (
        '<section id="own"><h2>Built-in networks</h2>'
        f"{render_sortable(titles, rows, label='Built-in networks', name='own-table')}</section>"
    )
