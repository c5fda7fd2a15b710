"""Images on disk as a data set: from the cache, which is filled from their source first."""

from __future__ import annotations

import math
from array import array

from trainload_worker.data.cache import CachedImages, ImageSource, open_cache
from trainload_worker.data.dataset import Dataset
from trainload_worker.data.image_arrays import Cifar10Source, MnistSource
from trainload_worker.data.image_folder import FolderSource, ManifestSource
from trainload_worker.errors import DataError
from trainload_worker.protocol.data import ImageData
from trainload_worker.protocol.events import BrokenFile, ImageCache

_NAMED_BROKEN = 20
"""So many broken files are named in the run's record; the cache names all."""


def load_images(spec: ImageData, with_files: bool = False) -> Dataset:
    """The images in memory-mapped form; broken ones are left out and named.

    `with_files` tells where each of them was read from too.
    """
    source = _open_source(spec)
    top = max(source.labels, default=-1)
    if top >= len(spec.classes):
        raise DataError(f"{spec.path}: label {top} is not below {len(spec.classes)} classes")
    cached = open_cache(spec.cache, source, spec.classes)
    rows = len(cached.labels)
    return Dataset(
        features=cached.pixels,
        labels=cached.labels,
        groups=array("q", range(rows)),
        feature_count=math.prod(spec.shape),
        classes=spec.classes,
        form="uint8",
        validation_from=cached.train_rows if spec.own_validation else None,
        files=_list_files(source, cached) if with_files else (),
        cache=ImageCache(
            path=cached.path,
            built_by_this_run=cached.built,
            layout="NCHW",
            shape=spec.shape,
            resize=spec.resize,
        ),
        broken_count=len(cached.broken),
        broken=[BrokenFile(name, reason) for name, reason in cached.broken[:_NAMED_BROKEN]],
    )


def _list_files(source: ImageSource, cached: CachedImages) -> list[str]:
    gone = {name for name, _ in cached.broken}
    names = [source.name(item) for item in range(len(source.labels))]
    return [name for name in names if name not in gone]


def _open_source(spec: ImageData) -> ImageSource:
    if spec.kind in ("folder", "subset"):
        kind_of_list = FolderSource if spec.kind == "folder" else ManifestSource
        return kind_of_list(spec.path, spec.shape, spec.classes, spec.own_validation)
    kind = MnistSource if spec.kind == "mnist" else Cifar10Source
    return kind(spec.path, spec.shape, spec.resize, spec.own_validation)
