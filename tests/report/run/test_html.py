"""The HTML file: complete in itself, and deaf to hostile names."""

import itertools
import json

import pytest
from html_page import Page, page_of

from trainload.analyse import summarise_run
from trainload.record import open_run
from trainload.report.markup import render_json
from trainload.report.run.plots import choose_figures


def test_nothing_is_fetched(make_run):
    page = Page(page_of(make_run(gpu=True)))
    for tag, attributes in page.tags:
        for name in ("src", "href", "srcset", "action", "poster"):
            value = attributes.get(name)
            assert value is None or value.startswith(("#", "data:")), (tag, value)
        assert tag not in ("iframe", "object", "embed", "img", "base")
    policy = next(a["content"] for _, a in page.tags if "http-equiv" in a)
    assert "default-src 'none'" in policy


def test_plotly_is_inlined_once_and_the_data_parses(make_run):
    page = Page(page_of(make_run(), make_run(gpu=True)))
    assert len(page.scripts) == 3
    assert sum(len(text) > 1_000_000 for _, text in page.scripts) == 1
    attributes, text = page.scripts[0]
    assert attributes["type"] == "application/json"
    runs = json.loads(text)["full"]
    assert len(runs) == 2
    ids = {a.get("id") for _, a in page.tags}
    for at, run in enumerate(runs, start=1):
        assert all(f"run-{at}-plot-{n}" in ids for n in range(len(run["figures"])))
        for figure in run["figures"]:
            for series in figure["series"]:
                points = len(run["grids"][series["grid"]]["time"])
                assert len(series["raw"]) == points <= 3000


def test_hostile_names_stay_text(make_run):
    text = page_of(make_run(hostile=True, outcome="failed", reason="<img src=x onerror=alert(1)>"))
    page = Page(text)
    assert len(page.scripts) == 3
    assert "<script>alert" not in text
    assert "<img" not in text
    assert any("<script>alert(1)</script>" in t for t in page.texts)
    assert "\u202e" not in text
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)


def test_json_cannot_end_its_script():
    value = {"<!--</script>&\u2028\u2029": ["\ud800"]}
    text = render_json(value)
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == value


def test_the_page_is_built_for_everyone(make_run):
    page = Page(page_of(make_run(), make_run()))
    html = dict(next(a for t, a in page.tags if t == "html"))
    assert html["lang"] == "en"
    assert ("a", {"class": "skip", "href": "#content"}) in page.tags
    headings = [int(tag[1]) for tag, _ in page.tags if tag in ("h1", "h2", "h3", "h4")]
    assert headings[0] == 1
    assert all(b <= a + 1 for a, b in itertools.pairwise(headings))
    radios = {a["name"] for t, a in page.tags if t == "input" and a["type"] == "radio"}
    assert radios == {"smoothing", "axis", "theme"}


@pytest.mark.parametrize(
    "options",
    [
        {"epochs": 0, "samples": False, "outcome": "out_of_memory", "reason": "too large"},
        {"samples": False},
        {"epochs": 0},
        {"cores": 20, "steps_per_epoch": 20},
        {"nan_from_step": 0, "outcome": "killed"},
    ],
)
def test_a_run_that_left_little_still_has_a_page(make_run, options):
    text = page_of(make_run(**options))
    assert "</html>" in text
    ended_badly = options.get("outcome", "completed") != "completed"
    assert ("The last lines the training process printed" in text) == ended_badly


def smoothing_of(page):
    return next(a["value"] for _, a in page.tags if a.get("name") == "smoothing" and "checked" in a)


def test_short_runs_are_drawn_raw_at_first(make_run):
    short, long = make_run(steps_per_epoch=20, epochs=1), make_run()
    assert smoothing_of(Page(page_of(short))) == "none"
    assert smoothing_of(Page(page_of(short, long))) == "50"


def test_a_gpu_other_than_the_first_is_shown(make_run):
    path = make_run(gpu=True, gpu_index=1)
    summary = summarise_run(open_run(path))
    load = f"{summary.columns['gpu1_load_fraction'].mean * 100:.1f} %"
    page = Page(page_of(path))
    at = page.texts.index("GPU 1 load")
    assert load in page.texts[at : at + 2]


def test_an_amount_that_misses_part_of_the_training_says_so(make_run):
    path = make_run(gpu=True, energy_every=40, samples_from_s=3.0)
    texts = Page(page_of(path)).texts
    assert "measured, over 12 s of 16.2 s of training" in texts
    assert "3.6 kJ (1 Wh, over 12 s of 16.2 s)" in texts


def test_one_warm_up_step_is_one(make_run):
    page = Page(page_of(make_run(steps_per_epoch=5, epochs=1)))
    assert "median, measured, 1 warm-up step left out" in page.texts


def test_a_script_has_loads_and_no_empty_plots(make_run):
    page = Page(page_of(make_run(script=True)))
    (run,) = json.loads(page.scripts[0][1])["full"]
    assert run["figures"]
    assert all(figure["series"] for figure in run["figures"])
    assert "Training loss" not in page.texts
    assert "No step was finished." not in page.texts
    assert "No loss was seen: no backward pass began at a single number." in page.texts
    assert "Throughput" not in page.texts
    assert "Layers" not in page.texts
    assert run["bands"] == []  # the script is the training: nothing to shade


def test_columns_are_drawn_by_kind():
    figures = choose_figures(
        [
            "gpu0_power_w",
            "host_cpu0_load_fraction",
            "host_cpu_load_fraction",
            "gpu0_load_fraction",
            "gpu0_memory_used_fraction",
            "gpu0_throttle_bits",
            "gpu0_sm_clock_hz",
        ]
    )
    assert [(f.title, f.columns) for f in figures] == [
        ("CPU load", ("host_cpu_load_fraction",)),
        ("GPU load", ("gpu0_load_fraction",)),
        ("Memory load", ("gpu0_memory_used_fraction",)),
        ("CPU load by core", ("host_cpu0_load_fraction",)),
        ("Power", ("gpu0_power_w",)),
        ("Clocks", ("gpu0_sm_clock_hz",)),
    ]
