"""What notebooks show of comparisons and estimates: tables, escaped, no script.

The tour notebook shows predictions.
"""

import trainload
from trainload.report.cards import render_table_card


def test_everything_in_a_card_is_escaped():
    card = render_table_card("<b>", ["<i>"], [["a & b", "<script>"]], ["<u>", ""])
    assert "<script" not in card and "<u>" not in card and "<i>" not in card
    assert "&lt;b&gt;" in card and "a &amp; b" in card and card.count("<li>") == 1
    assert "<table>" not in render_table_card("nothing", ["a"], [])


def test_a_comparison_shows_its_answer_and_metrics(make_run):
    paths = [make_run(epochs=1, step_s=step_s, hostile=True) for step_s in (0.05, 0.1)]
    card = trainload.compare(*paths)._repr_html_()
    assert "<table>" in card and "verdict" in card and "step" in card
    assert "<script" not in card and "\x1b" not in card and "\u202e" not in card


def test_estimates_show_a_row_a_device():
    ranked = trainload.estimate("lenet5", batch_size=8, device=["t4", "a100-pcie-40gb"])
    card = ranked._repr_html_()
    assert card.count("<tr>") == 3 and "needs" in card and "<script" not in card
