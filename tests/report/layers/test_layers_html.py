"""The section "Where each step goes": complete, within its size, deaf to hostile names."""

import gzip
import json
import re

import pytest
from html_page import Page
from layers_samples import make_layers, make_rank, module_paths

from trainload.analyse import summarise_run
from trainload.analyse.attribution.types import Advice, RunLayers
from trainload.errors import RecordError
from trainload.record import open_run
from trainload.report import render_html, save_trace
from trainload.report.layers.plots import MOST_POINTS, icicle_data, layer_curves, traced_steps

HOSTILE = "<script>alert(1)</script><img src=x>&\"'\u202e"


@pytest.fixture
def page_of(make_run):
    """The text of a page about one run with the given attribution."""
    run = open_run(make_run(gpu=True))
    summary = summarise_run(run)
    return lambda layers: render_html(run, summary, layers)


def test_the_section_is_there_only_with_layers(page_of):
    assert "Where each step goes" not in page_of(None)
    page = Page(page_of(make_layers(notes=["two compiled regions"])))
    assert "Where each step goes" in page.texts
    assert "What to do next" in page.texts
    assert any(t.startswith("Input wait is 31.0 % of the step") for t in page.texts)
    assert "Two compiled regions." in page.texts
    assert any("corrected from 34.2 ms as traced to 26.3 ms" in t for t in page.texts)
    assert any("(budget 3.0 %)" in t for t in page.texts)


def test_the_bar_of_parts_is_the_whole_step(page_of):
    text = page_of(make_layers())
    shares = [float(s) for s in re.findall(r"flex-grow:([\d.]+)", text)]
    assert sum(shares) == pytest.approx(1, abs=1e-3)
    assert "explained: 98.4 % of 26.3 ms" in text


def test_plots_and_icicles_have_their_place(page_of):
    page = Page(page_of(make_layers(3)))
    (run,) = json.loads(page.scripts[0][1])["full"]
    ids = [a.get("id") for _, a in page.tags]
    assert all(ids.count(f"run-1-plot-{n}") == 1 for n in range(len(run["figures"])))
    assert [n for n in range(9) if f"run-1-tree-{n}" in ids] == [0, 1, 2]
    titles = [figure["title"] for figure in run["figures"][-4:]]
    assert titles == [
        "Forward time of the costliest layers",
        "Backward time of the costliest layers",
        "Explained and total time of a step",
        "Unexplained share of a step",
    ]
    opened = [("open" in a) for t, a in page.tags if t == "details" and a.get("class") == "rank"]
    assert opened == [True, False, False]
    assert len(page.scripts) == 3


def test_the_icicle_sums_to_the_step():
    rank = make_rank(communication_us=70)
    data = icicle_data(rank)
    own = sum(sum(item[3:]) for item in data["items"])
    rest = sum(length for _, _, length, above in data["rest"] if above < 0)
    assert own + rest == round(rank.step_s * 1e9)
    assert all(item[0] < at for at, item in enumerate(data["items"]))
    assert {data["parts"][part] for part, *_ in data["rest"]} >= {"input", "communication"}
    small = icicle_data(rank, 10)
    assert len(small["items"]) < 30
    assert sum(sum(item[3:]) for item in small["items"]) == pytest.approx(own, abs=100)


def test_time_of_no_layer_is_still_in_the_icicle():
    rank = make_rank(paths=[])
    assert icicle_data(rank)["items"] == []
    assert sum(length for _, _, length, _ in icicle_data(rank)["rest"]) == round(rank.step_s * 1e9)


def test_curves_run_over_the_traced_steps():
    rank = make_rank(steps=6)
    steps = traced_steps(rank)
    assert steps == [0, 1, 22, 23, 44, 45]
    forward, backward, total, unexplained = layer_curves(rank, steps)
    assert forward.names == backward.names and len(forward.names) == 8
    assert forward.axis == "µs" and forward.values[0][0] == pytest.approx(300)
    assert backward.values[0][0] == pytest.approx(600)
    assert total.names == ("step", "explained", "step while traced")
    step, explained, _ = total.values
    assert all(0.42 * 0.99 <= a - b <= 0.42 * 1.2 for a, b in zip(step, explained, strict=True))
    shares = [1 - b / a for a, b in zip(step, explained, strict=True)]
    assert unexplained.percent and unexplained.values[0] == pytest.approx(shares, abs=1e-3)


