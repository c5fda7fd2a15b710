"""The HTML report in a real browser: drawn, operable by keyboard, fit for a phone."""

import pytest
from html_page import page_of

pytestmark = pytest.mark.browser


@pytest.fixture
def open_page(browser, tmp_path, make_run):
    """Opens the report of some runs; answers the page, its complaints and its requests."""
    opened = []

    def open_report(*options, width=1280, scheme="light"):
        path = tmp_path / "report.html"
        path.write_text(page_of(*(make_run(**o) for o in options)), encoding="utf-8")
        page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
        opened.append(page)
        complaints, requests = [], []
        page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda e: complaints.append(str(e)))
        page.on("request", lambda r: requests.append(r.url))
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-drawn=yes]")
        return page, complaints, [u for u in requests if not u.startswith("data:")]

    yield open_report
    for page in opened:
        page.close()


def trace_of(page):
    return page.evaluate(
        "[...document.querySelectorAll('.canvas')].map(e => [e.data.length, e.data[0]?.x[60]])"
    )


def test_plots_are_drawn_and_nothing_else_is_asked_for(open_page):
    page, complaints, requests = open_page({"gpu": True, "pauses": 2, "hostile": True})
    assert complaints == []
    assert len(requests) == 1
    canvases = page.locator(".canvas")
    assert canvases.count() > 10
    for at in range(canvases.count()):
        assert canvases.nth(at).locator("svg.main-svg").count() >= 1
        assert canvases.nth(at).locator("path.js-line").count() >= 1
    assert page.evaluate("document.querySelectorAll('.canvas script').length") == 0


def test_controls_change_every_plot(open_page):
    page, complaints, _ = open_page({"gpu": True})
    smoothed = trace_of(page)
    page.check("input[name=smoothing][value=none]")
    raw = trace_of(page)
    page.check("input[name=axis][value=iteration]")
    by_iteration = trace_of(page)
    loads = slice(5, None)
    assert all(a[0] == 2 * b[0] for a, b in zip(smoothed[loads], raw[loads], strict=True))
    assert all(a[1] != b[1] for a, b in zip(raw[loads], by_iteration[loads], strict=True) if a[1])
    assert by_iteration[0][0] == 1
    page.locator(".legend input").first.uncheck()
    assert trace_of(page)[0][0] == 0
    assert complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_needs_no_sideways_scrolling(open_page, scheme):
    options = ({"gpu": True}, {"hostile": True, "outcome": "failed", "reason": "x" * 300})
    page, complaints, _ = open_page(*options, width=360, scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert complaints == []


def test_the_keyboard_reaches_the_controls(open_page):
    page, _, _ = open_page({})
    reached = []
    for _ in range(5):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.name || document.activeElement.text"))
    assert reached[:4] == ["Skip to the report", "smoothing", "axis", "theme"]
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"


def test_the_theme_recolours_page_and_plots(open_page):
    page, _, _ = open_page({})
    look = (
        "[getComputedStyle(document.body).backgroundColor,"
        " document.querySelector('.canvas').layout.paper_bgcolor]"
    )
    light = page.evaluate(look)
    page.check("input[name=theme][value=dark]")
    dark = page.evaluate(look)
    assert light[0] != dark[0]
    assert light[1] != dark[1]
