"""The page of a study in a real browser: filters, search, sorting, smoothing, linked zoom, axe."""

import sys
from pathlib import Path

import pytest
from html_page import page_of
from study_samples import grid

pytestmark = pytest.mark.browser
AXE = Path(sys.prefix) / "axe.min.js"
SHOWN = "[...document.querySelectorAll('tr[data-run]')].filter(r => !r.hidden).length"
LINES = "document.getElementById('curve-0').data.filter(t => t.meta === 'line')"


@pytest.fixture(scope="module")
def study_file(tmp_path_factory, write_study):
    folder = tmp_path_factory.mktemp("study")
    cells = grid(repetitions=3)
    cells[-1] = (cells[-1][0], {**cells[-1][1], "outcome": "failed", "reason": "it broke " * 30})
    cells[0] = (cells[0][0], {**cells[0][1], "changes": {"framework": "jax"}})
    options = {"gpu": True, "cores": 12, "steps_per_epoch": 100}
    study = write_study(folder / "study", cells, **options)
    path = folder / "study.html"
    path.write_text(page_of(study), encoding="utf-8")
    return path


@pytest.fixture
def open_page(open_file, study_file):
    def open_it(width=1280, scheme="light", path=study_file):
        page = open_file(path, width, scheme)
        page.wait_for_selector("html[data-many=yes]")
        return page

    return open_it


def until(page, expression, tries=100):
    """Waits from outside: the page's policy lets no text be evaluated inside it."""
    for _ in range(tries):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"never true: {expression}")


def show_curves(page):
    page.evaluate("document.getElementById('curves').scrollIntoView()")
    page.wait_for_selector("#curve-0 .main-svg")
    page.wait_for_selector("#curve-1 .main-svg")


def test_chips_and_search_choose_runs_for_tables_and_curves(open_page):
    page = open_page()
    show_curves(page)
    assert page.evaluate(SHOWN) == 12
    assert len(page.evaluate(LINES)) == 2
    page.locator("label.chip", has_text="bf16").click()
    assert page.evaluate(SHOWN) == 6
    assert page.locator("#shown").text_content() == "6 of 12 runs shown"
    assert "from 6 runs" in page.locator("#drawn").text_content()
    page.locator("label.chip", has_text="16").first.click()
    assert page.evaluate(SHOWN) == 3
    assert len(page.evaluate(LINES)) == 1
    page.click("#clear")
    page.fill("#search", "failed")
    page.locator("#shown", has_text="1 of 12 runs shown").wait_for()
    page.click("#clear")
    assert page.evaluate(SHOWN) == 12


def test_columns_sort_with_the_missing_last(open_page):
    page = open_page()
    button = page.locator("#runs-table thead button", has_text="training time")
    column = int(button.get_attribute("data-sort"))
    rows = "[...document.querySelectorAll('#runs-table tbody tr')]"
    cells = f"{rows}.map(r => r.cells[{column}].dataset.v)"
    for order, reverse in (("descending", True), ("ascending", False)):
        button.focus()
        page.keyboard.press("Enter")
        values = [float(v) for v in page.evaluate(cells) if v]
        assert values == sorted(values, reverse=reverse) and len(set(values)) > 2
        assert button.locator("..").get_attribute("aria-sort") == order


def test_smoothing_and_axis_are_chosen_on_the_page(open_page):
    page = open_page()
    show_curves(page)
    page.select_option("#lines", "run")
    line = f"{LINES}[0].y.filter(v => v !== null)"
    page.check("input[name=smoothing][value=none]")
    raw = page.evaluate(line)
    page.fill("#window", "30")
    assert page.is_checked("input[name=smoothing][value=own]")
    smooth = page.evaluate(line)
    spread = [max(values) - min(values) for values in (raw, smooth)]
    assert len(raw) == len(smooth) and spread[1] < spread[0]
    title = "document.getElementById('curve-0').layout.xaxis.title.text"
    assert page.evaluate(title) == "time since the start (s)"
    page.check("input[name=axis][value=iteration]")
    assert page.evaluate(title) == "iteration"


