"""From the word after --data to data that fits a model; WorkloadError where they do not agree.

Data is looked at first, since it may decide the model's input and classes, and is fitted to the
model's graph afterwards.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Protocol, get_args

from trainload.checked import Bounds, suggest
from trainload.errors import WorkloadError
from trainload.workload.data.datasets import keypoint_data, scan_csv
from trainload.workload.data.images import (
    FOLDER_CHANNELS,
    FoundImages,
    has_cifar10,
    has_mnist,
    holds_image_folders,
    scan_images,
)
from trainload.workload.data.npy import FEATURES, holds_whole_numbers, read_range, scan_npy
from trainload.workload.data.remote import fetch_remote, is_address
from trainload.workload.data.subset_manifest import find_subset, scan_subset
from trainload.workload.data.synthetic import (
    synthetic_data,
    tells_next_token,
    vocabulary_of,
)
from trainload.workload.graph.layers import LayerGraph
from trainload.workload.places import DECODED, cache_folder, expand_user
from trainload.workload.zoo.models import Examples, Model
from trainload_worker.protocol.data import (
    TRAIN_FOLDER,
    CsvData,
    Data,
    ImageData,
    ImageKind,
    KeypointData,
    NpyArray,
    NpyData,
    Resize,
)

GENERATED = ("keypoints", "synthetic")
FITTING: Mapping[str, tuple[Examples, ...]] = {
    "keypoints": ("features",),
    "synthetic": get_args(Examples),
    "csv": ("features",),
    "folder": ("images",),
    "subset": ("images",),
    "cifar10": ("images", "features"),
    "mnist": ("images", "features"),
    "npy": get_args(Examples),
}
"""Kind of data -> what its examples can be taken as."""

_PADDED_AT_MOST = 4
"""Pixels by which images are set into a border: MNIST's digits in LeNet-5's 32×32 (LeCun 1998)."""


@dataclass(frozen=True, kw_only=True)
class DataOptions:
    """Which data, as words on a command line."""

    data: str | None = None
    """A generated kind, `KIND:PATH`, or a path or address whose content tells its kind."""
    frames_fraction: Annotated[float, Bounds(above=0, high=100)] = 1.0
    """Share of the 101,136 frames of Finocchiaro 2024 to generate."""
    rows: Annotated[int, Bounds(low=2, high=10**9)] | None = None
    """Synthetic examples, training and validation together."""
    label_column: str = "label"
    group_column: str | None = None
    validation_fraction: Annotated[float, Bounds(above=0, below=1)] = 0.2
    cache: str | None = None
    """Folder of decoded images and fetched files; None is the user's cache directory."""


class Survey(Protocol):
    """Data that has been looked at."""

    def defaults(self, model: Model) -> dict[str, Any]:
        """What it says about the model's options."""

    def fit(self, graph: LayerGraph, model: Model) -> Data:
        """The data as this graph takes it."""


def default_kind(model: Model) -> str:
    """The data of a model for which nobody named any."""
    return "keypoints" if model.examples == "features" else "synthetic"


def survey_data(name: str, model: Model, options: DataOptions, given: Mapping[str, Any]) -> Survey:
    """Look at the data that the words name; refuses words that would have no effect on it."""
    word = options.data or default_kind(model)
    cache = cache_folder(options.cache)
    kind, place = split_word(word)
    _refuse_idle_words(kind, given)
    if kind in GENERATED and place is not None:
        raise WorkloadError(f"--data {word}: {kind} data is generated and has no path")
    address = place if place is not None and is_address(place) else None
    if kind is not None:
        _check_kind(name, model, kind)
    if kind == "keypoints":
        return _Ready(keypoint_data(options.frames_fraction, options.validation_fraction))
    if kind == "synthetic":
        return _Drawn(options)
    if not place:
        raise WorkloadError(f"--data {word}: say where it is, as in {kind}:/path")
    path = fetch_remote(place, cache) if address else expand_user(place)
    if kind is None:
        kind = recognise(path, word)
        _refuse_idle_words(kind, given)
        _check_kind(name, model, kind)
    if kind == "csv":
        return _Ready(
            scan_csv(
                path,
                label_column=options.label_column,
                group_column=options.group_column,
                validation_fraction=options.validation_fraction,
            )
        )
    if kind == "npy":
        return _Arrays(*scan_npy(path), options, address)
    own = "validation_fraction" not in given
    images: Any = kind
    found = scan_subset(path) if kind == "subset" else scan_images(images, path)
    return _Images(found, options, own, cache, address)


