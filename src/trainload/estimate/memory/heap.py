"""What glibc's malloc would keep resident for the tensors of a training on the CPU.

A simulation over numbers: touches no memory of its own. Rules and constants are those of
`malloc/malloc.c` of glibc 2.36, main arena and one thread's cache, with default settings.

Freed memory stays resident, and often cannot be used again for a tensor of the same size: memalign
asks for 112 bytes more than it needs and frees the rest, which then holds a small object or waits
in the thread's cache, so that the tensor's place, once free, is too short for the next such
request.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable
from dataclasses import dataclass

MIN_CHUNK_BYTES = 32
"""MINSIZE."""
ALIGNMENT_BYTES = 64
"""Of every tensor: torch asks posix_memalign for it (`c10/core/impl/alloc_cpu.cpp`)."""
MEMALIGN_EXTRA_BYTES = 112
"""Alignment, MINSIZE and a second header: what _int_memalign asks for beyond the chunk."""
PAGE_BYTES = 4096
MMAP_THRESHOLD_BYTES = 128 << 10
"""DEFAULT_MMAP_THRESHOLD: larger requests that no free chunk holds get a mapping of their own."""
MMAP_THRESHOLD_MAX_BYTES = 32 << 20
"""DEFAULT_MMAP_THRESHOLD_MAX: the threshold rises to the largest mapping freed, up to this."""
TRIM_THRESHOLD_BYTES = 128 << 10
"""DEFAULT_TRIM_THRESHOLD; twice the mapping threshold once that has risen."""
TOP_PAD_BYTES = 128 << 10
"""DEFAULT_TOP_PAD: what the heap grows by beyond the request."""
CACHED_CHUNK_BYTES = 128
"""Largest rest that the thread's cache and the fast bins take, unmerged."""
CACHED_CHUNKS = 7
"""TCACHE_FILL_COUNT: so many of a size stay in the thread's cache; others are merged."""
OBJECT_BYTES = 112
"""Chunk of the small object that torch keeps for each storage."""


class _Chunk:
    """A stretch of the heap, linked to the one before it."""

    __slots__ = ("address", "before", "free", "size")

    def __init__(self, address: int, size: int, before: _Chunk | None) -> None:
        self.address = address
        self.size = size
        self.before = before
        self.free = False

    @property
    def end(self) -> int:
        return self.address + self.size


@dataclass(frozen=True, slots=True)
class _Held:
    size_bytes: int
    chunk: _Chunk | None
    """None where it has a mapping of its own."""
    mapped_bytes: int
    beside: _Chunk