def test_zooming_one_plot_zooms_the_others(open_page):
    page = open_page()
    show_curves(page)
    page.evaluate("Plotly.relayout('curve-0', {'xaxis.range[0]': 1, 'xaxis.range[1]': 2})")
    other = "document.getElementById('curve-1').layout.xaxis.range.map(v => Math.round(v))"
    until(page, f"String({other}) === '1,2'")
    # A plot that is drawn later joins in.
    last = page.locator("#curve-plots .canvas").last
    last.scroll_into_view_if_needed()
    identity = last.get_attribute("id")
    page.wait_for_selector(f"#{identity} .main-svg")
    assert page.evaluate(f"document.getElementById('{identity}').layout.xaxis.range") == [1, 2]
    page.evaluate("Plotly.relayout('curve-0', {'xaxis.autorange': true})")
    until(page, "document.getElementById('curve-1').layout.xaxis.autorange === true")


def test_each_line_has_its_least_mean_and_most(open_page):
    page = open_page()
    show_curves(page)
    page.locator("#curve-plots summary").first.click()
    rows = page.locator("#curve-plots .box").first.locator("tbody tr")
    assert rows.count() == 2
    assert rows.first.locator("td").nth(3).text_content().endswith("%")


def test_one_run_opens_with_a_heat_map_of_its_cores(open_page):
    page = open_page()
    page.locator("#runs-table .open-run").nth(4).click()
    assert page.input_value("#one-run") == "4"
    page.locator("#one-cores").scroll_into_view_if_needed()
    page.wait_for_selector("#one-cores .main-svg")
    kind, rows = page.evaluate(
        "(t => [t.type, t.y.length])(document.getElementById('one-cores').data[0])"
    )
    assert (kind, rows) == ("heatmap", 12)
    titles = page.locator("#one-plots h3").all_text_contents()
    assert any(title.startswith("Power by rail") for title in titles)
    page.click("#next")
    assert page.input_value("#one-run") == "5"


def test_differences_only_hides_what_is_equal(open_page):
    page = open_page()
    rows = "[...document.querySelectorAll('#configuration-table tbody tr')].filter(r => !r.hidden)"
    few = page.evaluate(f"{rows}.length")
    page.uncheck("#differences")
    assert page.evaluate(f"{rows}.length") > few
    page.fill("#setting-search", "optimizer")
    names = page.evaluate(f"{rows}.map(r => r.cells[0].textContent)")
    assert names and all("optimizer" in name for name in names)


def test_an_image_can_be_saved_by_keyboard(open_page):
    page = open_page()
    show_curves(page)
    with page.expect_download() as waiting:
        page.locator("#curve-plots button.image").first.focus()
        page.keyboard.press("Enter")
    assert waiting.value.suggested_filename.endswith(".png")


def test_the_keyboard_reaches_filters_and_tables(open_page):
    page = open_page()
    page.locator("#search").focus()
    reached = []
    for _ in range(8):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("(e => e.id || e.dataset.factor)(document.activeElement)"))
    assert reached[:4] == ["0", "0", "1", "1"]
    assert "clear" in reached


@pytest.mark.parametrize("width", [360, 768, 1280, 1920])
def test_no_width_needs_sideways_scrolling(open_page, width):
    page = open_page(width=width)
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    for place in ("curves", "cells", "configuration", "one"):
        page.evaluate(f"document.getElementById('{place}').scrollIntoView()")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_to_complain_of(open_page, scheme):
    if not AXE.exists():
        pytest.skip("axe-core is not installed: make .venv/.test-ready where npm can get it")
    page = open_page(scheme=scheme)
    show_curves(page)
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    told = [(v["id"], [n["html"][:100] for n in v["nodes"][:3]]) for v in found["violations"]]
    assert told == []


def test_few_runs_stand_in_full_and_are_drawn_when_they_open(open_page, tmp_path, write_study):
    path = tmp_path / "few.html"
    path.write_text(page_of(write_study(tmp_path / "few", grid(repetitions=1))), encoding="utf-8")
    page = open_page(path=path)
    assert page.locator("details.full").count() == 4
    assert page.locator("details.full .main-svg").count() == 0
    page.locator("details.full > summary").nth(1).click()
    page.wait_for_selector("#run-2-plot-0 .main-svg")
    assert page.locator("#run-1-plot-0 .main-svg").count() == 0
