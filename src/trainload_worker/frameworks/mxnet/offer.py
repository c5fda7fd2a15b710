"""What MXNet offers; imports nothing of it."""

from trainload_worker.protocol.offers import NativeLoader, Offer

OFFER = Offer(
    name="mxnet",
    distributions=("mxnet",),
    lowest=(1, 9),
    below=(2, 0),
    also=("numpy",),
    modules=("mxnet",),
    # The engine's own workers are one; operations use as many threads as OpenMP has.
    thread_variables=("OMP_NUM_THREADS", "MXNET_OMP_MAX_THREADS"),
    graph_layers=("cpu", "cuda"),  # nothing forbids a GPU, but nobody has tried one
    native_loader=NativeLoader(
        described="Gluon's DataLoader in {} threads",
        image_files="image files are decoded and resized by MXNet: pixels differ a little "
        "from the cache's",
    ),
)
