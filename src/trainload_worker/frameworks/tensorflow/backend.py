"""Trains with TensorFlow: a Keras 3 model, a step as one `tf.function`, no XLA.

On the CPU the call of a step returns when the step has ended; on a GPU a waiting thread sees it.
"""

from __future__ import annotations

import os
from array import array
from importlib import metadata
from typing import Any

# Keras 3 asks which framework it is to run on when it is imported.
os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy
import tensorflow as tf
from tensorflow.profiler.experimental import Trace

from trainload_worker.data.dataset import Dataset
from trainload_worker.data.split import Split
from trainload_worker.errors import FrameworkError, SpecError
from trainload_worker.frameworks.arrays.rows import Rows, normalise
from trainload_worker.frameworks.backends import Evaluation, LayerSummary, Opened, StepBatch
from trainload_worker.frameworks.tensorflow.graph import GraphModel
from trainload_worker.frameworks.tensorflow.loader import TensorFlowLoader
from trainload_worker.frameworks.tensorflow.optimizers import build_optimizer
from trainload_worker.frameworks.tensorflow.owners import ENDING, LOSS, OPTIMIZER, PREPARE, Owners
from trainload_worker.frameworks.tensorflow.profile import CALL, INPUT
from trainload_worker.frameworks.tensorflow.state import TensorFlowState
from trainload_worker.frameworks.tensorflow.tracer import Tracer
from trainload_worker.protocol.spec import TrainSpec
from trainload_worker.training.feed import Feed
from trainload_worker.training.initial_weights import draw_parameters
from trainload_worker.training.layer_parameters import summarise_layers
from trainload_worker.training.step_clocks import ReturnClock, StepClock, WaitingClock


def create(spec: TrainSpec) -> TensorFlowBackend:
    """The backend for that specification."""
    return TensorFlowBackend(spec)


