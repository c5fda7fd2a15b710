"""A training loop written by hand in Keras, for `bench/driver_cost.py`; knows nothing of trainload.

python loop_tensorflow.py FOLDER     the batches and options stand in FOLDER; runs until SIGTERM
"""

import json
import sys

import keras
import numpy
import tensorflow as tf
from keras import layers
from loop_stamps import Stamps


def build(model):
    if model == "lenet5":
        stack = [
            *(layers.Conv2D(6, 5, activation="tanh"), layers.AveragePooling2D(2)),
            *(layers.Conv2D(16, 5, activation="tanh"), layers.AveragePooling2D(2)),
            *(layers.Flatten(), layers.Dense(120, "tanh"), layers.Dense(84, "tanh")),
        ]
        return keras.Sequential([keras.Input((32, 32, 1)), *stack, layers.Dense(10)])
    hidden = [layers.Dense(512, "relu") for _ in range(3)]
    return keras.Sequential([keras.Input((75,)), *hidden, layers.Dense(10)])


def main():
    folder = sys.argv[1]
    with open(f"{folder}/options.json") as file:
        options = json.load(file)
    tf.config.threading.set_intra_op_parallelism_threads(options["threads"])
    tf.config.threading.set_inter_op_parallelism_threads(1)
    features, labels = numpy.load(f"{folder}/features.npy"), numpy.load(f"{folder}/labels.npy")
    if features.ndim == 4:
        features = numpy.ascontiguousarray(features.transpose(0, 2, 3, 1))
    model = build(options["model"])
    # Keras adds weight decay apart from the gradient; the added work is the same.
    optimizer = keras.optimizers.Adam(1e-4, weight_decay=1e-4)
    optimizer.build(model.trainable_variables)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function(reduce_retracing=True)
    def train_step(inputs, targets):
        if inputs.dtype == tf.uint8:
            inputs = (tf.cast(inputs, tf.float32) - 127.5) / 127.5
        with tf.GradientTape() as tape:
            loss = loss_of(targets, model(inputs, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply(gradients, model.trainable_variables)
        return loss

    stamps = Stamps(folder, numpy.array)
    for rows in stamps.batches():
        loss = train_step(tf.constant(features[rows]), tf.constant(labels[rows]))
        stamps.keep(float(loss))
    stamps.tell()


if __name__ == "__main__":
    main()
