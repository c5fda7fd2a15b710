"""Whether a step fits: replayed, judged, and never more sure with less memory."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from step_events import operation, step_events, tensor

from trainload.estimate.memory.device import find_device_memory, target_of
from trainload.estimate.memory.fit import (
    LEAST_CHANCE,
    MemoryRoom,
    Span,
    Spread,
    chance_of_running_out,
    estimate_memory,
    judge,
    most_that_fits,
)
from trainload.estimate.memory.op_trace import Allocation, Free, Mark
from trainload.estimate.memory.replay import (
    CATEGORIES,
    NOTHING,
    goes_through,
    needed_bytes,
    remembered,
    replay_trace,
    thin_curve,
)
from trainload.estimate.memory.spread import find_spread
from trainload.estimate.workspaces.script import Step, Temporaries
from trainload.hardware.catalogue import find_device, load_catalogue

MIB = 1 << 20
GIB = 1 << 30
SURE = {"fits": 2, "too close to call": 1, "does not fit": 0}


def exactly(size):
    return Span(value_bytes=size, low_bytes=size, high_bytes=size)


def room(capacity, *, overhead=0, reserved=0.03):
    return MemoryRoom(
        capacity=None if capacity is None else exactly(capacity),
        capacity_source=None,
        overhead=exactly(overhead),
        overhead_source="made up",
        spread=Spread(allocated=0.01, reserved=reserved, needed=reserved, source="made up"),
    )


@st.composite
def random_events(draw):
    """Operations with results, storages freed in any order, of any size."""
    sizes = draw(st.lists(st.integers(1, 64 * MIB), min_size=1, max_size=40))
    chances = draw(st.lists(st.booleans(), min_size=len(sizes), max_size=len(sizes)))
    names = draw(st.lists(st.sampled_from(["relu", "mm", "mul"]), min_size=1, max_size=40))
    events, live = [Mark(text="step begin", step=0)], []
    for number, size in enumerate(sizes):
        name = names[number % len(names)]
        category = ("weight", "activation", "temporary", "gradient")[number % 4]
        events.append(operation(name, "forward", 0, layer=f"l{number % 3}"))
        events.append(Allocation(storage=number, size_bytes=size, category=category))
        live.append(number)
        if chances[number] and live:
            events.append(Free(storage=live.pop(draw(st.integers(0, len(live) - 1)))))
    return events


def inside(one):
    """A product keeps a workspace; another operation takes one for a while."""
    if "mm" in one.name:
        return Temporaries(kept={"library": 3 * MIB})
    return Temporaries(
        steps=(Step(kind="take", number=0, size_bytes=MIB), Step(kind="give", number=0))
    )


@settings(max_examples=60, deadline=None)
@given(random_events())
def test_the_contents_sum_to_the_peak_and_the_need_lies_between(events):
    found = replay_trace(events, inside)
    assert found.peak.total_bytes == found.peak_allocated_bytes
    assert sum(found.peak.by_category.values()) == found.peak.total_bytes
    layers = sum(found.peak.activations_by_layer.values())
    assert layers == found.peak.by_category["activations"]
    least = needed_bytes(found)
    assert found.peak_allocated_bytes <= least <= found.peak_reserved_bytes
    assert goes_through(events, inside, found.peak_reserved_bytes)
    assert max((p.peak_bytes for p in found.curve), default=0) <= found.peak_allocated_bytes


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 40 * GIB),
    st.integers(1, 40 * GIB),
    st.integers(1, 40 * GIB),
    st.integers(0, 2 * GIB),
    st.floats(0, 0.3),
)
def test_more_memory_is_never_worse(need, one, other, overhead, spread):
    small, large = sorted((one, other))
    chances = [
        chance_of_running_out(need, room(size, overhead=overhead, reserved=spread))
        for size in (small, large)
    ]
    assert 0 <= chances[1] <= chances[0] <= 1
    assert SURE[judge(chances[1])] >= SURE[judge(chances[0])]


@settings(max_examples=40, deadline=None)
@given(st.integers(GIB, 100 * GIB), st.floats(0.001, 0.2))
def test_the_most_that_fits_fits_and_little_more_does_not(capacity, spread):
    offered = room(capacity, overhead=GIB // 2, reserved=spread)
    most = most_that_fits(offered)
    assert chance_of_running_out(most, offered) <= LEAST_CHANCE
    assert chance_of_running_out(most + (1 << 17), offered) > LEAST_CHANCE


def test_an_unknown_capacity_widens_what_is_too_close():
    need = 9 * GIB
    sharp = chance_of_running_out(need, room(10 * GIB))
    wide = MemoryRoom(
        capacity=Span(value_bytes=10 * GIB, low_bytes=8 * GIB, high_bytes=12 * GIB),
        capacity_source=None,
        overhead=exactly(0),
        overhead_source="made up",
        spread=Spread(allocated=0.01, reserved=0.03, needed=0.03, source="made up"),
    )
    assert sharp < 0.001 < chance_of_running_out(need, wide) < 0.5
    # A need that is small beside what is unknown still fits.
    assert judge(chance_of_running_out(50 * MIB, wide)) == "fits"


def test_a_step_says_where_and_of_what_its_peak_is():
    events = step_events(batch=64)
    found = estimate_memory(events, lambda _: NOTHING, room(None))
    parts = found.peak.by_category
    assert set(parts) == set(CATEGORIES)
    assert parts["weights"] == parts["optimizer"] == 3 * 4 * (1 << 16)
    assert parts["activations"] == 3 * 64 * 4 * (1 << 16)
    assert found.peak.phase == "backward" and found.peak.layer == "part0.l2"
    assert list(found.peak.activations_by_layer) == ["part0.l0", "part1.l1", "part0.l2"]
    assert found.verdict == "not known" and found.running_out is None
    assert found.allocated_bytes.low_bytes < found.peak.total_bytes
    assert found.peak.total_bytes < found.allocated_bytes.high_bytes
    assert {point.step for point in found.curve} == {1}


def test_verdicts_follow_the_capacity():
    events = step_events(batch=64)
    least = estimate_memory(events, lambda _: NOTHING, room(None)).least_bytes
    verdicts = [
        estimate_memory(events, lambda _: NOTHING, room(size)).verdict
        for size in (least // 2, least, 2 * least)
    ]
    assert verdicts == ["does not fit", "too close to call", "fits"]
    with_overhead = estimate_memory(events, lambda _: NOTHING, room(2 * least, overhead=2 * least))
    assert with_overhead.verdict == "does not fit"
    assert with_overhead.needed_bytes.value_bytes == 3 * least


def test_what_may_need_less_is_never_said_not_to_fit():
    events = step_events(batch=64)
    least = estimate_memory(events, lambda _: NOTHING, room(None)).least_bytes
    found = [
        estimate_memory(events, lambda _: NOTHING, room(size), at_most=True)
        for size in (least // 2, least, 2 * least)
    ]
    assert [one.verdict for one in found] == ["not known", "not known", "fits"]
    assert found[0].running_out is None and found[0].fits is None


def test_results_and_workspaces_come_in_the_order_of_the_operation():
    events = [
        Mark(text="step begin", step=0),
        operation("conv", "forward", 0, outputs=[tensor(7, 1), tensor(8, 1)]),
        Allocation(storage=7, size_bytes=10 * MIB, category="activation"),
        Allocation(storage=8, size_bytes=20 * MIB, category="activation"),
    ]
    steps = (
        Step(kind="take", number=0, size_bytes=100 * MIB),
        Step(kind="result", number=0),
        Step(kind="give", number=0),
        Step(kind="result", number=1),
    )
    found = replay_trace(events, lambda _: Temporaries(steps=steps))
    # The second result is made when the workspace is gone: 100 + 10, not 130.
    assert found.peak_allocated_bytes == 110 * MIB
    assert found.peak.by_category["workspaces"] == 100 * MIB
    assert found.curve[-1].allocated_bytes == 30 * MIB


def test_a_convolution_does_without_a_workspace_where_none_is_to_be_had():
    brief = (Step(kind="take", number=0, size_bytes=100 * MIB), Step(kind="give", number=0))
    copy = (*brief[:1], Step(kind="result", number=0), *brief[1:])
    for name, steps, goes in (("convolution", brief, True), ("convolution", copy, False),
                              ("roll", brief, False)):  # fmt: skip
        events = [
            Mark(text="step begin", step=0),
            operation(name, "forward", 0, outputs=[tensor(7, 1)]),
            Allocation(storage=7, size_bytes=30 * MIB, category="activation"),
        ]
        found = goes_through(events, lambda _, s=steps: Temporaries(steps=s), 60 * MIB)
        assert found is goes


def test_a_rule_is_asked_once_for_each_operation():
    asked = []

    def rule(one):
        asked.append(one)
        return NOTHING

    events = step_events(batch=1)
    known = remembered(rule)
    replay_trace(events, known)
    replay_trace(events, known)
    assert len(asked) == len({id(one) for one in asked})


def test_a_thinned_curve_keeps_its_summit_and_its_end():
    curve = replay_trace(step_events(batch=8, layers=60)).curve
    thin = thin_curve(curve, 20)
    assert len(thin) == 20 and thin[-1] == curve[-1]
    assert max(p.peak_bytes for p in thin) == max(p.peak_bytes for p in curve)
    assert thin_curve(curve, 1000) == curve


def test_devices_of_the_catalogue():
    h200 = find_device_memory(find_device("h200"))
    assert h200.room.capacity == exactly(150_109_880_320) and h200.capability == (9, 0)
    assert h200.notes == ()
    tx2 = find_device_memory(find_device("jetson-tx2"))
    assert "shared with the system" in tx2.notes[0] and tx2.capability == (6, 2)
    nominal = find_device("jetson-tx2").value("memory_bytes")
    assert tx2.room.capacity.high_bytes < nominal
    assert tx2.room.spread.reserved == pytest.approx(2 * h200.room.spread.reserved)
    for device in load_catalogue().values():
        found = find_device_memory(device)
        if found.target == "cpu":
            assert found.room.capacity is None
        elif device.maker == "NVIDIA":
            assert not any("not known" in note for note in found.notes), device.name
    assert target_of(find_device("epyc-7742")) == target_of(find_device("jetson-nano-cpu")) == "cpu"
    assert find_device_memory(find_device("h200"), "cpu").target == "cpu"


def test_the_spread_of_a_device_that_nobody_measured_is_wider():
    known, unknown = find_spread("sm90"), find_spread("sm62")
    assert unknown.allocated > known.allocated and "nobody measured" in unknown.source
