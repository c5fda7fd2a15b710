"""What torch offers; imports nothing of it."""

from trainload_worker.protocol.offers import NativeLoader, Offer

OFFER = Offer(
    name="torch",
    distributions=("torch",),
    lowest=(1, 13),
    below=(3, 0),
    modules=("torch",),
    precisions=("float32", "bf16"),
    scripts=True,
    script_layers=True,
    graph_layers=("cpu", "cuda"),
    native_loader=NativeLoader(
        described="torch's DataLoader in {} processes",
        image_files="image files are decoded and resized by Pillow, as the cache's are",
    ),
    op_trace=True,
)
