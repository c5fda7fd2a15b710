"""The page about whether a training fits: verdict first, complete in itself, fit for a phone."""

import json
import re

import pytest

from trainload.estimate.memory.answer import Alternative, LargestBatch, MemoryAnswer
from trainload.estimate.memory.fit import MemoryRoom, Span, Spread, estimate_memory
from trainload.estimate.memory.op_trace import Allocation, Free, Mark, Operation
from trainload.estimate.memory.replay import NOTHING
from trainload.hardware.catalogue import find_device
from trainload.report.memory.html import render_memory_html
from trainload.report.memory.wording import (
    all_notes,
    group_layers,
    render_chance,
    render_gain,
    render_verdict,
)

MIB = 1 << 20
HOSTILE = '</script><img src=x onerror="alert(1)">\x1b[31m'


def events(layer="blocks.0"):
    found = [Allocation(storage=0, size_bytes=100 * MIB, category="weight")]
    found.append(Mark(text="step begin", step=0))
    for number in range(1, 41):
        phase = "forward" if number <= 20 else "backward"
        category = "activation" if number <= 20 else "gradient"
        found.append(
            Operation(
                name="aten.mul.Tensor",
                layer=layer if number % 2 else "head",
                phase=phase,
                step=0,
                inputs=(),
                outputs=(),
                attributes=(),
            )
        )
        size = 10 * MIB * (1 if number <= 20 else 2)
        found.append(Allocation(storage=number, size_bytes=size, category=category))
        if number > 20:
            found.append(Free(storage=41 - number))
    return found


def answer(capacity=500 * MIB, *, layer="blocks.0", device="rtx-3090", helps=True):
    span = Span(value_bytes=capacity, low_bytes=capacity - MIB, high_bytes=capacity + MIB)
    room = MemoryRoom(
        capacity=span if device else None,
        capacity_source="made up",
        overhead=Span(value_bytes=0, low_bytes=0, high_bytes=0),
        overhead_source="made up",
        spread=Spread(allocated=0.01, reserved=0.03, needed=0.03, source="made up"),
    )
    alternative = Alternative(
        name=f"bf16 {HOSTILE}" if layer == HOSTILE else "bf16", option="--precision bf16",
        needed_bytes=300 * MIB, gain_bytes=200 * MIB, verdict="fits", running_out=0.0,
    )  # fmt: skip
    return MemoryAnswer(
        title="net",
        device=find_device(device) if device else None,
        target="cuda",
        estimate=estimate_memory(events(layer), lambda _: NOTHING, room),
        missing=None,
        alternatives=(alternative,) if helps else (),
        largest_batch=LargestBatch(batch_size=12, note="checked by a trace") if helps else None,
        notes=("taken for granted",),
    )


@pytest.mark.parametrize(
    ("capacity", "verdict"),
    [(100 * MIB, "Does not fit"), (520 * MIB, "Too close to call"), (5000 * MIB, "Fits")],
)
def test_the_verdict_comes_first(capacity, verdict):
    page = render_memory_html(answer(capacity), "net: one step")
    main = page[page.index("<main") :]
    assert re.search(r"<h2>([^<]*)</h2>", main).group(1) == verdict
    for earlier, later in (("<h2>", "<h3>Why"), ("<h3>Why", "<h3>What would help")):
        assert main.index(earlier) < main.index(later)
    assert "Largest batch that fits: <b>12</b>" in main


def test_the_curve_has_phases_and_the_limit():
    page = render_memory_html(answer(520 * MIB), "net: one step")
    data = json.loads(re.search(r'id="data">(.*?)</script>', page).group(1))
    assert data["unit"] == "MiB" and data["limit"] == pytest.approx(520)
    assert [name for name, _, _ in data["phases"]] == ["forward", "backward"]
    assert len(data["held"]) == len(data["reserved"]) == len(data["words"]) == 40
    far = render_memory_html(answer(500_000 * MIB), "net: one step")
    assert json.loads(re.search(r'id="data">(.*?)</script>', far).group(1))["limit"] is None


def test_hostile_names_stay_text():
    page = render_memory_html(answer(layer=HOSTILE), HOSTILE)
    assert "<img" not in page.split("<script>", 1)[0] and "\x1b" not in page


def test_without_an_estimate_the_page_says_why():
    lacking = MemoryAnswer(
        title="net", device=None, target="cuda", estimate=None, missing="torch is not installed"
    )
    page = render_memory_html(lacking, "net: one step")
    assert "Not known" in page and "Torch is not installed." in page and 'id="curve"' not in page
    assert render_verdict(lacking) is None


def test_words():
    assert render_chance(None) == "–" and render_chance(0.0) == "below 0.1 %"
    assert render_chance(1.0) == "above 99.9 %" and render_chance(0.173) == "17 %"
    assert render_gain(-MIB) == "1 MiB more" and render_gain(2 * MIB) == "2 MiB"
    assert group_layers({"a.b": 3, "c": 9, "a.d": 4}) == {"c": 9, "a": 7}
    assert group_layers({"a": 1}) == {}
    assert render_verdict(answer(device=None)).endswith("add --device h200")
    assert all_notes(answer(5000 * MIB)) == ("taken for granted",)


@pytest.mark.browser
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (360, "dark")])
def test_it_is_drawn_in_a_browser(browser, tmp_path, width, scheme):
    path = tmp_path / "fits.html"
    path.write_text(render_memory_html(answer(520 * MIB), "net: one step"), encoding="utf-8")
    page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    complaints = []
    page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda e: complaints.append(str(e)))
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-drawn=yes]")
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    assert page.locator("#curve path.js-line").count() >= 2
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    before = page.evaluate("document.querySelector('#curve').layout.paper_bgcolor")
    page.check(f"input[name=theme][value={'dark' if scheme == 'light' else 'light'}]")
    assert page.evaluate("document.querySelector('#curve').layout.paper_bgcolor") != before
    assert complaints == []
    page.close()
