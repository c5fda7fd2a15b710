"""JAX with one line more: each call of the step is a step of the run."""

import jax
import jax.numpy as jnp

import trainload


def loss_of(weights, rows, labels):
    return jnp.mean((jnp.tanh(rows @ weights["in"]) @ weights["out"] - labels) ** 2)


@jax.jit
def step(weights, rows, labels):
    loss, slopes = jax.value_and_grad(loss_of)(weights, rows, labels)
    return jax.tree.map(lambda w, s: w - 0.1 * s, weights, slopes), loss


def main():
    watched = trainload.watch_step(step, name="jax-example", examples=64)  # this line
    keys = jax.random.split(jax.random.key(0), 3)
    rows = jax.random.normal(keys[0], (64, 32))
    labels = jnp.sin(rows[:, :1])
    weights = {
        "in": 0.1 * jax.random.normal(keys[1], (32, 64)),
        "out": 0.1 * jax.random.normal(keys[2], (64, 1)),
    }
    for _ in range(200):
        weights, loss = watched(weights, rows, labels)
    print(f"loss {loss:.4f}")


if __name__ == "__main__":
    main()
