"""The step's difference by layer: sums, shared pace, new and vanished layers, no traces."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layers_samples import make_rank

from compare_samples import make, side, traced_side
from trainload.analyse.attribution.partition import Part
from trainload.analyse.compare import NOT_EXPLAINED, Known, PartKey, Side, compare_sides, parts_of
from trainload.analyse.compare.operations import by_part, name_operations


def explained(a, b):
    return compare_sides(a, b, Known())


def total(found):
    return math.fsum(part.difference_s for part in found.layers)


def test_parts_sum_to_the_steps_difference_and_name_the_layer():
    draw = random.Random(1)
    a = traced_side("a", 4, draw)
    b = traced_side("b", 4, draw, slower="body.conv", by=1.5)
    found = explained(a, b)
    assert total(found) == pytest.approx(found.metrics[0].difference, rel=1e-12)
    first = found.layers[0]
    assert (first.path, first.phase, first.verdict) == ("body.conv", "forward", "slower")
    assert first.difference_s == pytest.approx(0.010, rel=0.1)
    assert first.own_low_s < first.own_s < first.own_high_s
    assert found.layers[-1].path == NOT_EXPLAINED
    assert [part.path for part in found.layers if part.verdict == "slower"] == ["body.conv"]
    assert abs(found.shared_fraction) < 0.05


def test_load_that_stretches_whole_runs_does_not_hide_the_layer():
    draw = random.Random(2)
    a = traced_side("a", 4, draw, paces=[1.0, 1.9, 1.2, 1.5])
    b = traced_side("b", 4, draw, paces=[1.6, 1.1, 2.2, 1.3], slower="stem", by=1.6)
    found = explained(a, b)
    assert found.metrics[0].verdict == "inconclusive"  # the step itself cannot be told
    assert (found.layers[0].path, found.layers[0].verdict) == ("stem", "slower")
    assert total(found) == pytest.approx(found.metrics[0].difference, rel=1e-12)


def test_a_change_that_all_parts_share_is_told_as_such():
    draw = random.Random(3)
    a, b = traced_side("a", 4, draw), traced_side("b", 4, draw, paces=[1.5] * 4)
    found = explained(a, b)
    assert found.shared_fraction == pytest.approx(0.5, abs=0.05)
    large = [part for part in found.layers if part.a_s > 0.005]
    assert {part.verdict for part in large} == {"slower"}  # each of them is, in seconds
    assert all(part.own_low_s < 0 < part.own_high_s for part in large)


def test_layers_of_one_side_alone_are_kept():
    draw = random.Random(4)
    a, b = traced_side("a", 3, draw), traced_side("b", 3, draw)
    new, gone = PartKey("extra", "forward"), PartKey("head", "forward")
    for at, run in enumerate(b.runs):
        run.parts[new] = 0.004 + at * 1e-5
        del run.parts[gone]
    b = Side(name="b", runs=tuple(
        make(run.name, step_s=math.fsum(run.parts.values()), parts=run.parts) for run in b.runs
    ))  # fmt: skip
    found = explained(a, b)
    told = {(part.path, part.phase): part for part in found.layers}
    assert told["extra", "forward"].change == "new" and told["extra", "forward"].verdict == "slower"
    assert told["head", "forward"].change == "vanished" and told["head", "forward"].b_s == 0
    assert told["head", "forward"].verdict == "faster"
    assert total(found) == pytest.approx(found.metrics[0].difference, rel=1e-12)


def test_single_runs_have_parts_and_no_verdicts():
    draw = random.Random(5)
    found = explained(traced_side("a", 1, draw), traced_side("b", 1, draw, slower="head", by=3.0))
    assert found.layers[0].path == "head" and found.layers[0].low_s is None
    assert {part.verdict for part in found.layers} == {"inconclusive"}
    assert total(found) == pytest.approx(found.metrics[0].difference, rel=1e-12)


def test_without_traces_everything_is_not_explained():
    found = explained(side("a", [1.0, 1.1]), side("b", [2.0, 2.1]))
    (rest,) = found.layers
    assert rest.path == NOT_EXPLAINED and rest.difference_s == found.metrics[0].difference
    assert any("no traced layers in A and B" in note for note in found.notes)


def test_equal_sets_seldom_name_a_layer():
    draw = random.Random(6)
    named = 0
    for _ in range(60):
        sides = [
            traced_side(n, 4, draw, noise=0.1, paces=[math.exp(draw.gauss(0, 0.3)) for _ in "1234"])
            for n in "ab"
        ]
        named += any(p.verdict in ("slower", "faster") for p in explained(*sides).layers)
    assert named <= 6


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(0.5, 2.0), min_size=1, max_size=4),
    st.lists(st.floats(0.5, 2.0), min_size=1, max_size=4),
    st.floats(0.2, 5.0),
    st.integers(0, 1000),
)
def test_parts_always_sum_to_the_difference(a_paces, b_paces, by, seed):
    draw = random.Random(seed)
    a = traced_side("a", len(a_paces), draw, paces=a_paces)
    b = traced_side("b", len(b_paces), draw, paces=b_paces, slower="stem", by=by)
    found = explained(a, b)
    assert total(found) == pytest.approx(found.metrics[0].difference, rel=1e-9, abs=1e-15)


def test_an_attribution_becomes_parts_that_sum_to_the_runs_step_time():
    rank = make_rank()
    found = parts_of(rank, 0.1)
    assert math.fsum(found.values()) == pytest.approx(0.1)
    assert PartKey("layer1.0.conv1", "forward") in found  # the root is no part of the path
    assert (
        PartKey("layer1.0.conv1", "idle") in found and PartKey("idle: synchronise", None) in found
    )
    assert PartKey("(model)", "idle") in found and PartKey("copies", None) in found
    assert parts_of(rank, None) is None


def test_the_operation_that_changed_most_is_named_where_both_sides_tell_some():
    draw = random.Random(7)
    found = explained(traced_side("a", 3, draw), traced_side("b", 3, draw, slower="stem", by=2.0))
    stem = Part("layer", "Net", "stem", "forward")
    before = by_part({stem: {"aten::conv2d": 0.008, "aten::add": 0.002}})
    after = by_part({stem: {"aten::conv2d": 0.017, "aten::add": 0.001, "aten::mul": 0.002}})
    first = name_operations(found, [before], [after]).layers[0]
    assert first.path == "stem" and first.operation == "aten::conv2d"
    assert first.operation_s == pytest.approx(0.009)
    assert name_operations(found, [before], [{}]) == found
