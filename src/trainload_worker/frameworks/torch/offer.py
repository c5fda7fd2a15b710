"""What torch offers; imports nothing of it."""

from trainload_worker.protocol.offers import NativeLoader, Offer

OFFER = Offer(
    name="torch",
    distributions=("torch",),
    # What `make test-wheels` and `make test` run the tests with, at both ends.
    lowest=(2, 6),
    below=(2, 14),
    modules=("torch",),
    precisions=("float32", "bf16", "fp16"),
    scripts=True,
    told_steps=True,
    script_layers=True,
    graph_layers=("cpu", "cuda"),
    native_loader=NativeLoader(
        described="torch's DataLoader in {} processes",
        image_files="image files are decoded and resized by Pillow, as the cache's are",
    ),
    ranks=True,
    op_trace=True,
    sweep=True,
    limits=True,
)
