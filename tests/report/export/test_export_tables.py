"""Tables for papers: names of others are text, missing is a dash, numbers are on the right."""

import polars as pl

from trainload.report.export import (
    TABLE_KINDS,
    cell_plots,
    render_latex,
    render_markdown,
    table_bytes,
)

NASTY = 'a_b & 50% $x^2$ {~} \\ # <b>"|'
FRAME = pl.DataFrame(
    {"name": [NASTY, "two\nlines\x1b[31m"], "step_s": [0.123456789, None], "n": [3, 12]}
)


def test_latex_is_escaped_and_ruled():
    text = render_latex(FRAME, "width_and_batch: cells")
    assert r"\caption{width\_and\_batch: cells}" in text and r"\begin{tabular}{lrr}" in text
    assert (
        r"a\_b \& 50\% \$x\textasciicircum{}2\$ \{\textasciitilde{}\} \textbackslash{} \# "
        r"\textless{}b\textgreater{}\textquotedbl{}\textbar{} & 0.123457 & 3 \\" in text
    )
    assert r"two lines & -- & 12 \\" in text
    assert [text.count(rule) for rule in (r"\toprule", r"\midrule", r"\bottomrule")] == [1, 1, 1]


def test_markdown_keeps_its_columns_and_no_markup():
    lines = render_markdown(FRAME).splitlines()
    assert lines[:2] == ["| name | step_s | n |", "| --- | ---: | ---: |"]
    assert lines[2] == '| a_b & 50% $x^2$ {~} \\\\ # &lt;b>"\\| | 0.123457 | 3 |'
    assert lines[3] == "| two lines | – | 12 |"


def test_csv_and_parquet_are_exact():
    import io

    for kind, read in (("csv", pl.read_csv), ("parquet", pl.read_parquet)):
        back = read(io.BytesIO(table_bytes(FRAME, kind, "")))
        assert back["step_s"].to_list() == [0.123456789, None] and back["name"][0] == NASTY
    assert set(TABLE_KINDS) == {"csv", "parquet", "markdown", "latex"}


def test_cells_are_drawn_with_their_intervals():
    cells = pl.DataFrame(
        {
            "cell": ["<i>a</i>", "b"],
            "metric": ["step_s"] * 2,
            "median": [2.0, 4.0],
            "low": [1.5, None],
            "high": [3.0, None],
        }
    )
    (plot,) = cell_plots(cells)
    (trace,) = plot.traces
    assert plot.name == "step_s" and trace["x"] == [2.0, 4.0]
    assert trace["error_x"]["array"] == [1.0, None] and trace["error_x"]["arrayminus"] == [
        0.5,
        None,
    ]
    assert trace["y"][0] == "&lt;i&gt;a&lt;/i&gt;"