def split_word(word: str) -> tuple[str | None, str | None]:
    """Kind and place of a word such as `mnist:/data`; None for what it does not say."""
    if word in FITTING:
        return word, None
    kind, colon, place = word.partition(":")
    if colon and kind in FITTING:
        return kind, place
    return None, word


def recognise(path: Path, word: str) -> str:
    """The kind of data that stands at a path."""
    try:
        path.stat()
    except FileNotFoundError:
        pass  # said below, with what might have been meant
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise WorkloadError(f"--data {word[:80]}: {reason}") from None
    if find_subset(path) is not None:
        return "subset"
    if path.is_dir():
        if has_cifar10(path):
            return "cifar10"
        if has_mnist(path):
            return "mnist"
        if (path / FEATURES).is_file():
            return "npy"
        if holds_image_folders(path):
            return "folder"
        raise WorkloadError(
            f"--data {word}: this folder holds no image folders, no CIFAR-10 batches, "
            f"no MNIST idx files and no {FEATURES}"
        )
    if path.name == FEATURES:
        return "npy"
    if path.exists() or path.suffix.lower() in (".csv", ".txt"):
        return "csv"
    near = suggest(word, FITTING)
    raise WorkloadError(f"--data {word}: no such file or folder, and no kind of data{near}")


def _check_kind(name: str, model: Model, kind: str) -> None:
    if model.examples in FITTING[kind]:
        return
    others = ", ".join(
        known if known in GENERATED else f"{known}:PATH"
        for known, examples in FITTING.items()
        if model.examples in examples
    )
    raise WorkloadError(
        f"{name} trains on {model.examples}, and {kind} gives {' or '.join(FITTING[kind])}; "
        f"give --data {others}"
    )


def _refuse_idle_words(kind: str | None, given: Mapping[str, Any]) -> None:
    """Words that would have no effect beside the data chosen are a mistake."""
    if kind is None:
        return
    meant = {
        "label_column": ("csv", "a table: give one with --data"),
        "group_column": ("csv", "a table: give one with --data"),
        "frames_fraction": ("keypoints", "generated keypoints"),
        "rows": ("synthetic", "synthetic data: it says how many examples are drawn"),
    }
    for word, (wanted, what) in meant.items():
        if word in given and kind != wanted:
            raise WorkloadError(f"{word} is for {what}")


@dataclass(frozen=True)
class _Ready:
    """Plain features, which a model takes as they are."""

    data: KeypointData | CsvData

    def defaults(self, model: Model) -> dict[str, Any]:  # noqa: ARG002 - the same for all
        return {"inputs": self.data.features, "classes": len(self.data.classes)}

    def fit(self, graph: LayerGraph, model: Model) -> Data:  # noqa: ARG002 - checked by Workload
        return self.data


@dataclass(frozen=True)
class _Drawn:
    """Examples drawn to the model's measure."""

    options: DataOptions

    def defaults(self, model: Model) -> dict[str, Any]:  # noqa: ARG002 - the model's own
        return {}

    def fit(self, graph: LayerGraph, model: Model) -> Data:
        return synthetic_data(
            graph, model.examples, self.options.rows, self.options.validation_fraction
        )


@dataclass(frozen=True)
class _Images:
    found: FoundImages
    options: DataOptions
    own_validation: bool
    cache: Path
    address: str | None

    def defaults(self, model: Model) -> dict[str, Any]:
        said: dict[str, Any] = {"classes": len(self.found.classes)}
        if self.found.shape is None:
            return said
        channels, height, width = self.found.shape
        if model.examples == "features":
            return {**said, "inputs": channels * height * width}
        own: dict[str, Any] = {spec.name: spec.default for spec in fields(model.options)}
        model_size = (own["image_height"], own["image_width"])
        if not _is_padded((height, width), model_size):
            said.update(image_height=height, image_width=width)
        return {**said, "image_channels": channels}

    def fit(self, graph: LayerGraph, model: Model) -> Data:
        found = self.found
        shape = found.shape or graph.input_shape
        if model.examples == "images":
            shape = graph.input_shape
            self._check_channels(shape[0])
        own = self.own_validation and found.has_validation
        path = found.path
        if found.kind == "folder" and found.has_validation and not own:
            path = path / TRAIN_FOLDER
        return ImageData(
            kind=found.kind,
            path=str(path.resolve()),
            shape=shape,
            example_shape=graph.input_shape if model.examples == "images" else (_values(shape),),
            resize=self._resize(shape),
            classes=found.classes,
            rows=found.rows if own else found.train_rows,
            own_validation=own,
            cache=str(self.cache / DECODED),
            address=self.address,
            validation_fraction=self.options.validation_fraction,
        )

    def _check_channels(self, channels: int) -> None:
        held = (self.found.shape[0],) if self.found.shape else FOLDER_CHANNELS
        if channels not in held:
            raise WorkloadError(
                f"--data {self.found.kind}: the images have "
                f"{' or '.join(map(str, held))} channel(s), but image_channels is {channels}"
            )

    def _resize(self, shape: tuple[int, ...]) -> Resize:
        if self.found.shape is None:
            return "fit"
        if shape == self.found.shape:
            return "none"
        return "pad" if _is_padded(self.found.shape[1:], shape[1:]) else "nearest"


