"""Trains with torch on the CPU or on one CUDA device, alone or as one of several ranks.

On a CUDA device no step waits for another: `clock` learns their ends from events. Needs no numpy.
"""

from __future__ import annotations

import contextlib
from array import array
from importlib import metadata
from typing import TYPE_CHECKING, Any, Mapping

import torch
from torch.nn import functional

from trainload_worker.data.dataset import PIXEL_SCALE, PIXEL_SHIFT, Dataset
from trainload_worker.data.split import Split
from trainload_worker.errors import FrameworkError
from trainload_worker.frameworks.backends import Evaluation, LayerSummary, Opened, StepBatch
from trainload_worker.frameworks.torch.clock import CudaStepClock
from trainload_worker.frameworks.torch.graph import GraphModule, count_parameters
from trainload_worker.frameworks.torch.loader import TorchLoader
from trainload_worker.frameworks.torch.optimizers import build_optimizer
from trainload_worker.frameworks.torch.state import TorchState
from trainload_worker.frameworks.torch.tally import Tally
from trainload_worker.frameworks.torch.weights import (
    NOTE_WITHOUT_NUMPY,
    can_draw,
    load_initial_weights,
)
from trainload_worker.protocol.spec import TrainSpec
from trainload_worker.training.feed import Feed
from trainload_worker.training.ranks import dropout_seed
from trainload_worker.training.step_clocks import ReturnClock
from trainload_worker.training.step_clocks import StepClock as StepClock

if TYPE_CHECKING:
    from trainload_worker.frameworks.torch.ranks import Ranks

_EVALUATION_ROWS = 4096
"""Of plain features, which are small; other rows are evaluated in the batches of training."""

HALF_TYPES: Mapping[str, Any] = {"bf16": torch.bfloat16, "fp16": torch.float16}
"""What autocast computes in, by precision."""
FP16_ON_CPU = "fp16 with its gradient scaler is for GPUs; on the CPU choose bf16 or float32"
_FORMS: Mapping[str, Any] = {"float32": torch.float32, "uint8": torch.uint8, "int64": torch.int64}


def create(spec: TrainSpec) -> TorchBackend:
    """The backend for that specification."""
    return TorchBackend(spec)


class TorchBackend:
    """One model, its optimizer and its data; rows stay in host memory until their step."""

    def __init__(self, spec: TrainSpec) -> None:
        self._spec = spec
        index = 0 if spec.rank is None else spec.rank.number
        self._device = torch.device(f"cuda:{index}" if spec.setting.accelerators else "cpu")
        self._on_cuda = self._device.type == "cuda"
        self._half = HALF_TYPES.get(spec.training.precision)
        self._scaler: Any = None
        self._clock: StepClock
        self.state: TorchState
        self.feed: Feed
        self._ranks: Ranks | None = None
        self._model: Any
        self._called: Any
        """The model as a step calls it: itself, or wrapped to train with other ranks."""
        self._optimizer: Any
        self._features: Any
        self._labels: Any
        self._validation_rows: Any
        self._class_count = 0
        self._chunk_rows = spec.training.batch_size

    def open(self) -> Opened:
        """Sets the number of threads and finds the device; a missing one is never replaced."""
        setting = self._spec.setting
        if setting.threads is not None:
            torch.set_num_threads(setting.threads)
        notes = []
        accelerators = []
        if self._on_cuda:
            if not torch.cuda.is_available():
                raise FrameworkError(
                    f"the setting has {len(setting.accelerators)} accelerator(s), "
                    f"but torch {torch.__version__} finds no CUDA device; "
                    "choose a setting without it, such as cpu0, or install a CUDA build"
                )
            torch.cuda.init()
            if self._spec.rank is not None:
                torch.cuda.set_device(self._device)
            accelerators.append(_describe_accelerator(self._device))
            if len(setting.accelerators) > 1:
                notes.append("torch trains on the first accelerator of the setting alone")
        if self._half is torch.float16 and not self._on_cuda:
            raise FrameworkError(FP16_ON_CPU)
        if not can_draw():
            notes.append(NOTE_WITHOUT_NUMPY)
        if self._half is torch.bfloat16 and self._on_cuda and not _has_bf16():
            notes.append("this accelerator has no bf16 arithmetic of its own")
        return Opened(
            version=str(torch.__version__),
            software=read_software(ask_device=True),
            device=str(self._device),
            threads=int(torch.get_num_threads()),
            accelerators=accelerators,
            notes=notes,
        )

    def build(self, dataset: Dataset, split: Split) -> list[LayerSummary]:
        """Draws the weights by the seed, which dropout goes on using, and wraps the data."""
        graph = self._spec.graph
        torch.manual_seed(self._spec.seeds.weights)
        self._model = GraphModule(graph).to(self._device)
        load_initial_weights(self._model, graph, self._spec.seeds.weights)
        self._called = self._join(self._model)
        self._optimizer = build_optimizer(self._spec.training.optimizer, self._model)
        if self._half is torch.float16:
            self._scaler = torch.amp.GradScaler(self._device.type)
        self.state = TorchState(self._spec, self._model, self._optimizer)
        entry = next(layer for layer in graph.layers if layer.kind == "input")
        self._features, self._labels = _wrap(dataset, entry.output_shape)
        loader = None
        if self._spec.training.loader == "native":
            tables = (self._features, self._labels, dataset.files)
            share = None if self._ranks is None else self._ranks.share
            loader = TorchLoader(self._spec, *tables, pinned=self._on_cuda, share=share)
        self.feed = Feed(self._take_rows, loader)
        self._validation_rows = torch.frombuffer(split.validation_rows, dtype=torch.int64)
        self._class_count = dataset.class_count
        if len(entry.output_shape) == 1 and dataset.form == "float32":
            self._chunk_rows = max(self._chunk_rows, _EVALUATION_ROWS)
        self._clock = CudaStepClock(self._device) if self._on_cuda else HostStepClock()
        self._model.train()
        return [
            LayerSummary(layer.name, count_parameters(self._model, layer)) for layer in graph.layers
        ]

    def run_step(self, rows: array[int]) -> None:
        """Gives one step to the device."""
        ranks = self._ranks
        examples, targets = self.feed.take(rows if ranks is None else ranks.share(rows))
        inputs, targets = _normalise(self._to_device(examples)), self._to_device(targets)
        self._optimizer.zero_grad(set_to_none=True)
        if self._half is not None:
            with torch.autocast(self._device.type, self._half):
                loss = batch_loss(self._called(inputs), targets)
        else:
            loss = batch_loss(self._called(inputs), targets)
        whole = None
        if ranks is not None:
            loss = loss * ranks.weight(len(rows))
            whole = ranks.begin_mean(loss)
        if self._scaler is None:
            loss.backward()
            self._optimizer.step()
        else:
            step_scaled(self._scaler, loss, self._optimizer)
        self._clock.mark(loss if whole is None else whole.wait())

    def collect(self, drain: bool) -> StepBatch:
        """Steps that the device has finished."""
        return self._clock.collect(drain)

    def evaluate(self) -> Evaluation:
        """Runs over the validation rows in chunks; sums stay on the device until the end."""
        ranks, rows = self._ranks, self._validation_rows
        if ranks is not None:
            ranks.copy_buffers(self._model)
            rows = rows[ranks.place.share(len(rows))]
        tally = Tally(self._class_count, self._device, self._spec.training.top)
        half = self._half or torch.bfloat16
        autocast = torch.autocast(self._device.type, half, enabled=self._half is not None)
        self._model.eval()
        with torch.no_grad(), autocast:
            for index in rows.split(self._chunk_rows) if len(rows) else ():
                examples, targets = self._take_both(index)
                tally.add(self._model(_normalise(examples)).float(), targets)
        self._model.train()
        if ranks is not None:
            tally.sum_over(ranks)
        return tally.read()

    def leave(self) -> None:
        """Parts from the other ranks, when all is done; the model stays."""
        if self._ranks is not None:
            # The wrapper holds the group, whose threads nobody would join.
            self._called = None
            self._ranks.leave()

    def _join(self, model: Any) -> Any:
        """The model as a step calls it; the ranks begin from the first one's weights."""
        place = self._spec.rank
        if place is None:
            return model
        from trainload_worker.frameworks.torch.ranks import Ranks

        self._ranks = Ranks(place, self._device)
        if place.number:
            torch.manual_seed(dropout_seed(self._spec))
        return self._ranks.wrap(model)

    def _to_device(self, part: Any) -> Any:
        # Rows of the cache are there already, those of a loader in pinned memory.
        return part.to(self._device, non_blocking=True) if self._on_cuda else part

    def _take_rows(self, rows: array[int]) -> tuple[Any, Any]:
        return self._take_both(torch.frombuffer(rows, dtype=torch.int64))

    def _take_both(self, index: Any) -> tuple[Any, Any]:
        return self._take(self._features, index), self._take(self._labels, index)

    def _take(self, table: Any, index: Any) -> Any:
        """Those rows of a host table, on the device."""
        if not self._on_cuda:
            return table.index_select(0, index)
        # A copy from pinned memory alone does not hold the host up; torch keeps the pinned block
        # from reuse until the copy has been made.
        shape = (len(index), *table.shape[1:])
        staged = torch.empty(shape, dtype=table.dtype, pin_memory=True)
        torch.index_select(table, 0, index, out=staged)
        return staged.to(self._device, non_blocking=True)


