"""What torch's CUDA caching allocator would hold and reserve for a sequence of allocations.

A simulation over numbers: touches no device and no framework. Rules and constants are those of
`c10/cuda/CUDACachingAllocator.cpp` and `c10/core/AllocatorConfig.h` of torch 2.x with its default
settings: no largest split size, no expandable segments, no rounding to powers of two.
"""

from array import array
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from trainload.estimate.memory._blocks import Block, Pool, merge_neighbours, split_block

MIN_BLOCK_BYTES = 512
"""kMinBlockSize: every size is rounded up to a multiple of it."""
SMALL_BYTES = 1 << 20
"""kSmallSize: the largest request that the small pool serves; a larger rest is split off."""
SMALL_SEGMENT_BYTES = 2 << 20
"""kSmallBuffer: what the small pool asks of the driver."""
MIN_LARGE_BYTES = 10 << 20
"""kMinLargeAlloc: from here on a request gets a segment of its own size."""
LARGE_SEGMENT_BYTES = 20 << 20
"""kLargeBuffer: the segment for a request between the two."""
ROUND_LARGE_BYTES = 2 << 20
"""kRoundLarge: such a segment is rounded up to a multiple of it."""


@dataclass(frozen=True, kw_only=True)
class OutOfMemory:
    """The outcome of an allocation that did not fit, after cached segments were given back."""

    requested_bytes: int
    segment_bytes: int
    """What would have had to come from the driver."""
    allocated_bytes: int
    reserved_bytes: int
    capacity_bytes: int


