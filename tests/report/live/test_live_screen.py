"""The live screens as a person meets them: drawn, narrow, ended, and obeyed keys (by the pilot)."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

pytest.importorskip("textual", reason="textual is not installed")

from textual.widgets import DataTable, Input, Static

from trainload.analyse.live import LiveLayers, LiveMark, LiveState
from trainload.analyse.live.view import LayerShare
from trainload.record.follow import RunFollower
from trainload.report.live.screen import ChartBox, LiveScreen
from trainload.report.live.study_screen import StudyScreen


class Source:
    """A run that stands still and remembers what it was asked."""

    def __init__(self, view):
        self.now = view
        self.asked = []

    def view(self):
        return self.now

    def command(self, verb, *, words="", t_s=None):
        self.asked.append((verb, words, t_s))
        return f"asked to {verb}"


@pytest.fixture
def source(make_run):
    look = RunFollower(make_run(outcome=None, gpu=True, hostile=True)).look()
    state = LiveState(look.manifest)
    state.take(look)
    return Source(replace(state.view(1000.0), standing="running", outcome=None))


def pilot(app, steps, size=(140, 45)):
    """Run the app without a terminal and do some steps in it."""

    async def go():
        async with app.run_test(size=size) as driver:
            await driver.pause()
            await steps(driver)

    # A thread of its own: the browser of other tests leaves its loop in this one.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, go()).result()


def text_of(app, place):
    return str(app.query_one(place, Static).render())


def test_curves_figures_and_notes_are_drawn(source):
    source.now = replace(source.now, marks=(LiveMark(t_s=3.0, words="lr down [bold]"),))
    app = LiveScreen(source, told="page: http://127.0.0.1:1/")

    async def steps(_driver):
        assert "300 of 300" in text_of(app, "#head") and "\x1b" not in text_of(app, "#head")
        drawn = {
            box.id: "\n".join(box.render_line(y).text for y in range(box.content_size.height))
            for box in app.query(ChartBox)
        }
        assert len(drawn) == 6
        assert "validation loss" in drawn["chart-loss"]
        assert "of 16 GiB" in drawn["chart-memory"]
        assert sum(any(c > "⠀" for c in text) for text in drawn.values()) == 6
        notes = text_of(app, "#notes")
        assert "page: http" in notes and "mark at 3 s: lr down [bold]" in notes
        assert "--layers" in text_of(app, "#layers")

    pilot(app, steps)


def test_layers_so_far_are_a_table(source):
    share = LayerShare(layer="Net.conv1", class_name="Conv2d", time_s=0.002, fraction=0.4)
    layers = LiveLayers(window=2, step_s=0.005, parts=(("forward", 0.004),), layers=(share,))
    source.now = replace(source.now, layers=layers)
    app = LiveScreen(source)

    async def steps(driver):
        shown = driver.app.export_screenshot()
        assert "Net.conv1" in shown and "40.0" in shown and "Conv2d" in shown

    pilot(app, steps)


@pytest.mark.parametrize("size", [(80, 24), (50, 30), (200, 60)])
def test_it_fits_other_terminals(source, size):
    app = LiveScreen(source)

    async def steps(_driver):
        assert app.query_one("#charts").has_class("narrow") == (size[0] < 100)
        assert all(box.region.width > 0 for box in app.query(ChartBox))

    pilot(app, steps, size)


def test_ending_needs_to_be_confirmed(source):
    app = LiveScreen(source)

    async def steps(driver):
        await driver.press("y", "e", "e")
        await driver.pause(0.1)
        assert source.asked == []
        await driver.press("y", "y")
        await app.workers.wait_for_complete()
        assert [verb for verb, _, _ in source.asked] == ["end"]

    pilot(app, steps)


def test_a_window_is_asked_for_at_once(source):
    app = LiveScreen(source)

    async def steps(driver):
        await driver.press("t")
        await app.workers.wait_for_complete()
        assert [verb for verb, _, _ in source.asked] == ["trace"]

    pilot(app, steps)


def test_a_mark_has_the_moment_of_the_key_and_words(source):
    app = LiveScreen(source)

    async def steps(driver):
        pressed_s = time.monotonic()
        await driver.press("m")
        assert isinstance(app.focused, Input)
        await driver.press(*"quite eye", "enter")
        await app.workers.wait_for_complete()
        ((verb, words, t_s),) = source.asked
        assert (verb, words) == ("mark", "quite eye")
        assert pressed_s - 0.5 <= t_s <= time.monotonic()
        await driver.press("m", "escape")
        await driver.pause()
        assert len(source.asked) == 1 and app.focused is None

    pilot(app, steps)


@pytest.mark.parametrize("attached", [True, False])
def test_ctrl_c_belongs_to_the_run_of_the_terminal_alone(source, attached):
    app = LiveScreen(source, attached=attached)

    async def steps(driver):
        await driver.press("ctrl+c")
        await driver.pause(0.2)
        if attached:
            await app.workers.wait_for_complete()
        assert [verb for verb, _, _ in source.asked] == (["end"] if attached else [])

    pilot(app, steps)


def test_beside_a_run_it_goes_when_that_has_ended(source):
    app = LiveScreen(source, attached=True)

    async def steps(driver):
        source.now = replace(source.now, standing="ended", outcome="completed")
        app.look()
        await driver.pause(0.1)
        assert app._exit

    pilot(app, steps)


class Study:
    """A study's status that can be changed."""

    name, metric, stopping = "wide", "step_s", False
    planned, done, failed, running, queued, runs, disturbed = 4, 1, 0, 1, 0, 2, 0
    left_s, run_s, energy_j = 60.0, 30.0, None

    def __init__(self):
        cell = {"repetitions": 1, "reason": None}
        self.cells = [
            type("Cell", (), {**cell, "title": "a=1", "standing": "done", "value": 0.01}),
            type("Cell", (), {**cell, "title": "a=2", "standing": "running", "value": None}),
        ]
        self.stops = 0

    def status(self):
        return self

    def stop(self):
        self.stops += 1
        return "ends when the running cell has"


def test_a_study_is_a_table_and_can_be_stopped():
    study = Study()
    app = StudyScreen(study)

    async def steps(driver):
        table = app.query_one(DataTable)
        assert table.row_count == 2
        assert [str(c) for c in table.get_row_at(0)][:2] == ["a=2", "running"]
        study.cells[1].standing = "done"
        app.look()
        assert [str(c) for c in table.get_row_at(1)][:2] == ["a=2", "done"]
        await driver.press("s")
        assert study.stops == 1

    pilot(app, steps, (80, 24))
