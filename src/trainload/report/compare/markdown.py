"""A comparison as GitHub's Markdown: for a pull request or the summary of a job."""

from __future__ import annotations

from collections.abc import Sequence

from trainload.analyse.compare import Comparison
from trainload.report.compare import wording

_MOST_LAYERS = 10
_SPECIAL = str.maketrans({c: f"\\{c}" for c in "\\`*_|[]<>~"} | {"&": "&amp;"})


def render_markdown(found: Comparison, failures: Sequence[str] = ()) -> str:
    """The answer, the metrics that differ, the layers, what differed around them."""
    lines = [f"### {_text(wording.headline(found))}", "", _text(wording.sides_line(found)), ""]
    lines += [f"- **fails**: {_text(line)}" for line in failures] + [""] * bool(failures)
    lines += _table(wording.METRIC_TITLES, wording.metric_rows(found))
    rows = wording.layer_rows(found, _MOST_LAYERS)
    if rows:
        lines += ["", "**Where the difference lies**", "", *_table(wording.LAYER_TITLES, rows)]
        lines += ["", _text(wording.shared_line(found))]
    for title, facts in wording.fact_tables(found):
        lines += [
            "",
            f"**{_text(title)}**",
            *(["", *_table(wording.FACT_TITLES, facts)] * bool(facts)),
        ]
    every = _table(wording.METRIC_TITLES, wording.metric_rows(found, every=True))
    lines += ["", f"<details><summary>{_text(wording.counts_line(found))}</summary>", ""]
    lines += [*every, "", "</details>", ""]
    lines += [_text(note) + "\n" for note in (*found.notes, wording.rule_line(found))]
    return "\n".join(lines)


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    head = [_row(titles), "|" + " --- |" * len(titles)]
    return [*head, *map(_row, rows)]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(_text, cells))} |"


def _text(text: str) -> str:
    """Names of others as plain text: nothing in them is markup, mention or link."""
    return text.translate(_SPECIAL).replace("@", "@\u200b").replace("\n", " ")
