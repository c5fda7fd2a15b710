"""The run's specification as frozen values, read from one JSON document; touches no device or disk.

Unknown fields are ignored, so that a newer driver may say more; an unknown format is refused.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Mapping, Union

from trainload_worker.errors import SpecError

FORMAT = 1
GRAPH_FORMAT = 1
PRECISIONS = ("float32", "bf16")

_TYPE_NAMES: Mapping[Any, str] = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    dict: "an object",
    list: "a list",
}


@dataclass(frozen=True)
class LayerSpec:
    """One named layer of the graph; shapes leave the batch dimension out."""

    name: str
    kind: str
    inputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    output_shape: tuple[int, ...]


@dataclass(frozen=True)
class GraphSpec:
    """A layer graph in topological order."""

    name: str
    layers: tuple[LayerSpec, ...]
    output: str


@dataclass(frozen=True)
class KeypointsSpec:
    """A generated set of pose frames: `class_counts` rows of each class."""

    class_counts: Mapping[str, int]
    features: int
    validation_fraction: float


@dataclass(frozen=True)
class CsvSpec:
    """A table on disk; without a group column each row is its own group."""

    path: str
    label_column: str
    group_column: str | None
    feature_columns: tuple[str, ...]
    classes: tuple[str, ...]
    validation_fraction: float


@dataclass(frozen=True)
class SyntheticSpec:
    """Examples drawn from the seed; `classes` counts the tokens of a stream."""

    form: str
    """images (uint8), tokens (int64), token_stream (int64) or vectors (float32)."""
    shape: tuple[int, ...]
    rows: int
    classes: int
    vocabulary: int | None
    validation_fraction: float


@dataclass(frozen=True)
class ImagesSpec:
    """Images on disk, brought to `shape` (channels, height, width) once and kept in `cache`."""

    source: str
    """folder, cifar10 or mnist."""
    path: str
    shape: tuple[int, ...]
    classes: tuple[str, ...]
    resize: str
    """none, pad, nearest, or fit: scaled to cover, then cut at the centre."""
    own_validation: bool
    """Whether the data's own validation images are used, and not a share of all."""
    cache: str
    validation_fraction: float


@dataclass(frozen=True)
class ArraySpec:
    """The values of an npy file: its type as npy writes it, its shape, and where they begin."""

    path: str
    dtype: str
    shape: tuple[int, ...]
    offset: int


@dataclass(frozen=True)
class NpySpec:
    """Arrays on disk; without labels the features are a stream of tokens."""

    features: ArraySpec
    labels: ArraySpec | None
    shape: tuple[int, ...]
    """Of one example."""
    classes: int
    validation_fraction: float


DataSpec = Union[KeypointsSpec, CsvSpec, SyntheticSpec, ImagesSpec, NpySpec]


@dataclass(frozen=True)
class OptimizerSpec:
    """An optimizer by name; `momentum` is read by sgd alone."""

    name: str
    learning_rate: float
    weight_decay: float
    momentum: float


@dataclass(frozen=True)
class TrainingSpec:
    """How long and how to train; `max_steps` of None means every epoch in full."""

    batch_size: int
    epochs: int
    max_steps: int | None
    optimizer: OptimizerSpec
    precision: str


@dataclass(frozen=True)
class SeedsSpec:
    """The four independent sources of chance."""

    data_order: int
    weights: int
    split: int
    data: int


@dataclass(frozen=True)
class SettingSpec:
    """The part of the machine to use; None leaves that part as the process found it."""

    cores: tuple[int, ...] | None
    threads: int | None
    accelerators: tuple[str, ...]


@dataclass(frozen=True)
class LayersSpec:
    """Tracing of layers: its share of the training time, and where windows are saved."""

    budget: float
    folder: str
    file_form: str
    """A file's name, with `{index}` for the number of the window."""
    plan: str | None = None
    """Where processes that train together agree on windows; None for one alone."""
    leads: bool = True
    """Whether this process decides for the others."""


@dataclass(frozen=True)
class Spec:
    """All that a run of a layer graph needs to know."""

    events_path: str
    framework: str
    graph: GraphSpec
    data: DataSpec
    training: TrainingSpec
    seeds: SeedsSpec
    setting: SettingSpec
    parent_pid: int | None
    fake: Mapping[str, Any]
    layers: LayersSpec | None


@dataclass(frozen=True)
class ScriptSpec:
    """All that a run of a user's script needs to know."""

    events_path: str
    framework: str
    path: str
    arguments: tuple[str, ...]
    setting: SettingSpec
    parent_pid: int | None
    layers: LayersSpec | None
    rank: int | None
    """Which of several processes this is; None for the only one."""


@dataclass(frozen=True)
class RankFiles:
    """Where one of several processes leaves its record."""

    events_path: str
    window_form: str


