"""A page of 200 runs in a real browser: what is near view is drawn, and lines are bounded."""

import pytest
from html_page import page_of

pytestmark = pytest.mark.browser
DRAWN = "document.querySelectorAll('.canvas .plot-container').length"


def test_a_page_of_many_runs_draws_what_is_in_view(browser, tmp_path, make_run):
    run = make_run(epochs=1, steps_per_epoch=5, rate_hz=2.0)
    path = tmp_path / "report.html"
    path.write_text(page_of(*[run] * 200), encoding="utf-8")
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    complaints = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-many=yes]")
    assert page.locator("tr[data-run]").count() == 200
    assert page.evaluate(DRAWN) < 12
    page.evaluate("document.getElementById('curves').scrollIntoView()")
    page.wait_for_selector("#curve-0 .main-svg")
    assert "16 runs drawn of 200; filter to choose others" in page.text_content("#drawn")
    page.fill("#search", "#7")
    page.locator("#shown", has_text="11 of 200 runs shown").wait_for()
    assert page.evaluate("document.documentElement.scrollHeight") < 12_000
    assert complaints == []
    page.close()
