"""Several processes that train one model: gradients, losses and counts over all of them.

Each rank has the whole model and its share of every batch. torch's DistributedDataParallel takes
the plain mean of the ranks' gradients, so a rank's loss is weighted by its share of the batch:
what comes out is the mean over the batch's rows, whatever the shares. Imported only where there
are ranks.
"""

from __future__ import annotations

import gc
import time
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from trainload_worker.protocol.spec import RankSpec

_PATIENCE = timedelta(days=1)
"""The launcher ends ranks whose peer has gone; one that saves or decodes for long has not."""
_LET_GO_S = 0.1
"""gloo's threads let go of the last exchange a moment later; once the interpreter has begun to end
that aborts the process."""
Rows = TypeVar("Rows")


class Ranks:
    """The group of all ranks, as one of them sees it; where they meet the environment says."""

    def __init__(self, place: RankSpec, device: Any) -> None:
        self.place = place
        self._device = device
        backend = "nccl" if device.type == "cuda" else "gloo"
        distributed.init_process_group(backend, timeout=_PATIENCE)

    def wrap(self, model: Any) -> Any:
        """The model with its gradients averaged over the ranks in the backward pass."""
        devices = [self._device] if self._device.type == "cuda" else None
        return DistributedDataParallel(model, device_ids=devices)

    def share(self, rows: Rows) -> Rows:
        """This rank's rows of a batch; where there are fewer rows than ranks, some have the first.

        A rank that has none of its own must still take part; its rows then weigh nothing.
        """
        whole: Any = rows
        own: Rows = whole[self.place.share(len(whole))]
        return own if len(own) else whole[:1]  # type: ignore[arg-type]

    def weight(self, row_count: int) -> float:
        """What the mean loss of this rank's rows counts in a batch, the plain mean being 1."""
        return self.place.share_count(row_count) * self.place.count / row_count

    def begin_mean(self, loss: Any) -> Mean:
        """Begins the mean of all ranks' weighted losses, which the backward pass need not await."""
        value = loss.detach() / self.place.count
        return Mean(value, distributed.all_reduce(value, async_op=True))

    def add_up(self, values: Any) -> None:
        """Replaces values by their sums over the ranks."""
        distributed.all_reduce(values)

    def copy_buffers(self, model: Any) -> None:
        """Gives every rank the first one's running statistics, which a checkpoint holds too."""
        for values in model.buffers():
            distributed.broadcast(values, 0)

    def leave(self) -> None:
        """Parts; whoever holds the wrapped model must have let it go."""
        gc.collect()
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        distributed.destroy_process_group()
        time.sleep(_LET_GO_S)


class Mean:
    """A value on its way."""

    def __init__(self, value: Any, work: Any) -> None:
        self._value, self._work = value, work

    def wait(self) -> Any:
        """The mean; on a CUDA device its stream waits, not the host."""
        self._work.wait()
        return self._value