@dataclass(frozen=True)
class LaunchSpec:
    """All that is needed to run a user's script in several processes at once."""

    events_path: str
    command: tuple[str, ...]
    """Starts a worker, which reads its own specification from standard input."""
    ranks: tuple[RankFiles, ...]
    setting: SettingSpec
    parent_pid: int | None
    document: Mapping[str, Any]
    """The specification itself, from which those of the ranks are made."""


AnySpec = Union[Spec, ScriptSpec, LaunchSpec]


def parse_spec(text: str | bytes) -> AnySpec:
    """The specification in a JSON document; SpecError names the field that is wrong."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise SpecError(f"the specification is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise SpecError("the specification must be a JSON object")
    root = _Node(document, "")
    found = document.get("format")
    if found != FORMAT:
        raise SpecError(f"the specification has format {found!r}; this worker reads {FORMAT}")
    if root.has("processes"):
        return _parse_launch(root, document)
    if root.has("script"):
        script = root.node("script")
        return ScriptSpec(
            events_path=root.text("events_path"),
            framework=root.text("framework"),
            path=script.text("path"),
            arguments=script.texts("arguments"),
            setting=_parse_setting(root.node("setting")),
            parent_pid=root.optional_whole("parent_pid"),
            layers=_parse_layers(root),
            rank=root.optional_whole("rank", at_least=0),
        )
    return Spec(
        events_path=root.text("events_path"),
        framework=root.text("framework"),
        graph=_parse_graph(root.node("graph")),
        data=_parse_data(root.node("data")),
        training=_parse_training(root.node("training")),
        seeds=_parse_seeds(root.node("seeds")),
        setting=_parse_setting(root.node("setting")),
        parent_pid=root.optional_whole("parent_pid"),
        fake=root.mapping("fake") if root.has("fake") else {},
        layers=_parse_layers(root),
    )


class _Node:
    """An object of the document that knows where it stands, for messages."""

    def __init__(self, fields: Mapping[str, Any], where: str) -> None:
        self._fields = fields
        self._where = where

    def _path(self, name: str) -> str:
        return f"{self._where}.{name}" if self._where else name

    def wrong(self, name: str, what: str) -> SpecError:
        return SpecError(f"the specification's {self._path(name)} {what}")

    def _get(self, name: str, kind: type) -> Any:
        if name not in self._fields:
            raise self.wrong(name, "is missing")
        value = self._fields[name]
        accepted = (int, float) if kind is float else kind
        # True is an int to Python and never a number to us.
        if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
            raise self.wrong(name, f"must be {_TYPE_NAMES[kind]}, not {value!r:.80}")
        return value

    def has(self, name: str) -> bool:
        return self._fields.get(name) is not None

    def text(self, name: str) -> str:
        return str(self._get(name, str))

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        value = self.text(name)
        if value not in choices:
            raise self.wrong(name, f"must be one of {', '.join(choices)}, not {value!r}")
        return value

    def truth(self, name: str) -> bool:
        return bool(self._get(name, bool))

    def number(self, name: str) -> float:
        return float(self._get(name, float))

    def whole(self, name: str, at_least: int | None = None) -> int:
        value = int(self._get(name, int))
        if at_least is not None and value < at_least:
            raise self.wrong(name, f"must be at least {at_least}, not {value}")
        return value

    def optional_whole(self, name: str, at_least: int | None = None) -> int | None:
        return self.whole(name, at_least) if self.has(name) else None

    def fraction(self, name: str) -> float:
        value = self.number(name)
        if not 0 < value < 1:
            raise self.wrong(name, f"must lie between 0 and 1, not {value}")
        return value

    def mapping(self, name: str) -> dict[str, Any]:
        return dict(self._get(name, dict))

    def node(self, name: str) -> _Node:
        return _Node(self._get(name, dict), self._path(name))

    def nodes(self, name: str) -> list[_Node]:
        values = self._get(name, list)
        if not all(isinstance(value, dict) for value in values):
            raise self.wrong(name, "must be a list of objects")
        return [_Node(value, f"{self._path(name)}[{i}]") for i, value in enumerate(values)]

    def texts(self, name: str) -> tuple[str, ...]:
        values = self._get(name, list)
        if not all(isinstance(value, str) for value in values):
            raise self.wrong(name, "must be a list of strings")
        return tuple(values)

    def wholes(self, name: str) -> tuple[int, ...]:
        values = self._get(name, list)
        if not all(isinstance(value, int) and not isinstance(value, bool) for value in values):
            raise self.wrong(name, "must be a list of whole numbers")
        return tuple(values)


def _parse_launch(root: _Node, document: Mapping[str, Any]) -> LaunchSpec:
    root.node("script")
    node = root.node("processes")
    ranks = tuple(
        RankFiles(events_path=rank.text("events_path"), window_form=rank.text("window_form"))
        for rank in node.nodes("ranks")
    )
    command = node.texts("command")
    if not ranks or not command:
        raise node.wrong("ranks" if command else "command", "must not be empty")
    return LaunchSpec(
        events_path=root.text("events_path"),
        command=command,
        ranks=ranks,
        setting=_parse_setting(root.node("setting")),
        parent_pid=root.optional_whole("parent_pid"),
        document=document,
    )


def _parse_layers(root: _Node) -> LayersSpec | None:
    if not root.has("layers"):
        return None
    node = root.node("layers")
    return LayersSpec(
        budget=node.fraction("budget"),
        folder=node.text("folder"),
        file_form=node.text("file_form"),
        plan=node.text("plan") if node.has("plan") else None,
        leads=node.truth("leads") if node.has("leads") else True,
    )


def _parse_graph(node: _Node) -> GraphSpec:
    if node.whole("format") != GRAPH_FORMAT:
        raise node.wrong("format", f"must be {GRAPH_FORMAT}, the one this worker reads")
    layers = tuple(
        LayerSpec(
            name=layer.text("name"),
            kind=layer.text("kind"),
            inputs=layer.texts("inputs"),
            attributes=layer.mapping("attributes"),
            output_shape=layer.wholes("output_shape"),
        )
        for layer in node.nodes("layers")
    )
    return GraphSpec(name=node.text("name"), layers=layers, output=node.text("output"))


def _parse_data(node: _Node) -> DataSpec:
    kind = node.text("kind")
    if kind == "keypoints":
        counts = node.node("class_counts")
        names = list(node.mapping("class_counts"))
        return KeypointsSpec(
            class_counts={name: counts.whole(name, at_least=0) for name in names},
            features=node.whole("features", at_least=1),
            validation_fraction=node.fraction("validation_fraction"),
        )
    if kind == "csv":
        return CsvSpec(
            path=node.text("path"),
            label_column=node.text("label_column"),
            group_column=node.text("group_column") if node.has("group_column") else None,
            feature_columns=node.texts("feature_columns"),
            classes=node.texts("classes"),
            validation_fraction=node.fraction("validation_fraction"),
        )
    if kind == "synthetic":
        return SyntheticSpec(
            form=node.choice("form", ("images", "tokens", "token_stream", "vectors")),
            shape=node.wholes("shape"),
            rows=node.whole("rows", at_least=2),
            classes=node.whole("classes", at_least=2),
            vocabulary=node.optional_whole("vocabulary", at_least=2),
            validation_fraction=node.fraction("validation_fraction"),
        )
    if kind in ("folder", "cifar10", "mnist"):
        return _parse_images(node, kind)
    if kind == "npy":
        return NpySpec(
            features=_parse_array(node.node("features")),
            labels=_parse_array(node.node("labels")) if node.has("labels") else None,
            shape=node.wholes("shape"),
            classes=node.whole("classes", at_least=2),
            validation_fraction=node.fraction("validation_fraction"),
        )
    known = "keypoints, csv, synthetic, folder, cifar10, mnist or npy"
    raise node.wrong("kind", f"must be {known}, not {kind!r}")


def _parse_images(node: _Node, source: str) -> ImagesSpec:
    shape = node.wholes("shape")
    if len(shape) != 3:
        raise node.wrong("shape", f"must be channels, height and width, not {list(shape)}")
    return ImagesSpec(
        source=source,
        path=node.text("path"),
        shape=shape,
        classes=node.texts("classes"),
        resize=node.choice("resize", ("none", "pad", "nearest", "fit")),
        own_validation=node.truth("own_validation"),
        cache=node.text("cache"),
        validation_fraction=node.fraction("validation_fraction"),
    )


def _parse_array(node: _Node) -> ArraySpec:
    return ArraySpec(
        path=node.text("path"),
        dtype=node.text("dtype"),
        shape=node.wholes("shape"),
        offset=node.whole("offset", at_least=0),
    )


def _parse_training(node: _Node) -> TrainingSpec:
    optimizer = node.node("optimizer")
    precision = node.choice("precision", PRECISIONS)
    return TrainingSpec(
        batch_size=node.whole("batch_size", at_least=1),
        epochs=node.whole("epochs", at_least=1),
        max_steps=node.optional_whole("max_steps", at_least=1),
        optimizer=OptimizerSpec(
            name=optimizer.text("name"),
            learning_rate=optimizer.number("learning_rate"),
            weight_decay=optimizer.number("weight_decay") if optimizer.has("weight_decay") else 0.0,
            momentum=optimizer.number("momentum") if optimizer.has("momentum") else 0.0,
        ),
        precision=precision,
    )


def _parse_seeds(node: _Node) -> SeedsSpec:
    return SeedsSpec(
        data_order=node.whole("data_order"),
        weights=node.whole("weights"),
        split=node.whole("split"),
        data=node.whole("data"),
    )


def _parse_setting(node: _Node) -> SettingSpec:
    return SettingSpec(
        cores=node.wholes("cores") if node.has("cores") else None,
        threads=node.optional_whole("threads", at_least=1),
        accelerators=node.texts("accelerators") if node.has("accelerators") else (),
    )
