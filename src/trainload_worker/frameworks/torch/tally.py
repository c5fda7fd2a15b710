"""Counts what an evaluation found, on its device; computes no score."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Sequence

import torch
from torch.nn import functional

from trainload_worker.frameworks.backends import CONFUSION_CLASSES, Evaluation
from trainload_worker.training.metrics import TOP

if TYPE_CHECKING:
    from trainload_worker.frameworks.torch.ranks import Ranks


class Tally:
    """Sums of an evaluation, on the device."""

    def __init__(self, classes: int, device: Any, top: Sequence[int]) -> None:
        self._classes = classes
        self._asked = list(top)
        self._asked_hits = torch.zeros(len(self._asked), dtype=torch.int64, device=device)
        # A matrix for few classes, from which the number of hits follows; else that alone.
        cells = classes * classes if classes <= CONFUSION_CLASSES else 1
        self._cells = torch.zeros(cells, dtype=torch.int64, device=device)
        self._loss_sum = torch.zeros((), dtype=torch.float64, device=device)
        self._top_hits = torch.zeros((), dtype=torch.int64, device=device)
        self._count = 0

    def add(self, scores: Any, targets: Any) -> None:
        """Counts a chunk in; where each token has a target, a token is counted as a row."""
        scores, targets = scores.flatten(0, -2), targets.flatten()
        classes = self._classes
        if classes <= CONFUSION_CLASSES:
            cells = targets * classes + scores.argmax(dim=1)
            self._cells += torch.bincount(cells, minlength=classes * classes)
        else:
            self._cells += (scores.argmax(dim=1) == targets).sum()
        self._loss_sum += functional.cross_entropy(scores, targets, reduction="sum")
        best = scores.topk(min(TOP, classes), dim=1).indices
        self._top_hits += (best == targets.unsqueeze(1)).sum()
        if self._asked:
            ranks = _ranks(scores, targets.unsqueeze(1))
            self._asked_hits += torch.stack([(ranks < n).sum() for n in self._asked])
        self._count += len(targets)

    def sum_over(self, ranks: Ranks) -> None:
        """Adds what the other ranks have counted; every rank then holds the same."""
        count = torch.tensor(self._count, dtype=torch.int64, device=self._cells.device)
        for part in (self._asked_hits, self._cells, self._loss_sum, self._top_hits, count):
            if part.numel():
                ranks.add_up(part)
        self._count = int(count.item())

    def read(self) -> Evaluation:
        """The sums on the host; waits for the device."""
        small = self._classes <= CONFUSION_CLASSES
        matrix = self._cells.view(self._classes, self._classes).tolist() if small else None
        return Evaluation(
            confusion=matrix,
            loss_sum=float(self._loss_sum.item()),
            top5_hits=int(self._top_hits.item()),
            row_count=self._count,
            hits=None if small else int(self._cells.item()),
            top_hits=dict(zip(self._asked, self._asked_hits.tolist())),
        )


def _ranks(scores: Any, targets: Any) -> Any:
    """How many classes come before each row's own; of equal ones the first, as argmax has it."""
    own = scores.gather(1, targets)
    earlier = torch.arange(scores.shape[1], device=scores.device) < targets
    return ((scores > own) | ((scores == own) & earlier)).sum(dim=1)