def test_a_numbered_layer_carries_its_class():
    forward, *_ = layer_curves(make_rank(paths=[("", "Net"), ("2.0", "Linear")]), [0, 1])
    assert forward.names == ("2.0 Linear",)


def test_two_processes_of_one_number_have_places_of_their_own(page_of):
    ids = [
        a["id"]
        for _, a in Page(page_of(RunLayers(ranks=(make_rank(), make_rank()), advice=()))).tags
        if "id" in a
    ]
    assert len(ids) == len(set(ids))


def test_a_long_run_is_thinned():
    paths = [("", "Net"), ("a", "Linear")]
    assert len(traced_steps(make_rank(paths=paths, steps=3 * MOST_POINTS))) <= MOST_POINTS


def test_a_thousand_modules_stay_under_a_megabyte(page_of):
    layers = make_layers(paths=module_paths(stages=8, blocks=16), steps=40)
    assert len(layers.ranks[0].nodes) > 1000
    extra = len(page_of(layers).encode()) - len(page_of(None).encode())
    assert extra < 1_000_000


def test_the_table_can_be_sorted_by_every_column(page_of):
    page = Page(page_of(make_layers()))
    keys = [int(a["data-sort"]) for t, a in page.tags if t == "button"]
    assert keys == list(range(15))
    for title in ("energy", "activations", "optimizer state", "peak", "calls", "share"):
        assert title in page.texts
    shown = Page(page_of(make_layers(memory=False)))
    assert "activations" not in shown.texts and "peak" not in shown.texts


def test_hostile_names_stay_text(page_of):
    paths = [("", HOSTILE), (HOSTILE, HOSTILE), (f"{HOSTILE}.x", HOSTILE)]
    rank = make_rank(paths=paths, root=HOSTILE, device=HOSTILE, notes=[HOSTILE])
    advice = (Advice(topic="memory_short", fraction=0.4, subject=HOSTILE),)
    text = page_of(RunLayers(ranks=(rank, make_rank(1)), advice=advice))
    page = Page(text)
    assert len(page.scripts) == 3
    assert "<script>alert" not in text and "<img" not in text and "\u202e" not in text
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)


def test_a_run_with_nothing_traced_says_so(page_of):
    assert "No step was traced." in page_of(RunLayers(ranks=(), advice=()))
    assert "the trace names no module" in page_of(make_layers(paths=[]))


TRACE = b'{"traceEvents": [{"ph": "X", "name": "a", "ts": 0, "dur": 1, "pid": 0, "tid": 0}]}'


@pytest.fixture
def traced(make_run):
    path = make_run()
    (path / "trace.json.gz").write_bytes(gzip.compress(TRACE))
    (path / "trace-r2.json.gz").write_bytes(gzip.compress(TRACE)[:-9])
    return open_run(path)


def test_windows_are_exported_packed_or_plain(traced, tmp_path):
    packed, plain = tmp_path / "out.json.gz", tmp_path / "out.json"
    plain.write_text("old")
    save_trace(traced, packed)
    save_trace(traced, plain)
    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes() == TRACE


@pytest.mark.parametrize(
    ("name", "rank", "words"),
    [
        ("out.json.gz", 1, "no trace of rank 1; there are traces of rank 0, 2"),
        ("out.json.gz", 2, "damaged or cut short"),
        ("out.json", 2, "damaged or cut short"),
        ("nowhere/out.json", 0, "No such file or directory"),
        (".", 0, "it is a folder"),
    ],
)
def test_an_export_that_fails_leaves_nothing(traced, tmp_path, name, rank, words):
    before = set(tmp_path.rglob("*"))
    with pytest.raises(RecordError, match=re.escape(words)):
        save_trace(traced, tmp_path / name, rank=rank)
    assert set(tmp_path.rglob("*")) == before


def test_a_run_without_windows_says_how_to_get_some(make_run, tmp_path):
    with pytest.raises(RecordError, match="no traced windows; record some with"):
        save_trace(open_run(make_run()), tmp_path / "out.json")
