"""The order of runs: blocks of one repetition of every cell, shuffled: drift hits all alike.

Pure: the same study, seed and history give the same next block.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainload.study.cells import Cell
from trainload.study.file import StudyFile
from trainload.study.rules import RuleError


@dataclass(frozen=True)
class Place:
    """One repetition of one cell."""

    cell: Cell
    repetition: int


def next_block(
    study: StudyFile,
    cells: Sequence[Cell],
    counts: Mapping[str, int],
    wanting: Collection[str],
) -> list[Place]:
    """The next runs: of the cells that want one, those with the fewest so far, in order.

    `counts` says how many repetitions of each cell are settled. Empty where none wants one.
    """
    pending = [cell for cell in cells if cell.identity in wanting]
    if not pending:
        return []
    repetition = min(counts.get(cell.identity, 0) for cell in pending)
    block = [cell for cell in pending if counts.get(cell.identity, 0) == repetition]
    return [Place(cell, repetition) for cell in order_block(study, block, repetition)]


def order_block(study: StudyFile, cells: Sequence[Cell], repetition: int) -> list[Cell]:
    """The cells of one block as they are run."""
    if study.keys.order == "file":
        return sorted(cells, key=lambda cell: _rank(study, cell))
    # Drawn for each cell alone: what is left of a block keeps its order after an interruption.
    mark = f"{study.keys.seed}-{repetition}-"
    return sorted(
        cells, key=lambda cell: (_rank(study, cell), _draw(mark + cell.identity), cell.identity)
    )


def _draw(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _rank(study: StudyFile, cell: Cell) -> int:
    """Position of the first rule of priority that holds; after all of them where none does."""
    levels: dict[str, Any] = {"fold": None, **cell.factors}
    for number, rule in enumerate(study.priority):
        try:
            if rule.holds(levels):
                return number
        except RuleError as error:
            raise study.source.wrong(("priority", number), str(error)) from None
    return len(study.priority)
