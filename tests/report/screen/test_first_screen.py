"""The first screen: at most 24 lines for every kind of run, and what must stand on it."""

import re
from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from layers_samples import make_layers, make_rank

from trainload.analyse import summarise_run
from trainload.analyse.attribution.types import Advice, RunLayers, Topic
from trainload.analyse.findings import NO_STEPS
from trainload.record import open_run
from trainload.report.layers.tree import parents_of, with_totals
from trainload.report.screen.bar import Share, bar_cells
from trainload.report.screen.content import MORE, first_screen
from trainload.report.screen.layout import MOST_LINES, lay_out, plain_lines
from trainload.report.screen.short_advice import render_short_advice

LONG = "RuntimeError: the size of tensor a (512) must match the size of tensor b (64) " * 8
DRAWN = re.compile(r"[\u2500-\u259f]")


def advice_of_everything():
    return tuple(
        Advice(topic=topic, fraction=0.3, gain_s=0.005, gain_low_s=0.002, gain_high_s=0.008)
        for topic in get_args(Topic)
    )


@pytest.fixture(scope="module")
def screens(write_one, tmp_path_factory):
    """Every kind of run that a user meets."""
    folder = tmp_path_factory.mktemp("screens")

    def shown(layers=None, money=None, **options):
        run = open_run(write_one(folder, **options))
        return first_screen(summarise_run(run), run.manifest, layers, money=money)

    traced = replace(make_layers(), advice=advice_of_everything())
    ranks = make_layers(3)
    warned = {"warnings": [f"{n}: {LONG}" for n in range(9)]}
    return {
        "built-in": shown(),
        "script on a GPU": shown(traced, "0.05 USD " + "to rent " * 30, script=True, gpu=True),
        "failed": shown(outcome="failed", reason=LONG),
        "interrupted": shown(traced, outcome="interrupted", reason="Ctrl-C", gpu=True),
        "out of memory": shown(outcome="out_of_memory", reason=LONG, gpu=True, epochs=0),
        "without steps": shown(script=True, epochs=0),
        "ranks": shown(ranks, gpu=True, changes={"processes": 3}),
        "warned": shown(traced, "1 USD", gpu=True, outcome="failed", reason=LONG, changes=warned),
        "running": shown(outcome=None),
        "hostile": shown(hostile=True, gpu=True),
    }


def text_lines(screen, width):
    return ["".join(text for text, _ in line) for line in lay_out(screen, width)]


def test_every_kind_of_run_fits_one_screen(screens):
    for name, screen in screens.items():
        for width in (60, 80, 100, 120, 200):
            lines = text_lines(screen, width)
            assert len(lines) <= MOST_LINES, (name, width, lines)
            assert max(map(len, lines)) <= min(width, 120), (name, width)
            assert lines[-1] == MORE
            assert "provenance" not in "\n".join(lines)


def test_a_narrow_terminal_has_more_lines_and_loses_no_section(screens):
    for name, screen in screens.items():
        lines = text_lines(screen, 40)
        assert max(map(len, lines)) <= 40, name
        assert len(lines) <= 2 * MOST_LINES, name
        assert lines[-1] == MORE
        for title in filter(None, (screen.bar_title, screen.layers_title)):
            assert any(line.startswith(title[:30]) for line in lines)


def test_cost_bar_layers_and_advice_are_there(screens):
    text = "\n".join(text_lines(screens["script on a GPU"], 100))
    assert text.startswith("completed  train · torch · cpu0-1+gpu0\n")
    for label in ("time", "memory", "energy", "money", "watching it"):
        assert re.search(rf"^{label} ", text, re.MULTILINE), label
    assert "by GPU 0 at 300 W" in text
    assert "where each step goes (26.3 ms on average)" in text and "▓ backward 60 %" in text
    assert "costliest layers" in text and "layer3.0.conv3 Conv2d" in text
    assert " ".join(text.split()).count("saves about 19 % of a step (8–30 %)") == 3


def test_a_run_that_is_not_traced_shows_where_its_time_went(screens):
    text = "\n".join(text_lines(screens["built-in"], 100))
    assert "where the 19.1 s went" in text and "█ training" in text
    assert "run it with --layers" in text


def test_losses_of_a_script_are_those_that_were_seen(write_one, tmp_path):
    for script, last in ((True, "last step seen"), (False, "last step")):
        run = open_run(write_one(tmp_path, script=script))
        summary = replace(summarise_run(run), first_loss=2.5, last_loss=0.5, final=None)
        costs = dict(first_screen(summary, run.manifest).costs)
        assert costs["loss"] == f"0.5 in the {last}, 2.5 in the first"


