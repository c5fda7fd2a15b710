"""The simulated CUDA caching allocator: cases worked by hand from its rules, and invariants."""

import gzip
import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allocator_replay import compare, load_histories
from trainload.estimate.memory.allocator import (
    AllocatorCurve,
    CachingAllocator,
    OutOfMemory,
    replay,
    round_bytes,
    segment_bytes,
)

KIB, MIB = 1 << 10, 1 << 20


@pytest.mark.parametrize(
    ("asked", "booked"), [(1, 512), (512, 512), (513, 1024), (MIB, MIB), (MIB + 1, MIB + 512)]
)
def test_sizes_are_rounded_to_512_bytes(asked: int, booked: int) -> None:
    assert round_bytes(asked) == booked


@pytest.mark.parametrize(
    ("booked", "segment"),
    [
        (512, 2 * MIB),
        (MIB, 2 * MIB),
        (MIB + 512, 20 * MIB),
        (10 * MIB - 512, 20 * MIB),
        (10 * MIB, 10 * MIB),
        (10 * MIB + 512, 12 * MIB),
        (41 * MIB, 42 * MIB),
    ],
)
def test_segments_by_size_class(booked: int, segment: int) -> None:
    assert segment_bytes(booked) == segment


def test_small_requests_share_a_segment_until_it_is_full() -> None:
    allocator = CachingAllocator()
    for key in range(4):
        allocator.allocate(key, 512 * KIB)
    assert (allocator.allocated_bytes, allocator.reserved_bytes) == (2 * MIB, 2 * MIB)
    allocator.allocate(4, 1)
    assert (allocator.allocated_bytes, allocator.reserved_bytes) == (2 * MIB + 512, 4 * MIB)


def test_a_small_rest_of_512_bytes_is_split_off() -> None:
    allocator = CachingAllocator()
    allocator.allocate("most", MIB)
    allocator.allocate("more", MIB - 512)
    allocator.allocate("rest", 512)
    assert allocator.reserved_bytes == 2 * MIB


def test_a_large_rest_up_to_one_mib_stays_with_its_block() -> None:
    allocator = CachingAllocator()
    allocator.allocate("a", 19 * MIB)  # a segment of 20 MiB: the rest of 1 MiB is not split off
    assert (allocator.allocated_bytes, allocator.reserved_bytes) == (20 * MIB, 20 * MIB)


def test_a_large_rest_above_one_mib_is_split_off_and_reused() -> None:
    allocator = CachingAllocator()
    allocator.allocate("a", 2 * MIB)
    allocator.allocate("b", 17 * MIB)  # takes 17 of the 18 that are left, and keeps the last
    assert (allocator.allocated_bytes, allocator.reserved_bytes) == (20 * MIB, 20 * MIB)


def test_small_and_large_pools_do_not_share() -> None:
    allocator = CachingAllocator()
    allocator.allocate("large", 2 * MIB)
    allocator.free("large")
    allocator.allocate("small", 512)
    assert allocator.reserved_bytes == 22 * MIB


def test_the_smallest_block_that_fits_is_taken() -> None:
    allocator = CachingAllocator()
    for key, size in (("wide", 60 * MIB), ("fit", 32 * MIB)):
        allocator.allocate(key, size)
    allocator.free("wide")
    allocator.free("fit")
    allocator.allocate("x", 30 * MIB)
    allocator.allocate("y", 60 * MIB)
    assert allocator.reserved_bytes == 92 * MIB


def test_freed_neighbours_merge_on_both_sides() -> None:
    allocator = CachingAllocator()
    for key in "abc":
        allocator.allocate(key, 6 * MIB)
    for key in "acb":
        allocator.free(key)
    allocator.allocate("whole", 20 * MIB)
    assert allocator.reserved_bytes == 20 * MIB


def test_a_freed_block_serves_its_own_stream_only() -> None:
    allocator = CachingAllocator()
    allocator.allocate("a", 30 * MIB, stream=1)
    allocator.free("a")
    allocator.allocate("b", 30 * MIB, stream=2)
    allocator.allocate("c", 30 * MIB, stream=1)
    assert allocator.reserved_bytes == 60 * MIB


def test_cached_segments_are_given_back_before_memory_runs_out() -> None:
    allocator = CachingAllocator(capacity_bytes=100 * MIB)
    allocator.allocate("a", 60 * MIB)
    allocator.free("a")
    assert allocator.allocate("b", 80 * MIB) is None
    assert (allocator.reserved_bytes, allocator.peak_reserved_bytes) == (80 * MIB, 80 * MIB)
    assert allocator.retries == 1


def test_a_segment_in_partial_use_cannot_be_given_back() -> None:
    allocator = CachingAllocator(capacity_bytes=100 * MIB)
    allocator.allocate("a", 60 * MIB)
    allocator.free("a")
    allocator.allocate("corner", 11 * MIB)
    outcome = allocator.allocate("b", 80 * MIB)
    assert outcome == OutOfMemory(
        requested_bytes=80 * MIB,
        segment_bytes=80 * MIB,
        allocated_bytes=11 * MIB,
        reserved_bytes=60 * MIB,
        capacity_bytes=100 * MIB,
    )
    allocator.free("corner")
    assert allocator.allocate("b", 80 * MIB) is None


