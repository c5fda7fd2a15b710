"""Plain tables of text; imports nothing of ours and knows no table's meaning."""

from collections.abc import Sequence


def render_columns(titles: Sequence[str], rows: Sequence[Sequence[str]], right: set[int]) -> str:
    """A plain table; the columns numbered in `right` stand at their right edge.

    For verbs that must answer at once: importing rich takes longer than they do.
    """
    lines = [titles, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(titles))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )
