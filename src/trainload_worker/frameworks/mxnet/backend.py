"""Trains with MXNet: a hybridized Gluon block and Gluon's trainer.

A call returns before its step has ended, on the CPU too; `step_clocks` learns the end from a
waiting thread.
"""

from __future__ import annotations

from array import array
from typing import Any, Callable

import mxnet
import numpy
from mxnet import autograd, gluon, nd

from trainload_worker.data.dataset import Dataset
from trainload_worker.data.split import Split
from trainload_worker.errors import FrameworkError, SpecError
from trainload_worker.frameworks.arrays.rows import Rows, normalise
from trainload_worker.frameworks.backends import Evaluation, LayerSummary, Opened, StepBatch
from trainload_worker.frameworks.mxnet.graph import GraphBlock
from trainload_worker.frameworks.mxnet.loader import MxnetLoader
from trainload_worker.frameworks.mxnet.optimizers import build_optimizer
from trainload_worker.frameworks.mxnet.state import MxnetState
from trainload_worker.protocol.spec import TrainSpec
from trainload_worker.training.feed import Feed
from trainload_worker.training.initial_weights import draw_parameters
from trainload_worker.training.layer_parameters import summarise_layers
from trainload_worker.training.step_clocks import WaitingClock


def create(spec: TrainSpec) -> MxnetBackend:
    """The backend for that specification."""
    return MxnetBackend(spec)


class MxnetBackend:
    """One model, its trainer and its data; rows stay in host memory until their step."""

    def __init__(self, spec: TrainSpec) -> None:
        if spec.training.precision != "float32":
            raise SpecError(f"mxnet trains in float32 here, not in {spec.training.precision}")
        self._spec = spec
        self._on_gpu = bool(spec.setting.accelerators)
        self._context: Any = mxnet.gpu(0) if self._on_gpu else mxnet.cpu(0)
        self._clock = WaitingClock(wait=_wait, read=_read_loss)
        self.state: MxnetState
        self.feed: Feed
        self._rows: Rows
        self._model: Any
        self._trainer: Any
        self._loss: Any = gluon.loss.SoftmaxCrossEntropyLoss()
        self._last_weight: Any
        self._enter: Callable[[str], None] = _pass

    def open(self) -> Opened:
        """Finds the device; the number of threads was set before MXNet was imported."""
        setting = self._spec.setting
        if self._on_gpu and not mxnet.context.num_gpus():
            raise FrameworkError(
                f"the setting has an accelerator, but mxnet {mxnet.__version__} finds none; "
                "choose a setting without it, such as cpu0, or install a CUDA build"
            )
        notes = [
            "a step's end is seen by a waiting thread: steps are given out before the last ended"
        ]
        if any(layer.kind == "batch_norm" for layer in self._spec.graph.layers):
            notes.append(
                "batch norm keeps a running mean of the biased variance, not the unbiased one"
            )
        if len(setting.accelerators) > 1:
            notes.append("mxnet trains on the first accelerator of the setting alone")
        return Opened(
            version=str(mxnet.__version__),
            software={"mxnet": str(mxnet.__version__), "numpy": str(numpy.__version__)},
            device="gpu:0" if self._on_gpu else "cpu",
            threads=setting.threads,
            accelerators=[{"name": None, "uuid": None}] if self._on_gpu else [],
            notes=notes,
        )

    def build(self, dataset: Dataset, split: Split) -> list[LayerSummary]:
        """Draws the weights by the seed; dropout uses the seed too."""
        spec = self._spec
        mxnet.random.seed(spec.seeds.weights)
        self._rows = Rows(spec, dataset, split)
        native = spec.training.loader == "native"
        loader = MxnetLoader(spec, *self._rows.tables, dataset.files) if native else None
        self.feed = Feed(self._rows.take, loader)
        self._model = GraphBlock(spec.graph)
        self._model.load(draw_parameters(spec.graph, spec.seeds.weights), self._context)
        self._model.hybridize(static_alloc=True)
        parameters = self._model.collect_params()
        self._trainer = gluon.Trainer(
            parameters, build_optimizer(spec.training.optimizer), kvstore=None
        )
        self.state = MxnetState(spec, self._model, self._trainer)
        trained = [p for p in parameters.values() if p.grad_req != "null"]
        self._last_weight = trained[-1].data(self._context) if trained else None
        return summarise_layers(spec.graph, dict(self._model.parameter_sizes()))

    def run_step(self, rows: array[int]) -> None:
        """Gives one step to the device; while it is traced, phase after phase."""
        enter = self._enter
        enter("input")
        inputs, targets = map(self._to_device, self.feed.take(rows))
        inputs = _prepare(inputs)
        enter("forward")
        with autograd.record():
            outputs = self._model(inputs)
            enter("loss")
            loss = self._loss(outputs, targets).mean()
        enter("backward")
        loss.backward()
        enter("update")
        self._trainer.step(1)
        enter("end")
        # A reading of the last weight to be updated is ready when the update is.
        self._clock.mark((loss, self._read_weight()))

    def _read_weight(self) -> Any:
        axes = self._last_weight.ndim
        return nd.slice(self._last_weight, begin=(0,) * axes, end=(1,) * axes)

    def _to_device(self, part: Any) -> Any:
        if isinstance(part, nd.NDArray):  # as Gluon's loader gives it
            return part.as_in_context(self._context)
        return nd.array(part, self._context, part.dtype)

    def make_tracer(self) -> Any:
        """The tracer of the model's layers; from then on it is told the phases of steps."""
        # Only runs that trace need it.
        from trainload_worker.frameworks.mxnet.tracer import MxnetTracer

        tracer = MxnetTracer(self._model, [layer.name for layer in self._spec.graph.layers])
        self._enter = tracer.enter
        return tracer

    def collect(self, drain: bool) -> StepBatch:
        """Steps that the device has finished."""
        return self._clock.collect(drain)

    def evaluate(self) -> Evaluation:
        """Runs over the validation rows in chunks."""
        return self._rows.evaluate(self.forward)

    def forward(self, inputs: Any) -> Any:
        """The logits of a batch in evaluation mode, as a NumPy array."""
        return self._model(_prepare(nd.array(inputs, self._context, inputs.dtype))).asnumpy()


def _pass(_phase: str) -> None:
    """Untraced, a step's phases are nobody's business."""


def _prepare(inputs: Any) -> Any:
    """A batch as the model takes it."""
    return normalise(inputs.astype("float32")) if inputs.dtype == numpy.uint8 else inputs


def _wait(ending: Any) -> None:
    ending[1].wait_to_read()


def _read_loss(ending: Any) -> float:
    return float(ending[0].asscalar())
