"""torch's own input pipeline: a DataLoader with worker processes over the training rows."""

from __future__ import annotations

from array import array
from typing import Any, Callable, Iterator, Sequence

import torch
from torch.utils.data import DataLoader, Dataset

from trainload_worker.data.image_folder import make_decoder
from trainload_worker.errors import DataError
from trainload_worker.protocol.spec import TrainSpec
from trainload_worker.training.feed import cut_batches


class TorchLoader:
    """Batches of a DataLoader; its processes live as long as the training."""

    def __init__(
        self,
        spec: TrainSpec,
        features: Any,
        labels: Any,
        files: Sequence[str],
        *,
        pinned: bool,
        share: Callable[[list[int]], list[int]] | None = None,
    ) -> None:
        """`share` gives this process's rows of a batch; None where all are."""
        workers = spec.training.loader_workers
        rows: Any = ArrayRows(features, labels)
        if files:
            rows = FileRows(files, labels, tuple(features.shape[1:]))
        self._batches = _EpochBatches()
        self._batch_size = spec.training.batch_size
        self._share = share
        options: dict[str, Any] = {}
        if workers:
            # A forked process shares the rows; a started one would get a copy of them all.
            options = {"multiprocessing_context": "fork", "persistent_workers": True}
        self._loader = DataLoader(
            rows,
            batch_sampler=self._batches,
            num_workers=workers,
            pin_memory=pinned,
            # Its draws would otherwise come out of dropout's stream.
            generator=torch.Generator(),
            **options,
        )
        self._iterator: Iterator[Any]

    def begin_epoch(self, rows: array[int]) -> None:
        """Hands the batches to the processes, which begin at once."""
        batches = cut_batches(rows, self._batch_size)
        self._batches.now = batches if self._share is None else [self._share(b) for b in batches]
        self._iterator = iter(self._loader)

    def take(self) -> tuple[Any, Any]:
        """Waits for the next batch."""
        examples, targets = next(self._iterator)
        return examples, targets


class _EpochBatches:
    """The batches of the epoch that is under way."""

    def __init__(self) -> None:
        self.now: list[list[int]] = []

    def __iter__(self) -> Iterator[list[int]]:
        return iter(self.now)

    def __len__(self) -> int:
        return len(self.now)


class ArrayRows(Dataset):  # type: ignore[misc]  # torch is not typed here
    """Rows that stand in memory, one at a time, as a DataLoader asks for them."""

    def __init__(self, features: Any, labels: Any) -> None:
        self._features, self._labels = features, labels

    def __len__(self) -> int:
        return len(self._features)

    def __getitem__(self, row: int) -> tuple[Any, Any]:
        return self._features[row], self._labels[row]


class FileRows(Dataset):  # type: ignore[misc]
    """Image files, decoded as the cache has them."""

    def __init__(self, files: Sequence[str], labels: Any, shape: tuple[int, ...]) -> None:
        self._files, self._labels, self._shape = files, labels, shape
        self._decode: Any = make_decoder(shape)

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, row: int) -> tuple[Any, Any]:
        pixels, reason = self._decode(self._files[row])
        if pixels is None:
            raise DataError(f"{self._files[row]} can no longer be read: {reason}")
        image = torch.frombuffer(bytearray(pixels), dtype=torch.uint8).view(self._shape)
        return image, self._labels[row]
