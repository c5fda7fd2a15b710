"""Trains with JAX: a Flax NNX model, an Optax optimizer, one compiled program a step.

The program is compiled while the model is built, once for each size of batch. A call returns
before its step has ended, on the CPU too; `step_clocks` learns the end from a waiting thread.
"""

from __future__ import annotations

from array import array
from importlib import metadata
from typing import Any

import jax
import jax.numpy as jnp
import numpy
import optax
from flax import nnx

from trainload_worker.data.dataset import Dataset
from trainload_worker.data.split import Split
from trainload_worker.errors import FrameworkError
from trainload_worker.frameworks.arrays.rows import Rows, normalise
from trainload_worker.frameworks.backends import Evaluation, LayerSummary, Opened, StepBatch
from trainload_worker.frameworks.jax.graph import GraphModule
from trainload_worker.frameworks.jax.optimizers import build_optimizer
from trainload_worker.frameworks.jax.state import JaxState
from trainload_worker.frameworks.jax.tracer import JaxTracer, mark_taking
from trainload_worker.frameworks.xla.layers import INPUT_SCOPE, LOSS_SCOPE, UPDATE_SCOPE
from trainload_worker.protocol.spec import TrainSpec
from trainload_worker.training.feed import Feed
from trainload_worker.training.initial_weights import draw_parameters
from trainload_worker.training.layer_parameters import summarise_layers
from trainload_worker.training.step_clocks import WaitingClock


def create(spec: TrainSpec) -> JaxBackend:
    """The backend for that specification."""
    return JaxBackend(spec)


class JaxBackend:
    """One model, its optimizer and its data; rows stay in host memory until their step."""

    def __init__(self, spec: TrainSpec) -> None:
        self._spec = spec
        self._clock = WaitingClock(wait=lambda loss: loss.block_until_ready(), read=float)
        self.state: JaxState
        self.feed: Feed
        self._rows: Rows
        self._state: Any
        self._steps: dict[int, Any] = {}
        self._forward: Any

    def open(self) -> Opened:
        """Finds the device; the number of threads was set before JAX was imported."""
        setting = self._spec.setting
        device = _find_device(bool(setting.accelerators))
        jax.config.update("jax_default_device", device)
        notes = [
            "each step is one program, compiled in the build phase",
            "a step's end is seen by a waiting thread: steps are given out before the last ended",
        ]
        if len(setting.accelerators) > 1:
            notes.append("jax trains on the first accelerator of the setting alone")
        accelerators = [] if device.platform == "cpu" else [{"name": device.device_kind}]
        return Opened(
            version=jax.__version__,
            software={name: metadata.version(name) for name in _PACKAGES},
            device=str(device.platform),
            threads=setting.threads,
            accelerators=[{**found, "uuid": None} for found in accelerators],
            notes=notes,
        )

    def build(self, dataset: Dataset, split: Split) -> list[LayerSummary]:
        """Draws the weights by the seed, and compiles a step for each size of batch."""
        spec, seed = self._spec, self._spec.seeds.weights
        self._rows = Rows(spec, dataset, split)
        self.feed = Feed(self._rows.take)
        model = GraphModule(spec.graph, draw_parameters(spec.graph, seed))
        form, parameters, rest = nnx.split(model, nnx.Param, ...)
        optimizer = build_optimizer(spec.training.optimizer)
        counter = jnp.zeros((), jnp.uint32)
        self._state = (parameters, rest, optimizer.init(parameters), counter)
        self.state = JaxState(spec, lambda: self._state, self._replace_state)
        step = jax.jit(_make_step(form, optimizer, jax.random.key(seed)), donate_argnums=0)
        for rows in self._rows.batch_sizes:
            inputs, targets = self._example(rows)
            self._steps[rows] = step.lower(self._state, inputs, targets).compile()
        self._forward = jax.jit(_make_forward(form))
        sizes = {
            name: [leaf.size for leaf in jax.tree.leaves(nnx.state(layer, nnx.Param))]
            for name, layer in model.layers.items()
        }
        return summarise_layers(spec.graph, sizes)

    def run_step(self, rows: array[int]) -> None:
        """Gives one step to the device."""
        with mark_taking(len(rows)):
            inputs, targets = self.feed.take(rows)
        self._state, loss = self._steps[len(rows)](self._state, inputs, targets)
        self._clock.mark(loss)

    def collect(self, drain: bool) -> StepBatch:
        """Steps that the device has finished."""
        return self._clock.collect(drain)

    def evaluate(self) -> Evaluation:
        """Runs over the validation rows in chunks."""
        return self._rows.evaluate(self.forward)

    def forward(self, inputs: Any) -> Any:
        """The logits of a batch in evaluation mode, as a NumPy array."""
        return numpy.asarray(self._forward(self._state[0], self._state[1], inputs))

    def _replace_state(self, state: Any) -> None:
        self._state = state

    def make_tracer(self) -> JaxTracer:
        """The tracer of steps."""
        layers = [layer.name for layer in self._spec.graph.layers if layer.kind != "input"]
        return JaxTracer(self._steps, layers)

    def _example(self, rows: int) -> tuple[Any, Any]:
        """Shapes and types of a batch of that size, to compile for."""
        inputs = jax.ShapeDtypeStruct((rows, *self._rows.input_shape), self._rows.input_dtype)
        return inputs, jax.ShapeDtypeStruct((rows, *self._rows.target_shape), numpy.int32)


def _make_step(form: Any, optimizer: Any, key: Any) -> Any:
    """One step of training as a pure function of its state and its batch."""

    def step(state: Any, inputs: Any, targets: Any) -> Any:
        parameters, rest, optimizer_state, counter = state

        def loss_of(parameters: Any) -> Any:
            # A copy: variables may be changed only where they were made.
            model = nnx.merge(form, parameters, rest, copy=True)
            logits = model(_prepare(inputs), train=True, key=jax.random.fold_in(key, counter))
            with jax.named_scope(LOSS_SCOPE):
                loss = optax.softmax_cross_entropy_with_integer_labels(logits, targets).mean()
            return loss, nnx.split(model, nnx.Param, ...)[2]

        (loss, rest), gradients = jax.value_and_grad(loss_of, has_aux=True)(parameters)
        with jax.named_scope(UPDATE_SCOPE):
            updates, optimizer_state = optimizer.update(gradients, optimizer_state, parameters)
            parameters = optax.apply_updates(parameters, updates)
            counter = counter + 1
        return (parameters, rest, optimizer_state, counter), loss

    return step


def _make_forward(form: Any) -> Any:
    def forward(parameters: Any, rest: Any, inputs: Any) -> Any:
        return nnx.merge(form, parameters, rest)(_prepare(inputs), train=False, key=None)

    return forward


def _prepare(inputs: Any) -> Any:
    """A batch as the model takes it."""
    with jax.named_scope(INPUT_SCOPE):
        return normalise(inputs.astype(jnp.float32)) if inputs.dtype == jnp.uint8 else inputs


_PACKAGES = ("jax", "jaxlib", "flax", "optax", "numpy")


def _find_device(accelerated: bool) -> Any:
    if not accelerated:
        return jax.devices("cpu")[0]
    try:
        return jax.devices("gpu")[0]
    except RuntimeError as error:
        raise FrameworkError(
            f"the setting has an accelerator, but jax {jax.__version__} finds none; "
            "choose a setting without it, such as cpu0, or install a CUDA build"
        ) from error