class GlibcHeap:
    """The main arena and the mappings of one process.

    A chunk that was handed out counts as written; the heap's end that never was, or that went back
    to the system, does not.
    """

    def __init__(self) -> None:
        self.peak_bytes = 0
        """Most that was resident at once."""
        self.held_bytes = 0
        """Asked for and not freed."""
        self.peak_held_bytes = 0
        self._mmap_threshold = MMAP_THRESHOLD_BYTES
        self._trim_threshold = TRIM_THRESHOLD_BYTES
        self._mapped = 0
        self._written = 0
        self._top = 0
        self._break = 0
        self._last: _Chunk | None = None
        self._chunks: dict[int, _Chunk] = {}
        self._free: list[tuple[int, int]] = []
        self._held: dict[Hashable, _Held] = {}
        self._cache: list[_Chunk] = []
        self._kept: list[_Chunk] = []

    @property
    def resident_bytes(self) -> int:
        """Written and not given back."""
        return self._mapped + self._written

    def allocate(self, key: Hashable, size_bytes: int, *, for_backward: bool = False) -> None:
        """Hold so many bytes, aligned as a tensor, under a key that is not in use.

        With what is kept for the way back come objects of autograd's graph; they stay until
        `settle`, also where the tensor goes earlier.
        """
        assert key not in self._held, f"{key!r} is held already"
        size = max(MIN_CHUNK_BYTES, -(-(size_bytes + 8) // 16) * 16)
        chunk, mapped = self._take_aligned(size, for_backward)
        beside = self._cache.pop() if self._cache else self._take(OBJECT_BYTES)
        self._held[key] = _Held(size_bytes, chunk, mapped, beside)
        self.held_bytes += size_bytes
        self.peak_held_bytes = max(self.peak_held_bytes, self.held_bytes)
        self.peak_bytes = max(self.peak_bytes, self.resident_bytes)

    def free(self, key: Hashable) -> None:
        """Give back what is held under the key."""
        held = self._held.pop(key)
        self.held_bytes -= held.size_bytes
        if held.chunk is None:
            self._unmap(held.mapped_bytes)
        else:
            self._merge(held.chunk)
            if self._break - self._top >= self._trim_threshold:
                self._trim()
        self._free_small(held.beside)

    def settle(self) -> None:
        """The step has ended: autograd's graph goes, and its objects with it."""
        kept, self._kept = self._kept, []
        for chunk in kept:
            self._free_small(chunk)

    def _take_aligned(self, size: int, for_backward: bool) -> tuple[_Chunk | None, int]:
        padded = size + MEMALIGN_EXTRA_BYTES
        in_bins = bisect_left(self._free, (padded, 0)) < len(self._free)
        in_top = self._break - self._top >= padded + MIN_CHUNK_BYTES
        if not in_bins and not in_top and padded >= self._mmap_threshold:
            mapped = -(-padded // PAGE_BYTES) * PAGE_BYTES
            self._mapped += mapped
            return None, mapped
        chunk = self._take(padded)
        lead = -(chunk.address + 16) % ALIGNMENT_BYTES
        if lead:
            inner = self._split(chunk, lead + (ALIGNMENT_BYTES if lead < MIN_CHUNK_BYTES else 0))
            self._leave(chunk, for_backward)
            chunk = inner
        if chunk.size - size > MIN_CHUNK_BYTES:
            self._leave(self._split(chunk, size), for_backward)
        return chunk, 0

    def _take(self, size: int) -> _Chunk:
        """The smallest free chunk that holds so many bytes, cut to them, or the heap's end."""
        at = bisect_left(self._free, (size, 0))
        if at < len(self._free):
            chunk = self._chunks[self._free.pop(at)[1]]
            chunk.free = False
            if chunk.size - size >= MIN_CHUNK_BYTES:
                self._merge(self._split(chunk, size))
            return chunk
        lacking = size + MIN_CHUNK_BYTES - (self._break - self._top)
        if lacking > 0:
            self._break += -(-(lacking + TOP_PAD_BYTES) // PAGE_BYTES) * PAGE_BYTES
        chunk = self._chunks[self._top] = _Chunk(self._top, size, self._last)
        self._last = chunk
        self._top = chunk.end
        self._written = max(self._written, chunk.end)
        return chunk

    def _leave(self, rest: _Chunk, for_backward: bool) -> None:
        """What memalign did not need: an object that lives on may take it."""
        if for_backward and rest.size <= CACHED_CHUNK_BYTES:
            self._kept.append(rest)
        else:
            self._free_small(rest)

    def _free_small(self, chunk: _Chunk) -> None:
        """The thread's cache keeps a few small chunks from their neighbours."""
        if chunk.size <= CACHED_CHUNK_BYTES and len(self._cache) < CACHED_CHUNKS:
            self._cache.append(chunk)
        else:
            self._merge(chunk)

    def _split(self, chunk: _Chunk, size: int) -> _Chunk:
        rest = _Chunk(chunk.address + size, chunk.size - size, chunk)
        chunk.size = size
        self._chunks[rest.address] = rest
        self._follow(rest)
        return rest

    def _merge(self, chunk: _Chunk) -> None:
        """Free a chunk, joined with free neighbours and with the heap's unused end."""
        follower = self._chunks.get(chunk.end)
        if follower is not None and follower.free:
            self._unbin(follower)
            self._swallow(chunk, follower)
        before = chunk.before
        if before is not None and before.free:
            self._unbin(before)
            self._swallow(before, chunk)
            chunk = before
        if chunk is self._last:
            self._top = chunk.address
            self._last = chunk.before
            del self._chunks[chunk.address]
            return
        chunk.free = True
        insort(self._free, (chunk.size, chunk.address))

    def _swallow(self, chunk: _Chunk, follower: _Chunk) -> None:
        del self._chunks[follower.address]
        chunk.size += follower.size
        self._follow(chunk)

    def _follow(self, chunk: _Chunk) -> None:
        """Tell who comes behind a chunk that its neighbour has changed."""
        beyond = self._chunks.get(chunk.end)
        if beyond is not None:
            beyond.before = chunk
        else:
            self._last = chunk

    def _unbin(self, chunk: _Chunk) -> None:
        del self._free[bisect_left(self._free, (chunk.size, chunk.address))]
        chunk.free = False

    def _unmap(self, mapped: int) -> None:
        self._mapped -= mapped
        if self._mmap_threshold < mapped <= MMAP_THRESHOLD_MAX_BYTES:
            self._mmap_threshold = mapped
            self._trim_threshold = 2 * mapped

    def _trim(self) -> None:
        spare = self._break - self._top - MIN_CHUNK_BYTES - 1 - TOP_PAD_BYTES
        self._break -= spare // PAGE_BYTES * PAGE_BYTES
        self._written = min(self._written, self._break)
