"""Makes a run's data ready and counts its steps, without any framework."""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass, replace

from trainload_worker.data.dataset import Dataset, RowOrder, standardise
from trainload_worker.data.images import load_images
from trainload_worker.data.keypoints import make_keypoints
from trainload_worker.data.npy import load_npy
from trainload_worker.data.split import Split, split_at, split_by_group, split_fold
from trainload_worker.data.synthetic import make_synthetic
from trainload_worker.data.table import load_csv
from trainload_worker.errors import DataError, GraphError
from trainload_worker.protocol.data import CsvData, ImageData, KeypointData, SyntheticData
from trainload_worker.protocol.events import DataReady
from trainload_worker.protocol.spec import TrainSpec
from trainload_worker.training.ranks import count_visited
from trainload_worker.training.state import Position

LISTED_CLASSES = 1000
"""Up to so many classes are named and counted one by one in the record."""


@dataclass(frozen=True)
class Prepared:
    """Data divided for training, and how many steps the run will take at most."""

    dataset: Dataset
    split: Split
    order: RowOrder
    steps_per_epoch: int
    total_steps: int
    rows_per_epoch: int
    """Training rows that each epoch visits."""
    batch_size: int
    start: Position
    """Where the training begins; not at its very beginning where it is continued."""

    def rows_of(self, epoch: int, first: int = 0) -> array[int]:
        """The rows that an epoch visits, in its order, without the `first` ones."""
        return self.order.draw(epoch)[first : self.rows_per_epoch]

    def steps_from(self, first: int) -> int:
        """How many steps an epoch has left after its first rows."""
        return math.ceil((self.rows_per_epoch - first) / self.batch_size)

    def describe(self) -> DataReady:
        """What the record keeps of the data; classes are listed where they are few."""
        dataset, split = self.dataset, self.split
        left_out = len(split.train_rows) - self.rows_per_epoch
        classes = counted = None
        if not dataset.is_stream and len(dataset.classes) <= LISTED_CLASSES:
            counts = [0] * len(dataset.classes)
            for row in split.validation_rows:
                counts[dataset.labels[row]] += 1
            classes = tuple(dataset.classes)
            counted = dict(zip(classes, counts))
        return DataReady(
            train_rows=len(split.train_rows),
            validation_rows=len(split.validation_rows),
            train_groups=split.train_group_count,
            validation_groups=split.validation_group_count,
            class_count=dataset.class_count,
            steps_per_epoch=self.steps_per_epoch,
            total_steps=self.total_steps,
            form=dataset.form,
            normalisation=dataset.normalisation,
            rows_left_out_of_each_epoch=left_out if left_out > 0 else None,
            classes=classes,
            validation_class_counts=counted,
            cache=dataset.cache,
            broken_count=dataset.broken_count,
            broken=tuple(dataset.broken),
        )


def prepare(spec: TrainSpec, start: Position = Position()) -> Prepared:  # noqa: B008 - it is frozen
    """Makes or reads the data set, splits it by group and checks that the graph fits it.

    A table's features are standardised by its training rows; generated ones are made to scale.
    """
    data, seeds = spec.data, spec.seeds
    dataset = _load(spec)
    split = _split(spec, dataset)
    if isinstance(data, CsvData):
        standardise(dataset, split.train_rows)
    _check_fit(spec, dataset)
    rows = count_visited(spec, len(split.train_rows))
    batch_size = spec.training.batch_size
    steps_per_epoch = math.ceil(rows / batch_size)
    if start.rows >= rows:  # an epoch of other data was longer
        start = replace(start, epochs=start.epochs + 1, rows=0)
    total_steps = max(0, steps_per_epoch * (spec.training.epochs - start.epochs))
    if start.rows and total_steps:
        total_steps -= steps_per_epoch - math.ceil((rows - start.rows) / batch_size)
    if spec.training.max_steps is not None:
        total_steps = min(total_steps, spec.training.max_steps)
    if spec.validate_only:
        total_steps = 0
    order = RowOrder(split.train_rows, seeds.data_order)
    return Prepared(dataset, split, order, steps_per_epoch, total_steps, rows, batch_size, start)


def _split(spec: TrainSpec, dataset: Dataset) -> Split:
    training, seed = spec.training, spec.seeds.split
    if dataset.validation_from is not None:
        if training.folds is not None:
            raise DataError("folds: the data bring their own validation rows; there is no dividing")
        return split_at(dataset.row_count, dataset.validation_from)
    if training.folds is not None:
        return split_fold(dataset.groups, training.folds, training.fold, seed)
    return split_by_group(dataset.groups, spec.data.validation_fraction, seed)


def _load(spec: TrainSpec) -> Dataset:
    data, seed = spec.data, spec.seeds.data
    if isinstance(data, KeypointData):
        return make_keypoints(data.class_counts, seed, data.features)
    if isinstance(data, CsvData):
        return load_csv(data)
    if isinstance(data, SyntheticData):
        return make_synthetic(data, seed)
    if isinstance(data, ImageData):
        native = spec.training.loader == "native"
        return load_images(data, with_files=native and data.kind in ("folder", "subset"))
    return load_npy(data)


def _check_fit(spec: TrainSpec, dataset: Dataset) -> None:
    shapes = {layer.name: layer.output_shape for layer in spec.graph.layers}
    entries = [layer for layer in spec.graph.layers if layer.kind == "input"]
    if len(entries) != 1:
        raise GraphError(f"graph {spec.graph.name} has {len(entries)} input layers; one is needed")
    shape = entries[0].output_shape
    if math.prod(shape) != dataset.feature_count:
        raise GraphError(
            f"layer {entries[0].name} takes {math.prod(shape)} features, "
            f"the data have {dataset.feature_count}"
        )
    if spec.graph.output not in shapes:
        raise GraphError(f"the output {spec.graph.output} is no layer of graph {spec.graph.name}")
    count = dataset.class_count
    expected = (*shape, count) if dataset.is_stream else (count,)
    if shapes[spec.graph.output] != expected:
        raise GraphError(
            f"layer {spec.graph.output} gives shape {list(shapes[spec.graph.output])}, "
            f"the data have {count} {'tokens' if dataset.is_stream else 'classes'}"
        )
