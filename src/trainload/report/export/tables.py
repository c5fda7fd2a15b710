"""Frames as CSV, Parquet, Markdown and LaTeX; names of others are escaped, nothing is computed."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from trainload.report.wording import clean_text

if TYPE_CHECKING:
    import polars as pl

TABLE_KINDS: dict[str, str] = {
    "csv": "csv",
    "parquet": "parquet",
    "markdown": "md",
    "latex": "tex",
}
"""Kind of a table's file -> the end of its name."""
_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "–": "--",
    "×": r"$\times$",
    "±": r"$\pm$",
    "µ": r"\textmu{}",
}


def table_bytes(frame: pl.DataFrame, kind: str, title: str) -> bytes:
    """The file of a table; `title` stands above it where the kind has a place for it."""
    if kind == "csv":
        return frame.write_csv().encode("utf-8", "backslashreplace")
    if kind == "parquet":
        held = io.BytesIO()
        frame.write_parquet(held)
        return held.getvalue()
    text = render_latex(frame, title) if kind == "latex" else render_markdown(frame)
    return text.encode("utf-8", "backslashreplace")


def render_markdown(frame: pl.DataFrame) -> str:
    """A table as GitHub draws it; numbers to six digits, on the right."""
    rules = ("---:" if dtype.is_numeric() else "---" for dtype in frame.dtypes)
    lines = [_markdown_row(frame.columns), f"| {' | '.join(rules)} |"]
    lines += (_markdown_row(row) for row in frame.iter_rows())
    return "\n".join(lines) + "\n"


def render_latex(frame: pl.DataFrame, title: str) -> str:
    """A table in the manner of booktabs, `title` its caption; numbers to six digits."""
    columns = "".join("r" if dtype.is_numeric() else "l" for dtype in frame.dtypes)
    return "\n".join(
        (
            "% needs \\usepackage{booktabs}",
            "\\begin{table}",
            "  \\centering",
            f"  \\caption{{{_latex(title)}}}",
            f"  \\begin{{tabular}}{{{columns}}}",
            "    \\toprule",
            f"    {_latex_row(frame.columns)}",
            "    \\midrule",
            *(f"    {_latex_row(row)}" for row in frame.iter_rows()),
            "    \\bottomrule",
            "  \\end{tabular}",
            "\\end{table}\n",
        )
    )


def _markdown_row(values: Any) -> str:
    cells = (
        _text(v).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;") for v in values
    )
    return f"| {' | '.join(cells)} |"


def _latex_row(values: Any) -> str:
    return " & ".join(_latex(_text(value)) for value in values) + r" \\"


def _latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in clean_text(text))


def _text(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.6g}" if isinstance(value, float) else clean_text(value)
