"""The page of `make demo`: parts in order, each with its command, one run's plots drawn."""

import sys
from pathlib import Path

import pytest

import trainload
from trainload.report.memory.ranking import DeviceRow
from trainload.report.run.plots import plot_run
from trainload.report.run.view import RunView
from trainload.report.story import (
    StoryPart,
    fit_table,
    printed_text,
    render_story,
    run_in_full,
)

EXAMPLES = Path(__file__).parents[2] / "examples"


def row(name, verdict, left):
    return DeviceRow(
        name=name,
        verdict=verdict,
        needed_bytes=9 * 2**30,
        capacity_bytes=None if left is None else 9 * 2**30 + left,
        left_bytes=left,
        running_out=None,
        step_s=None,
        missing=None,
        notes=(),
    )


def test_a_story_asks_answers_and_names_its_commands(make_run):
    run = trainload.load(make_run())
    plots = plot_run(run, run.summary, None)
    view = RunView(run=run, summary=run.summary, plots=plots, anchor="run-1", layers=None)
    parts = [
        StoryPart(
            name="fit",
            question="Will it fit?",
            answer="One <of> two.",
            command="trainload estimate x",
            body=fit_table([row("big", "fits", 2**30), row("small", "does not fit", -(2**30))]),
        ),
        StoryPart(
            name="run",
            question="Where?",
            answer="Here.",
            command="trainload run mlp",
            body=run_in_full(view) + printed_text("a <b>\n c"),
            views=(view,),
        ),
    ]
    page = render_story("What does it cost?", "Two questions.", parts)
    assert page.index("1. Will it fit?") < page.index("2. Where?")
    assert "One &lt;of&gt; two." in page and "a &lt;b&gt;\n c" in page
    assert ">$ trainload estimate x</pre>" in page
    assert "−1 GiB" in page and page.count('id="run-1"') == 1
    assert '"full":[{' in page and "default-src 'none'" in page


def test_a_device_without_figures_has_dashes():
    assert fit_table([row("cpu", "not known", None)]).count("–") >= 2


@pytest.fixture
def demo(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.delitem(sys.modules, "demo", raising=False)
    import demo

    return demo


@pytest.mark.framework("torch")
def test_the_demo_tells_a_run_and_what_a_verb_printed(demo, tmp_path, capsys):
    pytest.importorskip("torch")
    part = demo.tell_printed("models", "Which models?", "models lenet5")
    assert part.command == "trainload models lenet5" and part.body.startswith("<pre ")
    assert "$ trainload models lenet5" in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        demo.tell_printed("none", "What?", "models nothing-like-it")
    assert ended.value.code == 2


def test_the_demo_is_a_study_of_four_cells(demo, tmp_path):
    from trainload.api.studying import plan

    file = tmp_path / "study.yaml"
    file.write_text(demo.STUDY)
    assert len(plan(str(file), out=tmp_path).cells) == 4
