"""Resident memory of CPU training: malloc's rules, oneDNN's copies, and what a trace adds up to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainload.estimate.memory.heap import PAGE_BYTES, GlibcHeap
from trainload.estimate.memory.op_trace import Allocation, Free, Mark, Operation, TraceTensor
from trainload.estimate.memory.ram import (
    LIBRARIES_BYTES,
    MOST_LIBRARIES_BYTES,
    estimate_ram,
)

MIB = 1 << 20


def tensor(*shape, storage=0):
    return TraceTensor(shape=shape, dtype="float32", strides=None, storage=storage)


def operation(name, inputs, outputs, phase="forward"):
    return Operation(
        name=name, layer=None, phase=phase, step=0, inputs=inputs, outputs=outputs, attributes=()
    )


def held(storage, size_bytes):
    return Allocation(storage=storage, size_bytes=size_bytes, category="temporary")


def test_a_large_request_has_a_mapping_of_its_own_and_gives_it_back():
    heap = GlibcHeap()
    heap.allocate("a", 40 * MIB)
    assert 40 * MIB <= heap.resident_bytes < 40 * MIB + 3 * PAGE_BYTES
    heap.free("a")
    assert heap.resident_bytes < PAGE_BYTES
    assert heap.peak_bytes >= 40 * MIB


def test_a_freed_mapping_raises_the_threshold_and_the_heap_keeps_what_is_freed_later():
    heap = GlibcHeap()
    heap.allocate("a", 16 * MIB)
    heap.free("a")
    for key in "bcd":
        heap.allocate(key, 16 * MIB)
    heap.free("b")
    assert heap.held_bytes == 32 * MIB
    assert heap.resident_bytes >= 48 * MIB


def test_a_freed_place_is_too_short_for_the_same_size_while_its_rest_is_taken():
    heap = GlibcHeap()
    heap.allocate("first", 16 * MIB)
    heap.free("first")
    for number in range(12):
        heap.allocate(number, 10 * MIB, for_backward=True)
    for number in range(1, 12, 2):
        heap.free(number)
    before = heap.resident_bytes
    heap.allocate("too long", 10 * MIB)
    assert heap.resident_bytes >= before + 10 * MIB
    heap.allocate("shorter", 9 * MIB)
    assert heap.resident_bytes < before + 11 * MIB
    # Once the objects go, all but the cached rests join their neighbours.
    for number in range(0, 12, 2):
        heap.free(number)
    heap.settle()
    heap.allocate("same", 10 * MIB)
    assert heap.resident_bytes < before + 11 * MIB


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 40 * MIB)), max_size=60))
def test_what_is_held_is_resident_and_nothing_is_left_when_all_is_freed(steps):
    heap, live = GlibcHeap(), set()
    for key, size in steps:
        if key in live:
            heap.free(key)
            live.discard(key)
        else:
            heap.allocate(key, size)
            live.add(key)
        assert heap.held_bytes <= heap.resident_bytes <= heap.peak_bytes
    for key in live:
        heap.free(key)
    assert heap.held_bytes == 0
    # The cache keeps a few small chunks, which may stand at the heap's end.
    assert heap._top <= heap._break


def test_a_convolution_holds_copies_of_input_weights_and_result():
    size = 8 * 16 * 64 * 64 * 4
    convolution = operation(
        "aten.convolution.default",
        (tensor(8, 16, 64, 64, storage=0), tensor(16, 16, 3, 3, storage=1)),
        (tensor(8, 16, 64, 64, storage=2),),
    )
    events = [Mark(text="step begin", step=0), held(0, size), convolution, held(2, size)]
    found = estimate_ram([*events, Mark(text="step end", step=0)], libraries_bytes=0)
    assert found.held_bytes == size * 3 + 16 * 16 * 9 * 4
    assert found.heap_bytes >= found.held_bytes
    first = operation(
        "aten.convolution.default",
        (tensor(8, 3, 64, 64, storage=0), tensor(16, 3, 3, 3, storage=1)),
        (tensor(8, 16, 64, 64, storage=2),),
    )
    found = estimate_ram([first, held(2, size)], libraries_bytes=0)
    assert found.held_bytes == 2 * size, "three channels are read as they lie"


def test_channels_are_filled_up_to_whole_blocks():
    plain = 4 * 20 * 32 * 32 * 4
    convolution = operation(
        "aten.convolution.default",
        (tensor(4, 3, 32, 32), tensor(20, 3, 1, 1)),
        (tensor(4, 20, 32, 32),),
    )
    found = estimate_ram([convolution, held(1, plain)], libraries_bytes=0)
    assert found.held_bytes == plain + plain // 20 * 32


def test_going_back_through_a_convolution_copies_gradient_input_and_weights():
    upper, source, weights = tensor(2, 16, 32, 32), tensor(2, 32, 32, 32), tensor(16, 32, 3, 3)
    back = operation(
        "aten.convolution_backward.default",
        (upper, source, weights),
        (tensor(2, 32, 32, 32, storage=7), tensor(16, 32, 3, 3, storage=8)),
        phase="backward",
    )
    sizes = 2 * 32 * 32 * 32 * 4, 16 * 32 * 9 * 4
    found = estimate_ram([back, held(7, sizes[0]), held(8, sizes[1])], libraries_bytes=0)
    of_upper = 2 * 16 * 32 * 32 * 4
    assert found.held_bytes == sum(sizes) + sizes[0] + of_upper + sizes[1]


def test_a_recurrent_layer_counts_what_it_writes_of_its_workspace():
    layer = operation(
        "aten.mkldnn_rnn_layer.default",
        (tensor(32, 256, 75),),
        (tensor(32, 256, 128), tensor(256, 128), tensor(256, 128)),
    )
    written = 4 * 256 * 128 * (4 * 32 + 6 * 33)
    found = estimate_ram([layer, held(1, 64_880_640)], libraries_bytes=0)
    assert found.held_bytes == written < 64_880_640


@pytest.mark.parametrize("phases", [("step begin", "backward begin", "update begin", "step end")])
def test_growth_is_the_heap_and_the_libraries_with_a_range_around_it(phases):
    events = [Mark(text=text, step=0) for text in phases]
    events[1:1] = [held(1, 50 * MIB)]
    events.insert(3, Free(storage=1))
    found = estimate_ram(events, libraries_bytes=LIBRARIES_BYTES)
    span = found.growth_bytes
    assert span.value_bytes == found.heap_bytes + LIBRARIES_BYTES
    assert span.low_bytes < span.value_bytes < span.high_bytes
    assert found.heap_bytes >= found.held_bytes == 50 * MIB


def test_without_a_measure_the_range_holds_builds_for_the_cpu_and_for_cuda():
    events = [Mark(text="step begin", step=0), held(1, 50 * MIB)]
    known = estimate_ram(events, libraries_bytes=MOST_LIBRARIES_BYTES).growth_bytes
    either = estimate_ram(events).growth_bytes
    assert either.low_bytes < known.low_bytes and either.high_bytes == known.high_bytes
