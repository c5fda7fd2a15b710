"""What TensorFlow offers; imports nothing of it."""

from trainload_worker.protocol.offers import NativeLoader, Offer

OFFER = Offer(
    name="tensorflow",
    distributions=("tensorflow-cpu", "tensorflow"),
    lowest=(2, 16),  # Keras 3 came with it
    below=(3, 0),
    also=("keras", "numpy"),
    modules=("tensorflow", "keras"),
    scripts=True,
    told_steps=True,
    graph_layers=("cpu",),
    native_loader=NativeLoader(
        described="tf.data with {} parallel calls",
        image_files="image files are decoded and resized by TensorFlow: pixels differ a little "
        "from the cache's",
    ),
)
