"""Rules on the terminal and as a page: verdicts as words, a stranger's text escaped, no script."""

from dataclasses import dataclass, replace
from io import StringIO

import pytest
from html_page import Page
from rich.console import Console

from trainload.analyse.rules import JudgedRule, RuleFile, judge_rules, load_rules
from trainload.hardware.limits import MachineLimits
from trainload.report.rules import render_limits, render_rules, render_rules_html
from trainload.report.rules.wording import limit_rows, render_counts, render_quantity
from trainload_worker.protocol.measure import Measured, MeasureLack, Reading

HOSTILE = "<script>alert(1)</script>[bold]\x1b[31m\u202e&\"'"
RATES = Measured(
    "matrix-rate",
    "FLOP/s",
    tuple(
        Reading({"device": "cpu", "dtype": "float32", "threads": threads}, values)
        for threads, values in (("1", (1e11, 1.1e11, 0.9e11)), ("2", (2e11, 2.1e11, 1.9e11)))
    ),
)
LIMITS = MachineLimits(
    taken_at="2026-01-01",
    quick=True,
    facts={"cpu": HOSTILE, "cores": "2"},
    measured=(RATES,),
    lacks=(MeasureLack("device-bandwidth", HOSTILE),),
    notes=(HOSTILE,),
)


@dataclass(frozen=True, kw_only=True)
class Found:
    file: RuleFile
    limits: MachineLimits
    judged: tuple[JudgedRule, ...]


@pytest.fixture(scope="module")
def found():
    file = load_rules()
    return Found(file=file, limits=LIMITS, judged=tuple(judge_rules(file, LIMITS)))


def text_of(rendered, width=200):
    stream = StringIO()
    Console(file=stream, width=width, force_terminal=False).print(rendered)
    return stream.getvalue()


def test_the_terminal_has_every_rule_with_prediction_figure_and_verdict(found):
    text = text_of(render_rules(found), width=4000)
    assert "does not hold" in text and "dated" in text and "cannot tell" in text
    assert "matrix product, all threads over one: 2" in text
    assert all(one.rule.predicts in text for one in found.judged)
    assert render_counts(found.judged) in text and "\x1b" not in text


def test_counts_add_up(found):
    counts = [int(word) for word in render_counts(found.judged).split() if word.isdecimal()]
    assert counts[0] == sum(counts[1:]) == len(found.judged)


def test_the_page_shows_all_and_runs_nothing(found):
    page = render_rules_html(found)
    assert "<script" not in page and "\x1b" not in page and "\u202e" not in page
    assert page.count('<span class="badge ') == len(found.judged)
    text = " ".join(Page(page).texts)
    for one in found.judged:
        assert one.rule.says in text and one.rule.decides in text
    assert "100 GFLOP/s" in text


def test_what_a_machine_reaches_is_a_table_with_its_gaps():
    text = text_of(render_limits(LIMITS))
    assert "100 GFLOP/s" in text and "± 10%" in text and "device-bandwidth" in text
    assert limit_rows(replace(LIMITS, measured=(), lacks=())) == []


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (4.13e10, "bytes/s", "41.3 GB/s"),
        (9.62e-8, "s", "96.2 ns"),
        (2.0, "s", "2 s"),
        (0.0, "s", "0 s"),
        (0.25, "fraction", "0.25 fraction"),
        (7.9e14, "FLOP/s", "790 TFLOP/s"),
    ],
)
def test_a_figure_has_a_unit_that_suits_it(value, unit, text):
    assert render_quantity(value, unit) == text
