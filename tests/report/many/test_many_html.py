"""The page of a study: says what was found and what is missing; deaf to hostile names."""

import json

import pytest
from html_page import Page, page_of
from study_samples import grid

from trainload.analyse.study import Finding
from trainload.cli.app import run_app
from trainload.report.many import curves
from trainload.report.many.overview import render_change, render_finding
from trainload.report.wording import render_name

HOSTILE = "<script>alert(1)</script>[bold]\x1b[31m\u202e&\"'"


def texts_of(text):
    return " ".join(t.strip() for t in Page(text).texts if t.strip())


def data_of(text):
    return json.loads(Page(text).scripts[0][1])


@pytest.fixture(scope="module")
def study_page(tmp_path_factory, write_study):
    return page_of(write_study(tmp_path_factory.mktemp("study") / "sample", grid()))


def test_the_overview_says_what_was_compared_and_found(study_page):
    text = texts_of(study_page)
    assert "Compared: batch_size (16, 32) × precision (bf16, float32)." in text
    assert "The three findings that matter" in text
    assert "Best examples per second: batch_size=" in text
    assert "12 completed" in text
    assert "Own overhead: 0.4 % in the median of 12 runs" in text
    assert "levels against the reference" in text


def test_a_difference_that_is_shown_is_marked_and_what_is_not_has_a_tilde(study_page):
    text = texts_of(study_page)
    assert "★" in text
    rows = [t for t in Page(study_page).texts if t in ("better", "worse", "~", "~ too few runs")]
    assert "better" in rows and "worse" in rows


def test_figures_have_plain_names_and_their_origin_on_hover(study_page):
    page = Page(study_page)
    assert "gpu0_load_fraction" not in " ".join(page.texts)
    hovers = [a["title"] for _, a in page.tags if "title" in a]
    assert any("measured: examples of the median step" in hover for hover in hovers)
    titles = [q["title"] for q in data_of(study_page)["quantities"]]
    assert {"CPU load", "RAM", "Step time"} <= set(titles)


def test_series_are_thinned_as_the_page_says(tmp_path, monkeypatch, write_study):
    monkeypatch.setattr(curves, "MOST_POINTS", 60)
    options = {"step_s": 0.2, "rate_hz": 50.0, "samples": True}
    text = page_of(write_study(tmp_path / "s", grid((16,), repetitions=1), **options))
    assert "are thinned to at most 60 points" in texts_of(text)
    run = data_of(text)["runs"][0]
    assert run["samples"]["n"] > 100 and run["samples"]["per"] > 1
    key = next(iter(run["samples"]["cols"]))
    assert {"l", "m", "h"} <= set(run["samples"]["cols"][key])


def test_the_more_runs_the_fewer_points(monkeypatch, tmp_path, write_study):
    monkeypatch.setattr(curves, "BUDGET_BYTES", 1)
    text = page_of(write_study(tmp_path / "s", grid((16,), repetitions=1), rate_hz=50.0))
    assert data_of(text)["runs"][0]["samples"]["n"] > curves.FEWEST_POINTS
    assert f"at most {curves.FEWEST_POINTS} points" in texts_of(text)


def test_hostile_names_stay_text(tmp_path, write_study):
    cells = [
        ({"name": HOSTILE}, {"hostile": True}),
        ({"name": '"><img src=x onerror=alert(1)>'}, {}),
        ({"name": "שלום \u202e עולם"}, {"outcome": "failed", "reason": HOSTILE}),
    ]
    text = page_of(write_study(tmp_path / "s", cells))
    page = Page(text)
    assert len(page.scripts) == 3
    assert "<script>alert" not in text and "<img" not in text and "\u202e" not in text
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    assert any("שלום" in t for t in page.texts)
    json.loads(page.scripts[0][1])


def test_an_empty_study_says_so(tmp_path, write_study):
    text = texts_of(page_of(write_study(tmp_path / "s", [])))
    assert "This study is empty: it has no cells and no runs yet." in text
    assert "No run was made, so nothing can be compared." in text