def test_nothing_is_held_for_an_empty_tensor() -> None:
    allocator = CachingAllocator()
    allocator.allocate("empty", 0)
    assert allocator.reserved_bytes == 0
    allocator.free("empty")
    assert not allocator.holds("empty")


def test_equal_blocks_are_told_apart_by_address() -> None:
    places = iter([64 * MIB, 0])
    allocator = CachingAllocator(place=lambda _: next(places))
    for key in ("high", "low"):
        allocator.allocate(key, 20 * MIB)
    for key in ("high", "low"):
        allocator.free(key)
    allocator.allocate("again", 16 * MIB)
    assert (0, 16 * MIB, False) in allocator.blocks()


def test_replay_draws_the_curve_and_keeps_marks() -> None:
    curve = replay(
        [
            ("m", "step begin", 0),
            ("a", 1, 30 * MIB, "weight"),
            ("o", "aten.relu.default", None, "forward", 0, [], [], {}),
            ("a", 2, 11 * MIB, "activation"),
            ("f", 2),
            ("m", "step end", 0),
            ("a", 3, 5 * MIB, "temporary"),
        ]
    )
    assert list(curve.allocated_bytes) == [30 * MIB, 42 * MIB, 30 * MIB, 35 * MIB]
    assert list(curve.reserved_bytes) == [30 * MIB, 42 * MIB, 42 * MIB, 42 * MIB]
    assert curve.marks == ((0, "step begin"), (3, "step end"))
    assert (curve.peak_index, curve.peak_allocated_bytes) == (1, 42 * MIB)
    assert curve.out_of_memory is None


def test_replay_ends_where_memory_runs_out() -> None:
    curve = replay([("a", 1, 30 * MIB), ("a", 2, 30 * MIB), ("f", 1)], capacity_bytes=50 * MIB)
    assert list(curve.reserved_bytes) == [30 * MIB]
    assert curve.out_of_memory is not None
    assert curve.out_of_memory.requested_bytes == 30 * MIB


def test_an_empty_replay_has_no_peak() -> None:
    curve = replay([])
    assert isinstance(curve, AllocatorCurve)
    assert (curve.peak_index, curve.peak_reserved_bytes) == (None, 0)


def test_the_bench_holds_a_recording_against_the_simulation(tmp_path: Path) -> None:
    rows = [
        ["s", 20 * MIB, 4096, 0],
        ["a", 2 * MIB, 4096, 0],
        ["f", 2 * MIB, 4096, 0],
        ["s", 40 * MIB, 1 << 30, 0],
        ["a", 30 * MIB, 1 << 30, 0],
    ]
    path = tmp_path / "made-up.history.jsonl.gz"
    with gzip.open(path, "wt") as stream:
        for line in ({"cap_bytes": None}, *rows):
            stream.write(json.dumps(line) + "\n")
    (history,) = load_histories(path)
    found = compare(history, recorded_addresses=True)
    # A driver that gave 40 MiB where the rules ask for 30: 10 of 60 MiB too few.
    assert found.worst_error_fraction == pytest.approx(1 / 6)
    assert found.peak_error_fraction == pytest.approx(-1 / 6)
    assert found.simulated_peak_allocated_bytes == 30 * MIB


_SIZES = st.one_of(st.integers(1, 4 * KIB), st.integers(1, 3 * MIB), st.integers(8 * MIB, 40 * MIB))
_STEPS = st.lists(st.tuples(_SIZES, st.integers(0, 3), st.integers(0, 1)), max_size=60)


@settings(deadline=None, max_examples=150)
@given(steps=_STEPS, capacity=st.one_of(st.none(), st.integers(20 * MIB, 300 * MIB)))
def test_books_balance_whatever_comes(
    steps: list[tuple[int, int, int]], capacity: int | None
) -> None:
    allocator = CachingAllocator(capacity)
    held: dict[int, int] = {}
    for key, (size, frees, stream) in enumerate(steps):
        if allocator.allocate(key, size, stream) is None:
            held[key] = round_bytes(size)
        for _ in range(min(frees - 1, len(held))):
            gone = next(iter(held))
            allocator.free(gone)
            del held[gone]
        _check(allocator, sum(held.values()), capacity)
    for key in held:
        allocator.free(key)
    assert allocator.allocated_bytes == 0
    assert allocator.release_cached() == allocator.peak_reserved_bytes or allocator.retries
    assert allocator.reserved_bytes == 0
    assert allocator.blocks() == []


def _check(allocator: CachingAllocator, asked: int, capacity: int | None) -> None:
    blocks = allocator.blocks()
    for (address, size, _), (after, _, _) in itertools.pairwise(blocks):
        assert address + size <= after
    assert sum(size for _, size, _ in blocks) == allocator.reserved_bytes
    assert sum(size for _, size, free in blocks if not free) == allocator.allocated_bytes
    assert asked <= allocator.allocated_bytes <= allocator.reserved_bytes
    assert capacity is None or allocator.reserved_bytes <= capacity
