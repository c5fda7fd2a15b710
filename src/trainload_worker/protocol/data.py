"""What a workload is trained on, described: the driver looks at the data, the worker reads it.

Reads nothing itself; `kind` is the word that chooses among the kinds.
"""

from dataclasses import dataclass
from typing import Literal, Mapping, Optional, Tuple, Union

from trainload_worker.protocol.checked import Annotated, Bounds

ImageKind = Literal["folder", "subset", "cifar10", "mnist"]
Resize = Literal["none", "pad", "nearest", "fit"]
Form = Literal["images", "tokens", "token_stream", "vectors"]
IMAGE_SUFFIXES = frozenset(
    [
        ".jpg",
        ".jpeg",
        ".jpe",
        ".jfif",
        ".png",
        ".gif",
        ".bmp",
        ".webp",
        ".tif",
        ".tiff",
        ".ppm",
        ".pgm",
        ".pbm",
        ".pnm",
    ]
)
TRAIN_FOLDER = "train"
VALIDATION_FOLDERS = ("val", "valid", "validation", "test")
SUBSET_MANIFEST, SUBSET_SUMMARY = "manifest.jsonl", "subset.json"
Fraction = Annotated[float, Bounds(above=0, below=1)]
Count = Annotated[int, Bounds(low=0)]
Size = Annotated[int, Bounds(low=1)]
Several = Annotated[int, Bounds(low=2)]


@dataclass(frozen=True)
class KeypointData:
    """Generated pose keypoints: `class_counts` frames of each class."""

    class_counts: Mapping[str, Count]
    features: Size = 75
    """25 joints × (x, y, confidence); source: Finocchiaro 2024, section 3.2."""
    validation_fraction: Fraction = 0.2
    kind: Literal["keypoints"] = "keypoints"

    @property
    def classes(self) -> Tuple[str, ...]:
        """Class names in label order."""
        return tuple(self.class_counts)

    @property
    def rows(self) -> int:
        """Number of frames, training and validation together."""
        return sum(self.class_counts.values())

    @property
    def example_shape(self) -> Tuple[int, ...]:
        """The features of one frame."""
        return (self.features,)

    @property
    def class_count(self) -> int:
        """How many classes there are."""
        return len(self.class_counts)


@dataclass(frozen=True)
class CsvData:
    """A table of the user's own: numeric feature columns, a label column, maybe a group column."""

    path: str
    label_column: str
    feature_columns: Tuple[str, ...]
    classes: Tuple[str, ...]
    rows: Optional[int] = None
    group_column: Optional[str] = None
    """Without one each row is its own group."""
    validation_fraction: Fraction = 0.2
    kind: Literal["csv"] = "csv"

    @property
    def features(self) -> int:
        """Number of feature columns."""
        return len(self.feature_columns)

    @property
    def example_shape(self) -> Tuple[int, ...]:
        """The features of one row."""
        return (self.features,)

    @property
    def class_count(self) -> int:
        """How many classes there are."""
        return len(self.classes)


@dataclass(frozen=True)
class SyntheticData:
    """Examples drawn from the data seed, learnable: a pattern for each class, under noise."""

    form: Form
    """images are uint8, tokens and token_stream int64, vectors float32."""
    shape: Tuple[int, ...]
    """Of one example."""
    rows: Several
    classes: Several
    """Tokens of the vocabulary in a token stream."""
    vocabulary: Optional[Several] = None
    """Tokens that labelled rows are made of."""
    validation_fraction: Fraction = 0.2
    kind: Literal["synthetic"] = "synthetic"

    @property
    def example_shape(self) -> Tuple[int, ...]:
        """As the model takes it."""
        return self.shape

    @property
    def class_count(self) -> int:
        """As the model gives it."""
        return self.classes


@dataclass(frozen=True)
class ImageData:
    """Images on disk, brought to one shape once and kept in a cache."""

    kind: ImageKind
    path: str
    shape: Tuple[int, ...]
    """Channels, height and width after resizing."""
    resize: Resize
    """`fit` scales to cover and cuts at the centre; `pad` sets black around."""
    classes: Tuple[str, ...]
    own_validation: bool
    """Whether the data's own validation images are used, and not a share of all."""
    cache: str
    """Folder of the decoded images."""
    rows: Optional[int] = None
    """Files or records found; broken ones among them are told by the run."""
    example_shape: Tuple[int, ...] = ()
    """As the model takes it: `shape`, or its values in one row."""
    address: Optional[str] = None
    """Where the data was fetched from."""
    validation_fraction: Fraction = 0.2

    @property
    def class_count(self) -> int:
        """How many classes there are."""
        return len(self.classes)


@dataclass(frozen=True)
class NpyArray:
    """One npy file: its type as npy writes it, its shape, and where its values begin."""

    path: str
    dtype: str
    shape: Tuple[int, ...]
    offset: Count


@dataclass(frozen=True)
class NpyData:
    """Arrays of the user's own; without labels a stream of tokens."""

    features: NpyArray
    labels: Optional[NpyArray]
    shape: Tuple[int, ...]
    """Of one example as the model takes it."""
    classes: Several
    path: Optional[str] = None
    rows: Optional[int] = None
    address: Optional[str] = None
    validation_fraction: Fraction = 0.2
    kind: Literal["npy"] = "npy"

    @property
    def example_shape(self) -> Tuple[int, ...]:
        """As the model takes it."""
        return self.shape

    @property
    def class_count(self) -> int:
        """Classes, or tokens in a stream."""
        return self.classes


Data = Union[KeypointData, CsvData, SyntheticData, ImageData, NpyData]
