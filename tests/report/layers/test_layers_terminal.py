"""The attribution on a terminal: what is shown, what is folded, which words advise."""

import io
import json
import re
from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from layers_samples import make_layers, make_rank, module_paths
from rich.console import Console

from trainload.analyse.attribution.types import Advice, RunLayers, Topic, WindowCost
from trainload.report import layers_json, render_layers
from trainload.report.layers.rows import rank_rows
from trainload.report.layers.terminal import render_bar
from trainload.report.layers.tree import costliest_lines, parents_of, prune_tree
from trainload.report.layers.wording import ordered_parts, render_advice, render_cost

HOSTILE = "[bold]<b>\x1b[31m\u202e"


def text_of(renderable, width=160):
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    console.print(renderable)
    return console.file.getvalue()


def test_the_head_holds_step_device_share_and_cost():
    text = text_of(render_layers(make_layers()))
    assert text.startswith(
        "where each step goes  traced step 26.3 ms (mean, corrected) on cuda:0 · "
        "98.4 % explained · 3 windows cost 210 ms, 1.8 % of the training (budget 3.0 %)"
    )


def test_every_part_is_listed_with_its_share():
    layers = make_layers()
    text = text_of(render_layers(layers))
    listed = [line for line in text.splitlines() if "█" in line or "▎" in line or "▋" in line]
    assert any(line.startswith("backward") and "59.9 %" in line for line in listed)
    assert "remainder, unexplained" in text
    assert "communication" not in text  # a part of no time is no part
    assert sum(layers.ranks[0].parts.values()) == pytest.approx(layers.ranks[0].step_s)


def test_the_costliest_layers_stand_in_the_tree_and_the_rest_is_counted():
    text = text_of(render_layers(make_layers(), top=1))
    tree = text[text.index("layer  ") : text.index("what to do next")]
    assert "layer3.0.conv3 Conv2d" in tree
    assert "… 103 more layers" in tree
    assert "layer1" not in tree
    tree = text_of(render_layers(make_layers(), top=5))
    for stage in range(1, 5):  # each container with the total of all below it
        assert re.search(rf"├ layer{stage} Sequential +[1-9]", tree)


def test_a_parent_stands_only_where_costly_layers_part():
    lines = costliest_lines(make_rank().nodes, 15)
    labels = [line.label for line in lines if line.node is not None]
    assert labels[0] == "ResNet"
    assert "layer1" in labels and "0.conv3" in labels  # block 0 leads to one costly layer only
    assert "1" in labels and "conv1" in labels


@given(
    stages=st.integers(1, 4), blocks=st.integers(1, 4), most=st.integers(1, 60), own=st.booleans()
)
def test_no_time_and_no_layer_is_lost_by_folding(stages, blocks, most, own):
    nodes = make_rank(paths=module_paths(stages, blocks), steps=1).nodes
    told = costliest_lines(nodes, most, containers=True)
    for lines in (told, (costliest_lines if own else prune_tree)(nodes, most)):
        _check_nothing_lost(nodes, lines)


def _check_nothing_lost(nodes, lines):
    shown = [line.node for line in lines if line.node is not None]
    assert len(shown) + sum(line.folded for line in lines) == len(nodes)
    kept_s = sum(node.exclusive_s for node in shown) + sum(line.folded_s for line in lines)
    assert kept_s == pytest.approx(sum(node.exclusive_s for node in nodes))
    for at, line in enumerate(lines):
        assert line.parent is None or line.parent < at
        assert line.depth == (0 if line.parent is None else lines[line.parent].depth + 1)


def test_parents_are_the_nearest_that_are_there():
    paths = [("", "Net"), ("a", "X"), ("a.b.c", "Y"), ("d.e", "Z")]
    assert parents_of(make_rank(paths=paths).nodes) == [None, 0, 1, 0]


def test_a_narrow_terminal_leaves_columns_out_and_says_so():
    layers = make_layers()
    wide, narrow = (text_of(render_layers(layers), width) for width in (160, 80))
    assert "activations" in wide and "J (" in wide
    assert "a wider terminal" not in wide
    assert "show parameters, activations, peak" in narrow
    assert all(len(line) <= 80 for line in narrow.splitlines())


def test_what_is_not_known_has_no_column():
    text = text_of(render_layers(make_layers(memory=False, energy=False)))
    assert "activations" not in text and "energy" not in text and " J" not in text


def test_several_ranks_stand_beside_each_other_and_one_is_chosen():
    layers = make_layers(3)
    text = text_of(render_layers(layers, rank=1))
    (straggler,) = [line for line in text.splitlines() if line.rstrip().endswith("straggler")]
    assert straggler.startswith("2 ")
    assert "\nrank 1\n" in text
    assert "the other processes wait 7.0 % of the step for rank 2" in text


