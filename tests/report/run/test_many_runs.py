"""A page of 200 runs in a real browser: what is near view is drawn, the rest when it comes near."""

import time

import pytest

from trainload.analyse import summarise_run
from trainload.record import open_run
from trainload.report import render_html

pytestmark = pytest.mark.browser

RUNS = 200
DRAWN = "document.querySelectorAll('.canvas .plot-container').length"


def test_a_page_of_many_runs_draws_what_is_in_view(browser, tmp_path, make_run) -> None:
    run = open_run(make_run(epochs=1, steps_per_epoch=5, rate_hz=2.0))
    path = tmp_path / "report.html"
    path.write_text(render_html([(run, summarise_run(run))] * RUNS), encoding="utf-8")
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    begun_s = time.monotonic()
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-drawn=yes]")
    ready_s = time.monotonic() - begun_s
    first_ms = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    plots = page.locator(".canvas").count()
    told = f"first content {first_ms:.0f} ms, ready {ready_s:.1f} s"
    print(f"{RUNS} runs, {plots} plots: {told}")  # noqa: T201 - the figure, with pytest -s
    assert plots > 1000
    assert page.evaluate(DRAWN) < 60
    for at in (50, 100, 150, 1):
        page.evaluate(f"document.getElementById('run-{at}').scrollIntoView()")
        page.wait_for_selector(f"#run-{at}-plot-0 .main-svg")
    # Those left behind are let go, so that the page stays light.
    assert page.evaluate(DRAWN) < 100
    page.check("input[name=axis][value=iteration]")
    title = page.evaluate("document.getElementById('run-1-plot-0').layout.xaxis.title.text")
    assert title == "iteration"
    assert complaints == []
    page.close()
