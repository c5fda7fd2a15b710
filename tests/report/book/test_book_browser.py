"""The book in a real browser: search, filters, sorting, theme, no request, no sideways scroll."""

import sys
from pathlib import Path

import pytest

import trainload
from trainload.analyse.book import load_shipped

pytestmark = pytest.mark.browser
AXE = Path(sys.prefix) / "axe.min.js"
SHOWN = "[...document.querySelectorAll('tr[data-run]')].filter(r => !r.hidden).length"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("book") / "site"
    trainload.book(out=folder)
    return folder


@pytest.fixture
def open_page(watched_page, site):
    opened = []

    def open_it(name="index.html", width=1280, scheme="light"):
        page = watched_page(site / name, width, scheme)
        opened.append(page)
        page.wait_for_selector("html[data-book=yes]")
        return page

    yield open_it
    for page in opened:
        assert all(url.startswith(("file:", "data:")) for url in page.asked)


def test_search_and_filters_choose_entries(open_page):
    page, whole = open_page(), len(load_shipped())
    assert page.evaluate(SHOWN) == whole
    assert page.locator("#shown").text_content() == f"{whole} of {whole} entries shown"
    page.locator("label.chip", has_text="mxnet").click()
    assert page.evaluate(SHOWN) == 7
    page.fill("#search", "vgg16 2.6")
    page.locator("#shown", has_text=f"0 of {whole} entries shown").wait_for()
    page.fill("#search", "vgg16 1.9.1")
    page.locator("#shown", has_text=f"1 of {whole} entries shown").wait_for()
    page.click("#clear")
    assert page.evaluate(SHOWN) == whole


def test_columns_sort_with_the_missing_last(open_page):
    page = open_page()
    button = page.locator("#book-table thead button", has_text="step")
    column = int(button.get_attribute("data-sort"))
    cells = (
        "[...document.querySelectorAll('#book-table tbody tr')]"
        f".map(r => r.cells[{column}].dataset.v)"
    )
    for order, reverse in (("descending", True), ("ascending", False)):
        button.click()
        told = page.evaluate(cells)
        known = [float(value) for value in told if value]
        assert known == sorted(known, reverse=reverse) and len(set(known)) > 20
        assert not any(told[len(known) :])
        assert button.locator("..").get_attribute("aria-sort") == order


@pytest.mark.parametrize("width", [360, 1280])
def test_both_pages_hang_together_at_any_width(open_page, width):
    page = open_page(width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.click("text=Network sizes")
    page.wait_for_selector("html[data-book=yes] #published-table")
    assert page.locator("#published-table tbody tr").count() == 5
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.check("input[name=theme][value=dark]")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before


@pytest.mark.parametrize(("name", "scheme"), [("index.html", "light"), ("sizes.html", "dark")])
def test_axe_finds_nothing_to_complain_of(open_page, name, scheme):
    if not AXE.exists():
        pytest.skip("axe-core is not installed: make .venv/.test-ready where npm can get it")
    page = open_page(name, scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    told = [(v["id"], [n["html"][:100] for n in v["nodes"][:3]]) for v in found["violations"]]
    assert told == []
