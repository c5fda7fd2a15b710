"""Makes a run's data ready and counts its steps, without any framework."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from trainload_worker.data import Dataset, RowOrder, standardise
from trainload_worker.data_csv import load_csv
from trainload_worker.data_keypoints import make_keypoints
from trainload_worker.errors import GraphError
from trainload_worker.spec import KeypointsSpec, Spec
from trainload_worker.split import Split, split_by_group


@dataclass(frozen=True)
class Prepared:
    """Data divided for training, and how many steps the run will take at most."""

    dataset: Dataset
    split: Split
    order: RowOrder
    steps_per_epoch: int
    total_steps: int

    def describe(self) -> dict[str, Any]:
        """The fields of the `data` event."""
        counts = [0] * len(self.dataset.classes)
        for row in self.split.validation_rows:
            counts[self.dataset.labels[row]] += 1
        return {
            "train_rows": len(self.split.train_rows),
            "validation_rows": len(self.split.validation_rows),
            "train_groups": self.split.train_group_count,
            "validation_groups": self.split.validation_group_count,
            "classes": list(self.dataset.classes),
            "steps_per_epoch": self.steps_per_epoch,
            "total_steps": self.total_steps,
            "validation_class_counts": dict(zip(self.dataset.classes, counts)),
        }


def prepare(spec: Spec) -> Prepared:
    """Makes or reads the data set, splits it by group and checks that the graph fits it.

    A table's features are standardised by its training rows; generated ones are made to scale.
    """
    data, seeds = spec.data, spec.seeds
    if isinstance(data, KeypointsSpec):
        dataset = make_keypoints(data.class_counts, seeds.data, data.features)
    else:
        dataset = load_csv(data)
    split = split_by_group(dataset.groups, data.validation_fraction, seeds.split)
    if not isinstance(data, KeypointsSpec):
        standardise(dataset, split.train_rows)
    _check_fit(spec, dataset)
    steps_per_epoch = math.ceil(len(split.train_rows) / spec.training.batch_size)
    total_steps = steps_per_epoch * spec.training.epochs
    if spec.training.max_steps is not None:
        total_steps = min(total_steps, spec.training.max_steps)
    order = RowOrder(split.train_rows, seeds.data_order)
    return Prepared(dataset, split, order, steps_per_epoch, total_steps)


def _check_fit(spec: Spec, dataset: Dataset) -> None:
    shapes = {layer.name: layer.output_shape for layer in spec.graph.layers}
    entries = [layer for layer in spec.graph.layers if layer.kind == "input"]
    if len(entries) != 1:
        raise GraphError(f"graph {spec.graph.name} has {len(entries)} input layers; one is needed")
    width = math.prod(entries[0].output_shape)
    if width != dataset.feature_count:
        raise GraphError(
            f"layer {entries[0].name} takes {width} features, the data have {dataset.feature_count}"
        )
    if spec.graph.output not in shapes:
        raise GraphError(f"the output {spec.graph.output} is no layer of graph {spec.graph.name}")
    if shapes[spec.graph.output] != (len(dataset.classes),):
        raise GraphError(
            f"layer {spec.graph.output} gives shape {list(shapes[spec.graph.output])}, "
            f"the data have {len(dataset.classes)} classes"
        )
