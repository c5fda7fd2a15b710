"""Keras with one line more: each fit is a run."""

import keras
import numpy as np

from trainload.integrations.keras import TrainloadCallback


def main():
    keras.utils.set_random_seed(0)
    features = np.random.randn(1000, 32).astype("float32")
    labels = (features[:, 0] > 0).astype("int32")
    model = keras.Sequential([keras.Input((32,)), keras.layers.Dense(64, "relu"),
                              keras.layers.Dense(2)])  # fmt: skip
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"])
    model.fit(
        features,
        labels,
        batch_size=64,
        epochs=3,
        validation_data=(features[:200], labels[:200]),
        verbose=0,
        callbacks=[TrainloadCallback("keras-example")],  # this line
    )


if __name__ == "__main__":
    main()
