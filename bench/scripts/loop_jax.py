"""A training loop written by hand in Flax NNX, for `bench/driver_cost.py`; knows no trainload.

python loop_jax.py FOLDER     the batches and options stand in FOLDER; runs until SIGTERM
"""

import itertools
import json
import os
import sys

FOLDER = sys.argv[1]
with open(f"{FOLDER}/options.json") as _file:
    OPTIONS = json.load(_file)
os.environ["NPROC"] = str(OPTIONS["threads"])  # read when JAX is imported

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy  # noqa: E402
import optax  # noqa: E402
from flax import nnx  # noqa: E402
from loop_stamps import Stamps  # noqa: E402


class Perceptron(nnx.Module):
    def __init__(self, rngs):
        widths = [75, 512, 512, 512, 10]
        self.layers = nnx.List([nnx.Linear(a, b, rngs=rngs) for a, b in itertools.pairwise(widths)])

    def __call__(self, rows):
        for layer in self.layers[:-1]:
            rows = nnx.relu(layer(rows))
        return self.layers[-1](rows)


class LeNet(nnx.Module):
    def __init__(self, rngs):
        self.conv1 = nnx.Conv(1, 6, (5, 5), padding="VALID", rngs=rngs)
        self.conv2 = nnx.Conv(6, 16, (5, 5), padding="VALID", rngs=rngs)
        self.linear1 = nnx.Linear(400, 120, rngs=rngs)
        self.linear2 = nnx.Linear(120, 84, rngs=rngs)
        self.output = nnx.Linear(84, 10, rngs=rngs)

    def __call__(self, rows):
        rows = (rows.astype(jnp.float32).transpose(0, 2, 3, 1) - 127.5) / 127.5
        rows = nnx.avg_pool(jnp.tanh(self.conv1(rows)), (2, 2), (2, 2))
        rows = nnx.avg_pool(jnp.tanh(self.conv2(rows)), (2, 2), (2, 2))
        rows = jnp.tanh(self.linear1(rows.reshape(len(rows), -1)))
        return self.output(jnp.tanh(self.linear2(rows)))


def main():
    features, labels = numpy.load(f"{FOLDER}/features.npy"), numpy.load(f"{FOLDER}/labels.npy")
    kind = LeNet if OPTIONS["model"] == "lenet5" else Perceptron
    form, state = nnx.split(kind(nnx.Rngs(0)))
    optimizer = optax.chain(optax.add_decayed_weights(1e-4), optax.adam(1e-4))
    moments = optimizer.init(state)

    @jax.jit
    def train_step(state, moments, inputs, targets):
        def loss_of(state):
            logits = nnx.merge(form, state)(inputs)
            return optax.softmax_cross_entropy_with_integer_labels(logits, targets).mean()

        loss, gradients = jax.value_and_grad(loss_of)(state)
        updates, moments = optimizer.update(gradients, moments, state)
        return optax.apply_updates(state, updates), moments, loss

    stamps, before = Stamps(FOLDER, numpy.array), None
    for rows in stamps.batches():
        state, moments, loss = train_step(state, moments, features[rows], labels[rows])
        # The last step's loss, read while this step runs.
        if before is not None:
            stamps.keep(float(before))
        before = loss
    stamps.tell()


if __name__ == "__main__":
    main()
