"""TensorFlow's own input pipeline: tf.data over the training rows, files decoded inside it."""

from __future__ import annotations

import os
from array import array
from typing import Any, Iterator, Sequence

import numpy
import tensorflow as tf

from trainload_worker.errors import DataError
from trainload_worker.protocol.spec import TrainSpec

DECODED = (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".gif", ".bmp")
"""Kinds of files that TensorFlow decodes; others are only in the cache."""


class TensorFlowLoader:
    """Batches of a tf.data pipeline, made anew for each epoch's order."""

    def __init__(self, spec: TrainSpec, features: Any, labels: Any, files: Sequence[str]) -> None:
        self._batch_size = spec.training.batch_size
        self._workers = max(1, spec.training.loader_workers)
        # On the host, where the pipeline runs, whatever device trains.
        with tf.device("/cpu:0"):
            self._labels = tf.constant(numpy.asarray(labels, dtype=numpy.int32))
            if files:
                _check_kinds(files)
                self._files = tf.constant(list(files))
                self._shape = features.shape[1:]
                self._load = self._load_file
            else:
                self._features = tf.convert_to_tensor(features)
                self._load = self._load_row
        self._iterator: Iterator[Any]

    def begin_epoch(self, rows: array[int]) -> None:
        """Makes the pipeline of these rows; it begins at once."""
        with tf.device("/cpu:0"):
            order = tf.data.Dataset.from_tensor_slices(numpy.frombuffer(rows, dtype=numpy.int64))
            batches = (
                order.map(self._load, num_parallel_calls=self._workers, deterministic=True)
                .batch(self._batch_size)
                .prefetch(2)
            )
            options = tf.data.Options()
            options.threading.private_threadpool_size = self._workers
            self._iterator = iter(batches.with_options(options))

    def take(self) -> tuple[Any, Any]:
        """Waits for the next batch."""
        examples, targets = next(self._iterator)
        return examples, targets

    def _load_row(self, row: Any) -> tuple[Any, Any]:
        return tf.gather(self._features, row), tf.gather(self._labels, row)

    def _load_file(self, row: Any) -> tuple[Any, Any]:
        channels, height, width = self._shape
        content = tf.io.read_file(tf.gather(self._files, row))
        image = tf.io.decode_image(content, channels=channels, expand_animations=False)
        image = _fit(image, height, width)
        return tf.transpose(image, [2, 0, 1]), tf.gather(self._labels, row)


def _fit(image: Any, height: int, width: int) -> Any:
    """Cut at the centre to the shape's proportions and scaled: the cache's way, in whole pixels."""
    size = tf.cast(tf.shape(image)[:2], tf.float32)
    scale = tf.minimum(size[0] / height, size[1] / width)
    cut = tf.cast(tf.round([scale * height, scale * width]), tf.int32)
    first = (tf.shape(image)[:2] - cut) // 2
    image = tf.image.crop_to_bounding_box(image, first[0], first[1], cut[0], cut[1])
    scaled = tf.image.resize(image, [height, width], "bilinear", antialias=True)
    return tf.cast(tf.clip_by_value(tf.round(scaled), 0, 255), tf.uint8)


def _check_kinds(files: Sequence[str]) -> None:
    for path in files:
        if os.path.splitext(path)[1].lower() not in DECODED:
            raise DataError(f"{path}: tensorflow decodes no such files; train with --loader cache")
