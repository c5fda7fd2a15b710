"""Where the windows of pooling layers lie, in plain numbers; for frameworks that do not say it.

The rules are torch's: a last window may be filled in part, padding may count in a mean or not, and
an adaptive pool cuts its input into cells that may overlap.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence, Tuple

Pads = Tuple[Tuple[int, int], Tuple[int, int]]


def find_pads(size: Sequence[int], cells: Sequence[int], attributes: Mapping[str, Any]) -> Pads:
    """Padding before and after in height and width, so that exactly `cells` windows are made."""
    pads = []
    for axis in range(2):
        reach = (cells[axis] - 1) * attributes["stride"][axis] + attributes["kernel"][axis]
        before = attributes["padding"][axis]
        pads.append((before, max(0, reach - size[axis] - before)))
    return (pads[0], pads[1])


def mean_scales(
    size: Sequence[int], cells: Sequence[int], attributes: Mapping[str, Any]
) -> list[list[float]] | None:
    """What a mean over whole windows must be multiplied by, row by row; None where by one."""
    shares: list[list[float]] = []
    for axis in range(2):
        kernel, padding = attributes["kernel"][axis], attributes["padding"][axis]
        row = []
        for cell in range(cells[axis]):
            start = cell * attributes["stride"][axis] - padding
            end = min(start + kernel, size[axis] + padding)
            if not attributes["count_padding"]:
                start, end = max(start, 0), min(end, size[axis])
            row.append(kernel / (end - start))
        shares.append(row)
    if all(share == 1.0 for row in shares for share in row):
        return None
    return [[high * wide for wide in shares[1]] for high in shares[0]]


def adaptive_window(size: Sequence[int], cells: Sequence[int]) -> list[int] | None:
    """The window, and stride, of an adaptive pool whose cells are all alike; None elsewhere."""
    if any(length % count for length, count in zip(size, cells)):
        return None
    return [length // count for length, count in zip(size, cells)]


def adaptive_means(size: int, cells: int) -> list[list[float]]:
    """One row a cell: the weight of each place of the input in that cell's mean."""
    rows = []
    for cell in range(cells):
        start, end = cell * size // cells, -(-(cell + 1) * size // cells)
        rows.append([1.0 / (end - start) if start <= i < end else 0.0 for i in range(size)])
    return rows