def round_bytes(size_bytes: int) -> int:
    """A request as the allocator books it."""
    return max(MIN_BLOCK_BYTES, -(-size_bytes // MIN_BLOCK_BYTES) * MIN_BLOCK_BYTES)


def segment_bytes(rounded_bytes: int) -> int:
    """What is asked of the driver when no cached block holds that many bytes."""
    if rounded_bytes <= SMALL_BYTES:
        return SMALL_SEGMENT_BYTES
    if rounded_bytes < MIN_LARGE_BYTES:
        return LARGE_SEGMENT_BYTES
    return -(-rounded_bytes // ROUND_LARGE_BYTES) * ROUND_LARGE_BYTES


class CachingAllocator:
    """One device's allocator; `capacity_bytes` is the most it may reserve, None without a bound.

    `place` may say at which address the driver puts a segment of so many bytes; without it each
    follows the one before. Addresses decide only between free blocks of equal size.
    """

    def __init__(
        self, capacity_bytes: int | None = None, *, place: Callable[[int], int] | None = None
    ) -> None:
        self.capacity_bytes = capacity_bytes
        self.allocated_bytes = 0
        self.reserved_bytes = 0
        self.peak_allocated_bytes = 0
        self.peak_reserved_bytes = 0
        self.retries = 0
        """How often cached segments had to be given back before an allocation could go on."""
        self._place = place or self._next_address
        self._end = SMALL_SEGMENT_BYTES
        self._pools: dict[tuple[bool, int], Pool] = {}
        self._held: dict[Hashable, Block | None] = {}

    def allocate(self, key: Hashable, size_bytes: int, stream: int = 0) -> OutOfMemory | None:
        """Hold so many bytes under a key that is not in use; None when it went well."""
        assert key not in self._held, f"{key!r} is held already"
        if size_bytes == 0:
            self._held[key] = None
            return None
        size = round_bytes(size_bytes)
        small = size <= SMALL_BYTES
        pool = self._pools.get((small, stream))
        if pool is None:
            pool = self._pools[small, stream] = Pool(small=small)
        block = pool.take_best(size) or self._new_segment(size, pool)
        if block is None:
            assert self.capacity_bytes is not None
            return OutOfMemory(
                requested_bytes=size_bytes,
                segment_bytes=segment_bytes(size),
                allocated_bytes=self.allocated_bytes,
                reserved_bytes=self.reserved_bytes,
                capacity_bytes=self.capacity_bytes,
            )
        rest = block.size - size
        if rest >= MIN_BLOCK_BYTES if small else rest > SMALL_BYTES:
            pool.add(split_block(block, size))
        self._held[key] = block
        self.allocated_bytes += block.size
        if self.allocated_bytes > self.peak_allocated_bytes:
            self.peak_allocated_bytes = self.allocated_bytes
        return None

    def free(self, key: Hashable) -> None:
        """Give what is held under the key back to the cache."""
        block = self._held.pop(key)
        if block is None:
            return
        self.allocated_bytes -= block.size
        merge_neighbours(block)
        block.pool.add(block)

    def holds(self, key: Hashable) -> bool:
        """Whether something is held under the key."""
        return key in self._held

    def held(self) -> Iterator[tuple[Hashable, int]]:
        """Every key in use with the bytes of its block, which may be larger than the request."""
        return ((key, block.size) for key, block in self._held.items() if block is not None)

    def release_cached(self) -> int:
        """Give every wholly free segment back to the driver; how many bytes that freed."""
        released = 0
        for pool in self._pools.values():
            for block in pool.free_blocks():
                if not block.is_split:
                    pool.remove(block)
                    released += block.size
        self.reserved_bytes -= released
        return released

    def blocks(self) -> list[tuple[int, int, bool]]:
        """Every block as (address, bytes, free), by address."""
        held = [(b.address, b.size, False) for b in self._held.values() if b is not None]
        free = [
            (block.address, block.size, True)
            for pool in self._pools.values()
            for block in pool.free_blocks()
        ]
        return sorted(held + free)

    def _new_segment(self, size: int, pool: Pool) -> Block | None:
        wanted = segment_bytes(size)
        if self._exceeds(wanted):
            self.retries += 1
            self.release_cached()
            if self._exceeds(wanted):
                return None
        self.reserved_bytes += wanted
        self.peak_reserved_bytes = max(self.peak_reserved_bytes, self.reserved_bytes)
        return Block(self._place(wanted), wanted, pool)

    def _exceeds(self, wanted: int) -> bool:
        capacity = self.capacity_bytes
        return capacity is not None and self.reserved_bytes + wanted > capacity

    def _next_address(self, size: int) -> int:
        address = self._end
        self._end += size
        return address


@dataclass(frozen=True, kw_only=True)
class AllocatorCurve:
    """Bytes after each allocation and free, and what stood out."""

    allocated_bytes: Sequence[int]
    reserved_bytes: Sequence[int]
    marks: tuple[tuple[int, str], ...]
    """Marks of the trace, each with the number of allocations and frees before it."""
    peak_allocated_bytes: int
    peak_reserved_bytes: int
    peak_index: int | None
    """The event after which most was allocated, the first of equals; None without events."""
    retries: int
    out_of_memory: OutOfMemory | None
    """Set where the sequence could not go on; the curve ends there."""


def replay(
    events: Iterable[Sequence[Any]], capacity_bytes: int | None = None, *, stream: int = 0
) -> AllocatorCurve:
    """Run the events of an op trace through an allocator that starts empty.

    `("a", id, bytes, …)` allocates, `("f", id)` frees, `("m", text, …)` marks; others pass by.
    """
    allocator = CachingAllocator(capacity_bytes)
    allocated, reserved = array("q"), array("q")
    marks: list[tuple[int, str]] = []
    failure: OutOfMemory | None = None
    peak, peak_index = -1, None
    for event in events:
        tag = event[0]
        if tag == "a":
            failure = allocator.allocate(event[1], event[2], stream)
            if failure is not None:
                break
            if allocator.allocated_bytes > peak:
                peak, peak_index = allocator.allocated_bytes, len(allocated)
        elif tag == "f":
            allocator.free(event[1])
        else:
            if tag == "m":
                marks.append((len(allocated), event[1]))
            continue
        allocated.append(allocator.allocated_bytes)
        reserved.append(allocator.reserved_bytes)
    return AllocatorCurve(
        allocated_bytes=allocated,
        reserved_bytes=reserved,
        marks=tuple(marks),
        peak_allocated_bytes=allocator.peak_allocated_bytes,
        peak_reserved_bytes=allocator.peak_reserved_bytes,
        peak_index=peak_index,
        retries=allocator.retries,
        out_of_memory=failure,
    )