def test_the_outcome_is_told_with_its_reason(screens):
    shown = screens
    failed = text_lines(shown["failed"], 80)
    assert failed[0].startswith("failed  ") and failed[2].startswith("RuntimeError: the size")
    assert text_lines(shown["interrupted"], 80)[2] == "Ctrl-C"
    empty = text_lines(shown["without steps"], 80)
    assert empty[0].startswith("completed, but no step was seen")
    words = " ".join(line.strip() for line in empty)
    assert "with trainload.watch(...)" in words and NO_STEPS.partition(":")[0] in words
    assert any("3 processes" in line for line in text_lines(shown["ranks"], 80))
    assert "costliest layers, rank 0 of 3" in text_lines(shown["ranks"], 80)


def test_a_figure_stays_beside_its_unit(screens):
    for screen in screens.values():
        for width in range(40, 121):
            for line in text_lines(screen, width):
                assert not re.match(r" *(ms|s|%|GiB|MiB|kJ|W)\b", line), (width, line)


def test_hidden_warnings_are_counted(screens):
    lines = text_lines(screens["warned"], 80)
    assert any(re.fullmatch(r"\d+ more warnings: --all", line) for line in lines)


def test_plain_lines_draw_nothing(screens):
    for name, screen in screens.items():
        lines = plain_lines(screen)
        assert not DRAWN.search("\n".join(lines)), name
        assert all(re.match(r"[^:]+: ", line) or line == screen.hint for line in lines), name
    told = plain_lines(screens["script on a GPU"])
    assert any(line.startswith("costly layer 1: layer") for line in told)
    assert any(line.startswith("advice 3: ") for line in told)


def test_text_of_others_steers_nothing(screens):
    text = "\n".join(text_lines(screens["hostile"], 80))
    assert "\x1b" not in text and "\u202e" not in text and "[bold]" in text


@pytest.mark.parametrize(
    ("optimizer", "word", "other"),
    [("RMSprop", "foreach=True", "fused"), ("AdamW", "fused=True", "foreach")],
)
def test_short_advice_names_no_option_that_the_optimizer_lacks(optimizer, word, other):
    words = "its operations work on one tensor at a time"
    advice = Advice(topic="update_unfused", fraction=0.3, subject=optimizer, evidence=words)
    told = render_short_advice(advice, device="cpu", step_s=0.1)
    assert word in told and other not in told


@pytest.mark.parametrize("topic", get_args(Topic))
def test_short_advice_has_act_and_gain(topic):
    for device in ("cpu", "cuda:0"):
        for subject in (None, "rank 3", "layer1.0"):
            advice = Advice(topic=topic, fraction=0.31, subject=subject, gain_s=0.01,
                            gain_low_s=0.005, gain_high_s=0.02)  # fmt: skip
            words = render_short_advice(advice, device=device, step_s=0.1)
            assert words.startswith("saves about 10 % of a step (5–20 %): ")
            assert "; " in words and "{" not in words and "None" not in words
            assert len(words) < 220


def test_advice_without_a_gain_and_of_an_unknown_topic_is_told_too():
    advice = Advice(topic="memory_short", fraction=0.97, subject="fc", evidence="GPU 0")
    words = render_short_advice(advice, device="cuda:0", step_s=0.1)
    assert words.startswith("smaller batches, ") and "saves" not in words
    assert words.endswith("; memory is 97 % full, most of it by fc")
    other = replace(advice, topic="new_matter")
    assert "new matter of fc is 97.0 %" in render_short_advice(other, device="cpu", step_s=0.1)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.integers(1, 1000), min_size=1, max_size=7), st.integers(20, 120))
def test_a_bar_fills_its_width_and_hides_nothing(parts, width):
    fractions = [part / 1000 for part in parts]
    shares = [Share(words="x", fraction=fraction, style="") for fraction in fractions]
    cells = bar_cells(shares, width)
    assert sum(cells) == width and min(cells) >= 1
    whole = sum(fractions)
    for count, fraction in zip(cells, fractions, strict=True):
        assert abs(count - fraction / whole * width) <= len(fractions)


def test_containers_carry_totals():
    nodes = make_rank().nodes
    totals, parents = with_totals(nodes), parents_of(nodes)
    assert totals[0].forward_s == pytest.approx(sum(node.forward_s for node in nodes))
    for at, node in enumerate(nodes):
        assert totals[at].exclusive_s == pytest.approx(node.inclusive_s)
        below = [n for n, parent in enumerate(parents) if parent == at]
        summed = node.memory.parameters + sum(totals[n].memory.parameters for n in below)
        assert totals[at].memory.parameters == summed
    assert totals[0].memory.peak_bytes == max(node.memory.peak_bytes for node in nodes)


def test_a_run_whose_trace_names_no_layer_has_a_bar_alone(make_run):
    run = open_run(make_run())
    layers = RunLayers(ranks=(make_rank(paths=[]),), advice=())
    screen = first_screen(summarise_run(run), run.manifest, layers)
    assert screen.layers == () and screen.layers_title is None
    assert len(text_lines(screen, 80)) <= MOST_LINES
