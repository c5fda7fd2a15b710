"""The page and the text of a recommendation: what they hold, and that a browser draws it."""

import json

import pytest
from html_page import Page

from recommend.made_plans import made_plan
from trainload.api.recommending.result import Recommended
from trainload.hardware.catalogue import find_device
from trainload.recommend.ranking import recommend_plans
from trainload.recommend.types import Demand, Unfit

UNFIT = Unfit(
    device=find_device("jetson-nano"), count=1, demand="memory", reason="does not fit <it>"
)


def answered(**demand):
    plans = [
        made_plan("t4", hours=40.0, usd_per_h=0.5, kwh=2.8, precision="fp16"),
        made_plan("l4", hours=20.0, usd_per_h=1.1, kwh=1.4),
        made_plan("l4", hours=39.0, usd_per_h=1.1, kwh=2.4, precision="tf32"),
        made_plan("h100-sxm", hours=4.0, usd_per_h=4.0, kwh=2.8),
    ]
    demand.setdefault("objective", "money")
    return Recommended(
        title="net <b>",
        optimizer="adam",
        batch_size=64,
        examples=1000,
        epochs=3,
        steps=None,
        found=recommend_plans(plans, [UNFIT], Demand(**demand)),
        unknown=(("A thing", "the catalogue does not hold it"),),
        notes=("a note",),
    )


def test_the_text_begins_with_the_answer():
    text = answered().to_text()
    assert text.startswith("take h100-sxm (Made one) in bf16, batch 64: 4 h 00 min")
    assert "below 0.40 USD an hour t4 wins (it is 0.50 USD)" in text
    assert "jetson-nano: does not fit <it>" in text and "A thing: the catalogue" in text
    assert "net <b>, batch 64 over all devices, adam, 1,000 examples × 3 epochs" in text
    short = answered().to_text(1)
    assert "2 more choices: --most 3, or --json" in short


def test_the_document_holds_every_candidate():
    document = json.loads(json.dumps(answered(deadline_h=30.0).to_json()))
    assert [one["name"] for one in document["choices"]] == ["h100-sxm", "l4"]
    assert [one["name"] for one in document["rejected"]] == ["t4", "jetson-nano", "A thing"]
    assert all(one["reason"] for one in document["rejected"])
    assert document["choices"][1]["other_ways"] == []
    assert document["deadline_h"] == 30.0 and document["choices"][0]["deadline_chance"] > 0.99


def test_the_page_escapes_what_it_is_told():
    page = answered().to_html()
    assert "<b>" not in page and "net &lt;b&gt;" in page
    assert "does not fit &lt;it&gt;" in page
    texts = " ".join(Page(page).texts)
    assert "Take h100-sxm" in texts and "What would change it" in texts
    nothing = answered(budget_usd=0.0).to_html()
    assert "Nothing keeps to the demands" in nothing and 'id="front"' not in nothing
    assert "What comes nearest" in nothing


@pytest.mark.browser
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (360, "dark")])
def test_the_front_is_drawn_in_a_browser(browser, tmp_path, width, scheme):
    path = tmp_path / "recommended.html"
    path.write_text(answered(deadline_h=50.0).to_html(), encoding="utf-8")
    page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    complaints = []
    page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda e: complaints.append(str(e)))
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-drawn=yes]")
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    assert page.locator("#front path.point").count() == 3
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    before = page.evaluate("document.querySelector('#front').layout.paper_bgcolor")
    page.check(f"input[name=theme][value={'dark' if scheme == 'light' else 'light'}]")
    assert page.evaluate("document.querySelector('#front').layout.paper_bgcolor") != before
    assert complaints == []
    page.close()
