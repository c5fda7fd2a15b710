"""What JAX offers; imports nothing of it."""

from trainload_worker.protocol.offers import Offer

OFFER = Offer(
    name="jax",
    distributions=("jax",),
    lowest=(0, 7),
    below=(1, 0),
    also=("flax", "optax", "numpy"),
    modules=("jax", "flax.nnx", "optax"),
    # XLA's pool on the CPU; there is no option for it.
    thread_variables=("NPROC",),
    graph_layers=("cpu", "cuda"),
    told_steps=True,
)
