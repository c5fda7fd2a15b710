"""A Keras script as people write them: compile, fit with validation, a checkpoint after each epoch.

trainload run examples/scripts/keras_fit.py --framework tensorflow -- --epochs 3
"""

import argparse
from pathlib import Path

import keras
import numpy as np


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--out", type=Path, default=Path("keras-out"))
    options = parser.parse_args()
    keras.utils.set_random_seed(0)
    features = np.random.randn(options.rows, 32).astype("float32")
    labels = (features[:, 0] > 0).astype("int32") + 2 * (features[:, 1] > 0)
    model = keras.Sequential(
        [
            keras.Input((32,)),
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dense(4),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"])
    options.out.mkdir(parents=True, exist_ok=True)
    model.fit(
        features,
        labels,
        batch_size=64,
        epochs=options.epochs,
        validation_split=0.2,
        verbose=2,
        callbacks=[keras.callbacks.ModelCheckpoint(options.out / "best.weights.h5",
                                                   save_weights_only=True)],
    )  # fmt: skip


if __name__ == "__main__":
    main()