def _normalise(rows: Any) -> Any:
    """Those rows as the model takes them: pixels are normalised on the device."""
    if rows.dtype is not torch.uint8:
        return rows
    return rows.to(torch.float32).sub_(PIXEL_SHIFT).mul_(PIXEL_SCALE)


def step_scaled(scaler: Any, loss: Any, optimizer: Any, before_update: Any = None) -> None:
    """Backward pass and update in fp16: the loss is scaled, gradients that overflowed are skipped.

    The scaler asks the device whether they did, so the host waits for each step.
    """
    scaler.scale(loss).backward()
    if before_update is not None:
        before_update()
    scaler.step(optimizer)
    scaler.update()


def _has_bf16() -> bool:
    """Whether the GPU has units for it; torch emulates it on the others."""
    return bool(torch.cuda.get_device_capability() >= (8, 0))


def batch_loss(scores: Any, targets: Any) -> Any:
    """Mean over rows, or over all tokens of all rows."""
    return functional.cross_entropy(scores.flatten(0, -2), targets.flatten())


def _wrap(dataset: Dataset, shape: Any) -> tuple[Any, Any]:
    """Inputs and targets by row, on the data's own memory."""
    values = torch.frombuffer(dataset.features, dtype=_FORMS[dataset.form])
    if dataset.is_stream:
        # Row after row, each token's target is the token after it.
        return values[:-1].view(-1, *shape), values[1:].view(-1, *shape)
    return values.view(-1, *shape), torch.frombuffer(dataset.labels, dtype=torch.int64)


class HostStepClock(ReturnClock):
    """On the CPU a step has ended when the call returns, and its loss costs nothing to read."""

    def __init__(self) -> None:
        super().__init__(lambda loss: None if loss is None else loss.item())


def _describe_accelerator(device: Any) -> dict[str, str | None]:
    properties = torch.cuda.get_device_properties(device)
    # Older versions do not tell the identity.
    uuid = getattr(properties, "uuid", None)
    return {"name": str(properties.name), "uuid": None if uuid is None else f"GPU-{uuid}"}


def read_software(ask_device: bool) -> dict[str, str | None]:
    """Versions of torch and what it stands on; cuDNN's needs the device to be asked."""
    cudnn = torch.backends.cudnn.version() if ask_device and torch.cuda.is_available() else None
    numpy = None
    with contextlib.suppress(metadata.PackageNotFoundError):
        numpy = metadata.version("numpy")
    return {
        "torch": str(torch.__version__),
        "cuda": torch.version.cuda,
        "cudnn": None if cudnn is None else str(cudnn),
        "numpy": numpy,
    }
