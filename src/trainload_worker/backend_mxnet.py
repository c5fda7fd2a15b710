"""Trains with MXNet: a hybridized Gluon block and Gluon's trainer.

A call returns before its step has ended, on the CPU too; `step_clocks` learns the end from a
waiting thread.
"""

from __future__ import annotations

from array import array
from typing import Any

import mxnet
import numpy
from mxnet import autograd, gluon, nd

from trainload_worker.backends import Evaluation, LayerSummary, Opened, StepBatch
from trainload_worker.data import Dataset
from trainload_worker.errors import FrameworkError, SpecError
from trainload_worker.graph_mxnet import GraphBlock
from trainload_worker.initial_weights import draw_parameters
from trainload_worker.layer_parameters import summarise_layers
from trainload_worker.optimizers_mxnet import build_optimizer
from trainload_worker.rows_numpy import Rows, normalise
from trainload_worker.spec import Spec
from trainload_worker.split import Split
from trainload_worker.step_clocks import WaitingClock


def create(spec: Spec) -> MxnetBackend:
    """The backend for that specification."""
    return MxnetBackend(spec)


class MxnetBackend:
    """One model, its trainer and its data; rows stay in host memory until their step."""

    def __init__(self, spec: Spec) -> None:
        if spec.training.precision != "float32":
            raise SpecError(f"mxnet trains in float32 here, not in {spec.training.precision}")
        self._spec = spec
        self._on_gpu = bool(spec.setting.accelerators)
        self._context: Any = mxnet.gpu(0) if self._on_gpu else mxnet.cpu(0)
        self._clock = WaitingClock(wait=_wait, read=_read_loss)
        self._rows: Rows
        self._model: Any
        self._trainer: Any
        self._loss: Any = gluon.loss.SoftmaxCrossEntropyLoss()
        self._last_weight: Any

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
        self._model = GraphBlock(spec.graph)
        self._model.load(draw_parameters(spec.graph, spec.seeds.weights), self._context)
        self._model.hybridize(static_alloc=True)
        parameters = self._model.collect_params()
        self._trainer = gluon.Trainer(
            parameters, build_optimizer(spec.training.optimizer), kvstore=None
        )
        trained = [p for p in parameters.values() if p.grad_req != "null"]
        self._last_weight = trained[-1].data(self._context) if trained else None
        return summarise_layers(spec.graph, dict(self._model.parameter_sizes()))

    def run_step(self, rows: array[int]) -> None:
        """Gives one step to the device."""
        inputs, targets = (
            nd.array(part, self._context, part.dtype) for part in self._rows.take(rows)
        )
        with autograd.record():
            loss = self._loss(self._model(_prepare(inputs)), targets).mean()
        loss.backward()
        self._trainer.step(1)
        # A reading of the last weight to be updated is ready when the update is.
        self._clock.mark((loss, self._last_weight.reshape(-1)[0:1].copy()))

    def collect(self, drain: bool) -> StepBatch:
        """Steps that the device has finished."""
        return self._clock.collect(drain)

    def evaluate(self) -> Evaluation:
        """Runs over the validation rows in chunks."""
        return self._rows.evaluate(self.forward)

    def forward(self, inputs: Any) -> Any:
        """The logits of a batch in evaluation mode, as a NumPy array."""
        return self._model(_prepare(nd.array(inputs, self._context, inputs.dtype))).asnumpy()


def _prepare(inputs: Any) -> Any:
    """A batch as the model takes it."""
    return normalise(inputs.astype("float32")) if inputs.dtype == numpy.uint8 else inputs


def _wait(ending: Any) -> None:
    ending[1].wait_to_read()


def _read_loss(ending: Any) -> float:
    return float(ending[0].asscalar())
