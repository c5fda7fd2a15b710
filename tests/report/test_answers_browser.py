"""The pages of compare, predict, recommend and scorecard in a real browser: content, keys, axe."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from layers_samples import make_layers, module_paths

import trainload
from recommend.made_plans import made_plan
from trainload.analyse.compare import compare_sides, parts_of
from trainload.analyse.compare.spread import Known
from trainload.analyse.predicted import PredictionPair, score_predictions
from trainload.analyse.scorecard import EstimatePair, VerdictPair, score_estimates
from trainload.api.comparing import _find_side
from trainload.api.recommending.result import Recommended
from trainload.hardware.catalogue import find_device
from trainload.recommend.ranking import recommend_plans
from trainload.recommend.types import Demand, Unfit
from trainload.report.compare.html import render_comparison_page
from trainload.report.predict.scorecard_html import render_scorecard_html

pytestmark = pytest.mark.browser
AXE = Path(sys.prefix) / "axe.min.js"
LONG = "a-workload-whose-name-has-no-place-to-break-and-goes-on-and-on-without-an-end"
NAMES = ("compare", "predict", "recommend", "scorecard")
VISIBLE = "e => e.checkVisibility()"
UNFOLD = "document.querySelectorAll('details').forEach(d => { d.open = true; })"


def compared(folder, write_one):
    """One reference and two sides: one slower, without the last layer; one the same."""
    sides = []
    for name, step_s in (("main", 0.05), ("my-branch", 0.06), (LONG, 0.05)):
        for factor in (0.99, 1.0, 1.01):
            write_one(folder / name, epochs=1, step_s=step_s * factor, rate_hz=2.0)
        side, _ = _find_side(str(folder / name), layers=False)
        paths = module_paths(stages=2)[: -1 if name == "my-branch" else None]
        rank = make_layers(paths=paths).ranks[0]
        runs = [
            replace(run, parts=parts_of(rank, run.figures.metrics["step_s"])) for run in side.runs
        ]
        sides.append(replace(side, runs=tuple(runs)))
    first, *others = sides
    return render_comparison_page([compare_sides(first, one, Known()) for one in others])


def predicted(folder):
    pytest.importorskip("torch", reason="torch is not installed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRAINLOAD_ESTIMATES", str(folder / "kept"))
        patch.chdir(folder)
        return trainload.predict("mlp", device=["t4", "h200"], batch_size=64, steps=100).to_html()


def recommended():
    plans = [
        made_plan("t4", hours=40.0, usd_per_h=0.5, kwh=2.8, precision="fp16"),
        made_plan("l4", hours=20.0, usd_per_h=1.1, kwh=1.4),
        made_plan("h100-sxm", hours=4.0, usd_per_h=4.0, kwh=2.8),
    ]
    unfit = Unfit(device=find_device("jetson-nano"), count=1, demand="memory", reason="too small")
    return Recommended(
        title=LONG, optimizer="adam", batch_size=64, examples=1000, epochs=3, steps=None,
        found=recommend_plans(plans, [unfit], Demand(objective="money", deadline_h=30.0)),
        unknown=(("A thing", "the catalogue does not hold it"),), notes=("a note",),
    ).to_html()  # fmt: skip


def scored():
    predictions = [
        PredictionPair(
            name=name, device="h200", tier="datasheet", model_kind="CNN", quantity="step_s",
            predicted=0.06, low=0.045, high=0.08, truth=truth,
        )
        for name, truth in (("resnet50", 0.05), (LONG, 0.1))
    ]  # fmt: skip
    estimates = [
        EstimatePair(
            name=name, device="h200", model_kind="CNN", quantity="reserved",
            estimate_bytes=estimate, truth_bytes=2**30,
        )
        for name, estimate in (("resnet50", 2**30), (LONG, 2**31))
    ]  # fmt: skip
    verdict = VerdictPair(
        name="resnet50", device="h200", capacity_bytes=2**31, verdict="fits", outcome="fits"
    )
    return render_scorecard_html(
        score_estimates(estimates, [verdict]), score_predictions(predictions)
    )


@pytest.fixture(scope="module")
def pages(tmp_path_factory, write_one):
    """Makes each page once, when it is first asked for."""
    folder = tmp_path_factory.mktemp("answers")
    makers = {
        "compare": lambda: compared(folder, write_one),
        "predict": lambda: predicted(folder),
        "recommend": recommended,
        "scorecard": scored,
    }

    def path_of(name):
        path = folder / f"{name}.html"
        if not path.exists():
            path.write_text(makers[name](), encoding="utf-8")
        return path

    return path_of


@pytest.fixture
def open_page(open_file, pages):
    return lambda name, width=1280, scheme="light": open_file(pages(name), width, scheme)


def table_of(page, label):
    return page.locator(f'[aria-label="{label}"] tbody tr')


def test_a_comparison_begins_with_what_differs_and_unfolds_the_rest(open_page):
    page = open_page("compare")
    verdicts = page.locator("h2 .badge").all_text_contents()
    assert verdicts == ["slower", "same"]
    first = page.locator("article").first
    differing = first.locator('[aria-label="Metrics that differ"] tbody tr')
    every = first.locator('[aria-label="All metrics"] tbody tr')
    assert 0 < differing.count() < every.count()
    assert differing.first.locator("th").text_content().startswith("step time")
    assert not every.first.evaluate(VISIBLE)
    first.locator("summary").first.click()
    assert every.first.evaluate(VISIBLE)
    # Every box of the icicle tells by itself which layer it is and what became of it.
    boxes = first.locator("svg.differences g")
    assert boxes.count() > 20
    titles = first.locator("svg.differences title").all_text_contents()
    assert any(text.startswith("layer1.0.conv1: ") and " → " in text for text in titles)
    assert first.locator("svg.differences g.lost").count() == 1
    assert "fc" in first.locator("svg.differences g.lost title").first.text_content()


def test_a_prediction_ranks_devices_and_unfolds_their_layers(open_page):
    page = open_page("predict")
    rows = table_of(page, "Devices, fastest first")
    assert sorted(rows.locator("th").all_text_contents()) == ["h200", "t4"]
    layers = page.locator("details tbody tr")
    assert layers.count() >= 4 and not layers.first.evaluate(VISIBLE)
    page.locator("summary").first.click()
    assert layers.first.evaluate(VISIBLE)


def test_a_recommendation_answers_first_and_names_what_was_rejected(open_page):
    page = open_page("recommend")
    assert page.locator("main h2").first.text_content() == "Take h100-sxm"
    assert table_of(page, "Choices").count() == 2
    page.locator("summary", has_text="Rejected: 3").click()
    told = table_of(page, "Rejected candidates").locator("th").all_text_contents()
    assert told == ["t4", "jetson-nano", "A thing"]
    with page.expect_download() as waiting:
        page.locator("button.image").first.focus()
        page.keyboard.press("Enter")
    assert waiting.value.suggested_filename.endswith(".png")


def test_a_scorecard_tells_errors_and_verdicts(open_page):
    page = open_page("scorecard")
    titles = page.locator("h2").all_text_contents()
    assert titles == ["Predictions of time and energy", "Estimates of memory", "Verdicts"]
    text = page.locator("main").text_content()
    assert "held the measured step in 1 of 2 runs" in text and "+100.0 %" in text


@pytest.mark.parametrize("name", NAMES)
def test_the_keyboard_reaches_everything_that_folds_or_scrolls(open_page, name):
    page = open_page(name, width=360)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    folded = page.locator("details")
    for at in range(folded.count()):
        folded.nth(at).locator("summary").focus()
        page.keyboard.press("Enter")
        assert folded.nth(at).evaluate("d => d.open")
    stuck = (
        "[...document.querySelectorAll('main *')].filter(e => e.scrollWidth > e.clientWidth + 1"
        " && ['auto', 'scroll'].includes(getComputedStyle(e).overflowX) && e.tabIndex < 0)"
        ".map(e => e.tagName + '.' + e.className)"
    )
    assert page.evaluate(stuck) == []


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1920, "light")])
def test_pages_fit_their_window_and_axe_has_no_complaint(open_page, name, width, scheme):
    page = open_page(name, width, scheme)
    page.evaluate(UNFOLD)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    if not AXE.exists():
        pytest.skip("axe-core is not installed: make .venv/.test-ready where npm can get it")
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    told = [(v["id"], [n["html"][:100] for n in v["nodes"][:3]]) for v in found["violations"]]
    assert told == []