class TensorFlowBackend:
    """One model, its optimizer and its data; rows stay in host memory until their step."""

    def __init__(self, spec: TrainSpec) -> None:
        if spec.training.precision != "float32":
            raise SpecError(f"tensorflow trains in float32 here, not in {spec.training.precision}")
        self._spec = spec
        self._on_gpu = bool(spec.setting.accelerators)
        self.state: TensorFlowState
        self.feed: Feed
        self._clock: StepClock
        self._rows: Rows
        self._model: Any
        self._step: Any
        self._forward: Any

    def open(self) -> Opened:
        """Sets the number of threads and finds the device; a missing one is never replaced."""
        setting = self._spec.setting
        if setting.threads is not None:
            tf.config.threading.set_intra_op_parallelism_threads(setting.threads)
            # More would run operations beside each other, each on that many threads.
            tf.config.threading.set_inter_op_parallelism_threads(1)
        found = tf.config.list_physical_devices("GPU")
        if self._on_gpu and not found:
            raise FrameworkError(
                f"the setting has an accelerator, but tensorflow {tf.__version__} finds none; "
                "choose a setting without it, such as cpu0, or install a CUDA build"
            )
        used = found[:1] if self._on_gpu else []
        tf.config.set_visible_devices(used, "GPU")
        notes = ["operations run one after another, each on the threads of the setting"]
        if any(max(x.attributes.get("dilation", [1])) > 1 for x in self._spec.graph.layers):
            notes.append("dilated convolutions have zeros in their kernels, which costs time")
        if len(setting.accelerators) > 1:
            notes.append("tensorflow trains on the first accelerator of the setting alone")
        return Opened(
            version=tf.__version__,
            software={"tensorflow": tf.__version__, "keras": keras.__version__, **_numpy()},
            device="gpu:0" if self._on_gpu else "cpu",
            threads=tf.config.threading.get_intra_op_parallelism_threads() or None,
            accelerators=[_describe(device) for device in used],
            notes=notes,
        )

    def build(self, dataset: Dataset, split: Split) -> list[LayerSummary]:
        """Draws the weights by the seed, and traces the step; dropout uses the seed too."""
        spec = self._spec
        keras.utils.set_random_seed(spec.seeds.weights)
        self._rows = Rows(spec, dataset, split)
        native = spec.training.loader == "native"
        loader = TensorFlowLoader(spec, *self._rows.tables, dataset.files) if native else None
        self.feed = Feed(self._rows.take, loader)
        model = GraphModel(spec.graph, draw_parameters(spec.graph, spec.seeds.weights))
        rows = tf.TensorSpec([None, *self._rows.input_shape], self._rows.input_dtype)
        self._forward = _trace(lambda inputs: model(_prepare(inputs), training=False), rows)
        # Keras knows its variables once the model has been called.
        variables = [variable.value for variable in model.trainable_variables]
        optimizer = build_optimizer(spec.training.optimizer, variables)
        self.state = TensorFlowState(spec, model, optimizer)
        self._model = model
        targets = tf.TensorSpec([None, *self._rows.target_shape], tf.int32)
        if self._rows.batch_sizes:
            self._step = _trace(_make_step(model, variables, optimizer), rows, targets)
        waiting = WaitingClock(_wait_for_update, _read_loss)
        self._clock = waiting if self._on_gpu else ReturnClock(_read_loss)
        sizes = {
            name: [int(numpy.prod(variable.shape)) for variable in layer.trainable_variables]
            for name, layer in model.named.items()
        }
        return summarise_layers(spec.graph, sizes)

    def run_step(self, rows: array[int]) -> None:
        """Gives one step to the device."""
        # Notes nothing unless a window is open.
        with Trace(INPUT):
            inputs, targets = map(tf.convert_to_tensor, self.feed.take(rows))
        with Trace(CALL):
            ending = self._step(inputs, targets)
        self._clock.mark(ending)

    def make_tracer(self) -> Tracer:
        """The tracer of steps; FrameworkError on a GPU, whose kernels it cannot tell apart."""
        if self._on_gpu:
            raise FrameworkError("tensorflow's layers are told apart on the CPU alone")
        owners = {
            id(variable.value): name
            for name, layer in self._model.named.items()
            for variable in layer.trainable_variables
        }
        variables = [owners.get(id(x.value)) for x in self._model.trainable_variables]
        return Tracer(Owners(self._step.graph, self._model.scopes, variables))

    def collect(self, drain: bool) -> StepBatch:
        """Steps that the device has finished."""
        return self._clock.collect(drain)

    def evaluate(self) -> Evaluation:
        """Runs over the validation rows in chunks."""
        return self._rows.evaluate(self.forward)

    def forward(self, inputs: Any) -> Any:
        """The logits of a batch in evaluation mode, as a NumPy array."""
        return self._forward(tf.convert_to_tensor(inputs)).numpy()


def _trace(function: Any, *signature: Any) -> Any:
    """The function as one graph for batches of any size."""
    return tf.function(function, jit_compile=False).get_concrete_function(*signature)


def _make_step(model: Any, variables: list[Any], optimizer: Any) -> Any:
    def step(inputs: Any, targets: Any) -> Any:
        with tf.GradientTape() as tape:
            logits = model(_prepare(inputs), training=True)
            with tf.name_scope(LOSS):
                losses = tf.nn.sparse_softmax_cross_entropy_with_logits(targets, logits)
                loss = tf.reduce_mean(losses)
        gradients = tape.gradient(loss, variables)
        with tf.name_scope(OPTIMIZER):
            optimizer.apply(gradients)
        with tf.name_scope(ENDING):
            # Read after the update: the loss itself is known before it.
            return loss, tf.reshape(variables[0], [-1])[0]

    return step


def _prepare(inputs: Any) -> Any:
    """A batch as the model takes it."""
    with tf.name_scope(PREPARE):
        return normalise(tf.cast(inputs, tf.float32)) if inputs.dtype == tf.uint8 else inputs


def _wait_for_update(ending: Any) -> None:
    ending[1].numpy()


def _read_loss(ending: Any) -> float:
    return float(ending[0].numpy())


def _numpy() -> dict[str, str | None]:
    return {"numpy": metadata.version("numpy")}


def _describe(device: Any) -> dict[str, str | None]:
    name = tf.config.experimental.get_device_details(device).get("device_name")
    return {"name": None if name is None else str(name), "uuid": None}