def test_a_planned_study_names_every_missing_cell(tmp_path, write_study):
    planned = [{"batch_size": 16}, {"batch_size": 32}]
    text = texts_of(page_of(write_study(tmp_path / "s", [], planned=planned)))
    assert "2 cells are missing: 2 never measured" in text
    assert "batch_size=16 never measured" in text


def test_one_run_has_nothing_to_be_compared_with(tmp_path, write_study):
    text = texts_of(page_of(write_study(tmp_path / "s", grid((16,), ("bf16",), 1))))
    assert "There is one run that counts, and nothing to compare it with." in text


def test_when_all_cells_failed_the_page_says_why(tmp_path, write_study):
    bad = {"outcome": "out_of_memory", "reason": "CUDA out of memory", "epochs": 0}
    cells = [({"batch_size": size}, bad) for size in (16, 32)]
    text = texts_of(page_of(write_study(tmp_path / "s", cells)))
    assert "No run counts, so nothing can be compared." in text
    assert "2 out of memory" in text
    assert "out_of_memory: CUDA out of memory" in text


def test_a_metric_that_half_of_the_runs_miss_is_named(tmp_path, write_study):
    cells = [({"batch_size": size}, {"gpu": size == 32}) for size in (16, 16, 32, 32)]
    text = texts_of(page_of(write_study(tmp_path / "s", cells)))
    assert "Energy is told by 2 of 4 runs that count" in text


def test_configuration_differs_only_where_it_differs(study_page):
    page = Page(study_page)
    same = [a for tag, a in page.tags if tag == "tr" and a.get("class") == "same"]
    assert same
    assert "differences only" in texts_of(study_page)


@pytest.mark.parametrize(
    ("change", "ratio", "expected"),
    [(0.123, True, "+12.3 %"), (-0.5, True, "−50.0 %"), (2.4, True, "× 3.4"), (None, True, "–"),
     (3860.0, True, "× 3,861"), (-0.02, False, "−2.0 %")],
)  # fmt: skip
def test_a_change_is_told_in_the_unit_that_fits(change, ratio, expected):
    assert render_change("validation_accuracy", change, ratio=ratio) == expected


def test_an_undecided_finding_begins_with_a_tilde():
    told = render_finding(Finding(kind="undecided", metric="step_s", others=4, n=1))
    assert told.startswith("~ Step time: none of 4 comparisons")
    assert "one run of each says nothing" in told
    tied = Finding(kind="best", metric="step_s", cell="a", value=0.1, n=3, tied=2, others=5)
    assert render_finding(tied).startswith("~ Best step time: a with 100 ms (n = 3); 2 of 5")


def test_the_verb_takes_a_study_and_tells_what_it_cannot_do(tmp_path, write_study, capsys):
    study = write_study(tmp_path / "s", grid((16,), repetitions=1))
    page = tmp_path / "page.html"
    assert run_app(["report", str(study), "--html", str(page)]) == 0
    assert capsys.readouterr().out.strip() == str(page)
    assert "<h2>sample</h2>" in page.read_text(encoding="utf-8")
    assert run_app(["report", str(study), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 2
    assert run_app(["report", str(study), "--csv", str(tmp_path / "tables")]) == 2
    assert "--trace and --csv are for one run" in capsys.readouterr().err
    assert run_app(["report", str(study / "runs"), "--html", str(page)]) == 0


def test_names_that_people_use():
    assert render_name("gpu0_load_fraction") == "GPU 0 load"
    assert render_name("rapl_package_0_power_w") == "power of package 0 (RAPL)"
    assert render_name("host_cpu12_load_fraction") == "core 12 load"
    assert render_name("<b>own") == "<b>own"


def test_runs_of_no_study_are_told_apart_by_as_little_as_it_takes(make_run):
    changes = {"framework": "jax", "software": {"framework_version": "0.10"}}
    text = texts_of(page_of(make_run(epochs=1), make_run(epochs=2), make_run(changes=changes)))
    assert "Compared: framework (jax, torch) × epochs (1, 2, 3)." in text
    assert "framework_version" in text  # under Configuration
