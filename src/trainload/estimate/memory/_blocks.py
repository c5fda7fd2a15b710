"""Blocks of device memory and the pools of free ones, as torch's CUDA caching allocator keeps them.

Pure bookkeeping over numbers that stand for addresses; touches no device.
"""

from bisect import bisect_left, insort


class Block:
    """A stretch of one segment, in use or free, linked to its neighbours in that segment."""

    __slots__ = ("address", "free", "next", "pool", "previous", "size")

    def __init__(self, address: int, size: int, pool: "Pool") -> None:
        self.address = address
        self.size = size
        self.pool = pool
        self.free = False
        self.previous: Block | None = None
        self.next: Block | None = None

    @property
    def is_split(self) -> bool:
        """Whether its segment holds other blocks too: such a segment cannot be given back."""
        return self.previous is not None or self.next is not None


class Pool:
    """Free blocks of one size class on one stream, by size and then by address."""

    def __init__(self, *, small: bool) -> None:
        self.small = small
        self._order: list[tuple[int, int]] = []
        self._blocks: dict[int, Block] = {}

    def __len__(self) -> int:
        return len(self._order)

    def add(self, block: Block) -> None:
        """Keep a block for reuse."""
        block.free = True
        insort(self._order, (block.size, block.address))
        self._blocks[block.address] = block

    def remove(self, block: Block) -> None:
        """Take a block out, before its size or address changes."""
        block.free = False
        del self._order[bisect_left(self._order, (block.size, block.address))]
        del self._blocks[block.address]

    def take_best(self, size: int) -> Block | None:
        """The smallest block that holds so many bytes, of equals the lowest; None without one."""
        place = bisect_left(self._order, (size, 0))
        if place == len(self._order):
            return None
        block = self._blocks.pop(self._order.pop(place)[1])
        block.free = False
        return block

    def free_blocks(self) -> list[Block]:
        """All of them, smallest first."""
        return [self._blocks[address] for _, address in self._order]


def split_block(block: Block, size: int) -> Block:
    """Cut a taken block to its first `size` bytes; the rest, a new neighbour, is returned."""
    rest = Block(block.address + size, block.size - size, block.pool)
    rest.previous, rest.next = block, block.next
    if rest.next is not None:
        rest.next.previous = rest
    block.next = rest
    block.size = size
    return rest


def merge_neighbours(block: Block) -> None:
    """Let a block that is being freed swallow the free blocks on either side."""
    before, after = block.previous, block.next
    if before is not None and before.free:
        before.pool.remove(before)
        block.address = before.address
        block.size += before.size
        block.previous = before.previous
        if block.previous is not None:
            block.previous.next = block
    if after is not None and after.free:
        after.pool.remove(after)
        block.size += after.size
        block.next = after.next
        if block.next is not None:
            block.next.previous = block