def test_text_of_others_is_no_markup():
    rank = make_rank(paths=[("", HOSTILE), (HOSTILE, HOSTILE)], root=HOSTILE, notes=[HOSTILE])
    advice = (Advice(topic="memory_short", fraction=0.5, subject=HOSTILE),)
    text = text_of(render_layers(RunLayers(ranks=(rank,), advice=advice)))
    assert "[bold]<b>" in text
    assert "\x1b" not in text and "\u202e" not in text


def test_a_trace_from_elsewhere_has_no_budget_and_no_correction():
    text = text_of(render_layers(make_layers(corrected=False, budget=None)))
    assert "3 windows of a trace from elsewhere" in text
    assert "as traced: no untraced step is known" in text


def test_a_run_without_modules_or_ranks_says_so():
    assert "no layer is known" in text_of(render_layers(make_layers(paths=[])))
    assert "no step was traced" in text_of(render_layers(RunLayers(ranks=(), advice=())))


@pytest.mark.parametrize("topic", get_args(Topic))
def test_every_advice_has_its_figure_and_an_act(topic):
    for subject in (None, "layer1.0", "rank 3"):
        advice = Advice(
            topic=topic, fraction=0.314, subject=subject, gain_s=0.0031, gain_low_s=0.0015,
            gain_high_s=0.0042,
        )  # fmt: skip
        sentence = render_advice(advice)
        assert sentence.endswith("; expected gain 3.1 ms a step (1.5 ms … 4.2 ms)")
        assert "31.4 %" in sentence or topic in ("swapping", "throttling", "contention")
        assert ": " in sentence
        assert "{" not in sentence and "None" not in sentence


def test_input_wait_names_the_workers():
    assert render_advice(Advice(topic="input_wait", fraction=0.31)) == (
        "input wait is 31.0 % of the step: let loader workers read ahead (num_workers, "
        "prefetch_factor, if not already) or prepare the data once, before training"
    )


def test_of_several_processes_the_one_meant_is_named():
    advice = Advice(topic="input_wait", fraction=0.31, subject="rank 1")
    assert render_advice(advice).startswith("input wait of rank 1 is 31.0 % of the step: ")
    advice = Advice(topic="host_bound", fraction=0.2, subject="rank 1")
    assert "the device of rank 1 stands idle" in render_advice(advice)


def test_a_cpu_has_no_device_to_stand_idle():
    advice = Advice(topic="host_bound", fraction=0.2, subject="lstm")
    assert "the way to the operations" in render_advice(advice, device="cpu")
    assert "the device stands idle" in render_advice(advice, device="cuda:0")


def test_the_cost_of_one_window_is_worded():
    cost = WindowCost(windows=1, cost_s=0.5, fraction=None, budget=0.03)
    assert render_cost(cost) == "1 window cost 500 ms (budget 3.0 %)"


def test_a_cost_above_the_budget_says_so():
    cost = WindowCost(windows=2, cost_s=0.5, fraction=0.07, budget=0.03)
    words = "2 windows cost 500 ms, 7.0 % of the training (over its budget of 3.0 %)"
    assert render_cost(cost) == words


def test_unknown_parts_stand_before_the_remainder():
    parts = {"remainder": 1.0, "new": 2.0, "forward": 3.0}
    assert [name for name, _ in ordered_parts(parts)] == ["forward", "new", "remainder"]


@given(st.floats(0, 1), st.integers(1, 40))
def test_a_bar_is_as_long_as_its_share(fraction, cells):
    bar = render_bar(fraction, cells)
    assert len(bar) <= cells
    assert abs(len(bar) - fraction * cells) <= 1
    assert (bar == "") == (fraction == 0)


def test_json_holds_figures_and_no_rows():
    values = json.loads(json.dumps(layers_json(make_layers(2)), allow_nan=False))
    rank = values["ranks"][0]
    assert [r["rank"] for r in values["ranks"]] == [0, 1]
    assert sum(rank["parts_s"].values()) == pytest.approx(rank["step_s"])
    assert "rows" not in rank
    assert rank["layers"][1]["layer"] == "conv1"
    assert rank["layers"][1]["memory"]["parameters"] == 73728
    assert values["advice"][0]["sentence"].startswith("input wait is 31.0 %")


def test_without_a_straggler_the_one_with_most_work_is_the_slowest():
    quick, slow = make_rank(0, communication_us=900), make_rank(1, communication_us=900)
    slow = replace(slow, step_s=slow.step_s + 1e-4)
    rows = rank_rows(RunLayers(ranks=(quick, slow), advice=()))
    assert [row[-1] for row in rows] == ["", "slowest"]
    assert rank_rows(RunLayers(ranks=(quick,), advice=()))[0][-1] == ""


def test_a_very_long_name_leaves_room_for_the_figures():
    rank = make_rank()
    nodes = tuple(replace(node, layer="x" * 3000 if node.layer else "") for node in rank.nodes)
    text = text_of(render_layers(RunLayers(ranks=(replace(rank, nodes=nodes),), advice=())))
    line = next(line for line in text.splitlines() if "xxx" in line)
    assert "…" in line and "%" in line