def _values(shape: tuple[int, ...]) -> int:
    product = 1
    for size in shape:
        product *= size
    return product


def _is_padded(size: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Whether images of one size are set into a border to reach another."""
    grown = [after - before for before, after in zip(size, wanted, strict=True)]
    return all(0 <= more <= _PADDED_AT_MOST for more in grown) and any(grown)


@dataclass(frozen=True)
class _Arrays:
    features: NpyArray
    labels: NpyArray | None
    found_classes: int
    options: DataOptions
    address: str | None

    def defaults(self, model: Model) -> dict[str, Any]:
        shape = self._example_shape(model)
        said = dict(zip(model.input_options, shape, strict=False))
        known = {spec.name for spec in fields(model.options)}
        if model.examples == "tokens":
            said["vocabulary"] = max(2, read_range(self.features)[1] + 1)
            if self.labels is None:
                said.pop("steps", None)
        if "classes" in known:
            said["classes"] = self.found_classes
        return said

    def fit(self, graph: LayerGraph, model: Model) -> Data:
        stream = tells_next_token(graph)
        if stream != (self.labels is None):
            wants = "no labels.npy: its labels are the next tokens" if stream else "a labels.npy"
            raise WorkloadError(f"{self.features.path}: {graph.name} takes {wants}")
        shape = graph.input_shape if stream else self._example_shape(model)
        classes = graph.output_shape[-1]
        if classes < self.found_classes:
            raise WorkloadError(
                f"{self.features.path}: labels up to {self.found_classes - 1}, "
                f"but {graph.name} has {classes} classes"
            )
        if model.examples == "tokens":
            self._check_tokens(graph)
        rows = (self.features.shape[0] - 1) // shape[0] if stream else self.features.shape[0]
        if rows < 2:
            raise WorkloadError(f"{self.features.path}: {rows} example(s); at least 2 needed")
        return NpyData(
            path=self.features.path,
            features=self.features,
            labels=self.labels,
            shape=shape,
            rows=rows,
            classes=classes,
            address=self.address,
            validation_fraction=self.options.validation_fraction,
        )

    def _example_shape(self, model: Model) -> tuple[int, ...]:
        """Shape of one row as this model reads it; a grey image may leave its channel out."""
        shape = self.features.shape[1:]
        if model.examples == "images" and len(shape) == 2:
            shape = (1, *shape)
        if model.examples == "tokens":
            if not holds_whole_numbers(self.features):
                raise self._wrong("tokens must be whole numbers")
            if self.labels is None and not shape:
                return (1,)
        elif holds_whole_numbers(self.features) and self.features.dtype != "|u1":
            raise self._wrong("save it as float32, or as uint8")
        if len(shape) != len(model.input_options):
            wanted = " × ".join(("rows", *model.input_options))
            raise self._wrong(f"{model.examples} are {wanted}")
        return shape

    def _wrong(self, what: str) -> WorkloadError:
        shape, dtype = list(self.features.shape), self.features.dtype
        return WorkloadError(f"{self.features.path}: shape {shape} of {dtype}, but {what}")

    def _check_tokens(self, graph: LayerGraph) -> None:
        least, largest = read_range(self.features)
        vocabulary = vocabulary_of(graph) or 0
        if least < 0 or largest >= vocabulary:
            raise WorkloadError(
                f"{self.features.path}: tokens from {least} to {largest}, "
                f"but the vocabulary is {vocabulary}"
            )


__all__ = ["DataOptions", "ImageKind", "default_kind", "survey_data"]
