"""The section "Where each step goes" in a real browser: drawn, sortable, fit for a phone."""

import pytest
from layers_samples import make_layers, module_paths

from trainload.analyse import summarise_run
from trainload.record import open_run
from trainload.report import render_html

pytestmark = pytest.mark.browser


@pytest.fixture
def open_page(browser, tmp_path, make_run):
    """Opens the report of one run with an attribution; answers the page and its complaints."""
    opened = []

    def open_report(layers, width=1280, scheme="light"):
        run = open_run(make_run(gpu=True))
        path = tmp_path / "report.html"
        path.write_text(render_html(run, summarise_run(run), layers), encoding="utf-8")
        page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
        opened.append(page)
        complaints = []
        page.on("console", lambda m: complaints.append(m.text))
        page.on("pageerror", lambda e: complaints.append(str(e)))
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-drawn=yes]")
        return page, complaints

    yield open_report
    for page in opened:
        page.close()


def test_the_icicle_is_drawn_and_other_ranks_when_they_open(open_page):
    page, complaints = open_page(make_layers(2))
    icicles = page.locator(".canvas.icicle")
    assert icicles.nth(0).locator("g.slice").count() > 100
    assert icicles.nth(1).locator("g.slice").count() == 0
    page.locator("details.rank").nth(1).locator("summary").first.click()
    page.wait_for_function(
        "document.querySelectorAll('.canvas.icicle')[1].querySelector('g.slice')"
    )
    assert page.locator("details.rank").nth(1).locator("path.js-line").count() >= 3
    values = page.evaluate("document.querySelector('.icicle').data[0].values")
    rank = make_layers(2).ranks[0]
    assert values[0] == round(rank.step_s * 1e9)
    assert complaints == []


def test_a_module_opens_when_it_is_chosen(open_page):
    page, complaints = open_page(make_layers())
    page.locator(".icicle g.slice", has_text="layer2").first.click()
    page.wait_for_function("document.querySelector('.icicle g.pathbar')")
    assert page.locator(".icicle g.pathbar").count() >= 2
    assert complaints == []


def test_titles_sort_the_table(open_page):
    page, complaints = open_page(make_layers())
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    cells = "[...document.querySelectorAll('.sortable tbody tr')].map(r => r.cells[{}].dataset.v)"
    button = page.locator(".sortable button", has_text="peak")
    for order, reverse in (("descending", True), ("ascending", False)):
        button.click()
        values = [float(v) for v in page.evaluate(cells.format(10))]
        assert values == sorted(values, reverse=reverse) and len(set(values)) > 10
        assert button.locator("..").get_attribute("aria-sort") == order
    page.locator(".sortable button", has_text="layer").first.focus()
    page.keyboard.press("Enter")
    names = page.locator(".sortable tbody th").all_text_contents()
    assert names[0].startswith("avgpool")
    assert complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_needs_no_sideways_scrolling(open_page, scheme):
    paths = [*module_paths(), ("a" * 200, "B" * 200), ("long name " * 30, "Linear")]
    layers = make_layers(2, paths=paths, notes=["n" * 300])
    page, complaints = open_page(layers, width=360, scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert complaints == []


def test_ten_thousand_layers_with_hostile_names_are_text_on_a_page_that_scrolls(open_page):
    names = ("<img src=x onerror=alert(1)>", "a\"b'c", "\u05e9\u05dc\u05d5\u05dd", "block")
    paths = [("", "Net"), *((f"{names[n % 4]}{n}", "Linear") for n in range(10_000))]
    page, complaints = open_page(make_layers(paths=paths, steps=2))
    assert page.locator(".icicle g.slice").count() >= 1
    assert page.locator("img").count() == 0
    assert page.locator(".sortable tbody tr").count() <= 1501
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    assert "<img src=x onerror=alert(1)>" in page.locator(".sortable tbody").text_content()
    frames = page.evaluate(
        "async () => { let n = 0; const end = performance.now() + 1000;"
        " while (performance.now() < end) { scrollBy(0, 200); n += 1;"
        " await new Promise((done) => requestAnimationFrame(done)); } return n; }"
    )
    assert frames >= 5
    assert complaints == []


def test_the_theme_recolours_the_icicle(open_page):
    page, _ = open_page(make_layers())
    colour = "document.querySelector('.icicle').data[0].marker.colors[0]"
    light = page.evaluate(colour)
    page.check("input[name=theme][value=dark]")
    assert page.evaluate(colour) != light
