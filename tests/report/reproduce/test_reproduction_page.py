"""The page of a reproduction: verdicts as text, no script, whole on a phone and a wide screen."""

from dataclasses import dataclass, replace

import pytest
from html_page import Page

from trainload.analyse.reproduce import (
    Beside,
    ClaimFile,
    Compared,
    Judged,
    Observed,
    Reading,
    load_claims,
)
from trainload.report.reproduce import render_reproduction_html
from trainload.report.reproduce.wording import observer_rows, render_counts, render_reading

HOSTILE = "<script>alert(1)</script>[bold]\x1b[31m\u202e&\"'"
READING = Reading(value=1.16, low=1.02, high=1.31, runs=6)
FILE = load_claims("load-analysis")


@dataclass(frozen=True, kw_only=True)
class Found:
    file: ClaimFile
    quick: bool
    tables: tuple[Beside, ...]
    judged: tuple[Judged, ...]
    observed: Observed | None


def judged(verdict, says=FILE.claims[0].says):
    compared = Compared(title="5 against 2", short="", reading=READING, holds=True)
    claim = replace(FILE.claims[0], says=says)
    return Judged(claim=claim, verdict=verdict, reason="the interval decides", compared=(compared,))


FOUND = Found(
    file=FILE,
    quick=True,
    tables=(
        Beside(
            title="T", source="S", columns=("a", "b"), rows=(("x", READING), (HOSTILE, None))
        ),
    ),
    judged=(judged("confirms"), judged("contradicts", HOSTILE), judged("cannot tell")),
    observed=Observed(
        inflations=(("64", READING),), plain=READING, watched=READING, share=Reading(value=0.4)
    ),
)  # fmt: skip


def test_the_page_shows_verdicts_and_figures_as_text():
    text = render_reproduction_html(FOUND)
    page = Page(text)
    assert page.scripts == [] and "alert(1)" in text and "<script>alert" not in text
    said = " ".join(page.texts)
    assert "3 claims: this machine confirms 1, contradicts 1, cannot tell 1" in said
    assert "1.16 [1.02, 1.31]" in said and "load-analysis, quick form" in said
    badges = [attrs["class"] for tag, attrs in page.tags if "badge" in (attrs.get("class") or "")]
    assert badges == ["badge good", "badge bad", "badge open"]


def test_figures_without_an_interval_are_marked():
    assert render_reading(Reading(value=2.0, runs=2, reason="few")) == "2 ~ (n=2)"
    assert render_reading(Reading(reason="no GPU")) == "–"
    assert render_reading(Reading(value=3426.3, low=1e-9, high=2e12)) == "3,426 [1e-09, 2e+12]"
    assert render_counts([]).startswith("0 claims")


def test_the_observers_share_or_why_it_cannot_be_told():
    rows = dict(observer_rows(Observed(reason="this machine has no nvidia-smi")))
    assert rows["the observer's share of the effect, on a logarithmic scale"] == (
        "cannot tell: this machine has no nvidia-smi"
    )
    assert rows["published: batch 64 over batch 512"] == "9.88"


@pytest.mark.browser
@pytest.mark.parametrize("width", [360, 1280])
def test_the_page_in_a_browser(browser, tmp_path, width):
    path = tmp_path / "page.html"
    path.write_text(render_reproduction_html(FOUND), encoding="utf-8")
    page = browser.new_page(viewport={"width": width, "height": 800})
    complaints = []
    page.on("console", lambda m: complaints.append(m.text))
    page.on("pageerror", lambda e: complaints.append(str(e)))
    page.goto(path.as_uri())
    assert page.locator(".badge").count() == 3
    page.locator("details summary").first.click()
    assert page.locator("details[open] table").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert complaints == []
    page.close()
