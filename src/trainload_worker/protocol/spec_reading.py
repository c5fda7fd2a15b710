"""Reads a run's specification from one JSON document; touches no device or disk.

Unknown fields are ignored, so that a newer driver may say more; an unknown format is refused.
"""

from __future__ import annotations

import json
from typing import Any, Mapping

from trainload_worker.errors import SpecError
from trainload_worker.protocol.run_options import (
    parse_loader,
    parse_resume,
    parse_save,
    parse_validation,
)
from trainload_worker.protocol.spec import (
    AnySpec,
    ArraySpec,
    BuildSpec,
    CsvSpec,
    DataSpec,
    GraphSpec,
    ImagesSpec,
    KeypointsSpec,
    LaunchSpec,
    LayerSpec,
    LayersSpec,
    NpySpec,
    OptimizerSpec,
    RankFiles,
    ScriptSpec,
    SeedsSpec,
    SettingSpec,
    Spec,
    SyntheticSpec,
    TraceSpec,
    TrainingSpec,
)
from trainload_worker.protocol.spec_node import Node

FORMAT = 1
GRAPH_FORMAT = 1
PRECISIONS = ("float32", "bf16")


def parse_spec(text: str | bytes) -> AnySpec:
    """The specification in a JSON document; SpecError names the field that is wrong."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise SpecError(f"the specification is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise SpecError("the specification must be a JSON object")
    root = Node(document, "")
    found = document.get("format")
    if found != FORMAT:
        raise SpecError(f"the specification has format {found!r}; this worker reads {FORMAT}")
    if root.has("trace"):
        return _parse_trace(root)
    if root.has("processes"):
        return _parse_launch(root, document)
    if root.has("script"):
        return _parse_script(root)
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
        save=parse_save(root),
        resume=parse_resume(root),
        validate_only=root.truth("validate_only") if root.has("validate_only") else False,
    )


def _parse_script(root: Node) -> ScriptSpec:
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


def _parse_trace(root: Node) -> TraceSpec:
    node = root.node("trace")
    source: GraphSpec | BuildSpec | ScriptSpec
    if root.has("script"):
        source = _parse_script(root)
    elif root.has("build"):
        build = root.node("build")
        source = BuildSpec(path=build.text("path"), function=build.text("function"))
    else:
        source = _parse_graph(root.node("graph"))
    capability = node.wholes("capability") if node.has("capability") else (9, 0)
    if len(capability) != 2:
        raise node.wrong("capability", f"must be two numbers, not {list(capability)}")
    return TraceSpec(
        events_path=root.text("events_path"),
        framework=root.text("framework"),
        trace_path=node.text("path"),
        target=node.choice("target", ("cuda", "cpu")),
        capability=(capability[0], capability[1]),
        iterations=node.whole("iterations", at_least=1),
        limit_s=node.number("limit_s"),
        setting=_parse_setting(root.node("setting")),
        parent_pid=root.optional_whole("parent_pid"),
        source=source,
        data=_parse_data(root.node("data")) if isinstance(source, GraphSpec) else None,
        training=(
            None if isinstance(source, ScriptSpec) else _parse_training(root.node("training"))
        ),
        checkpoint_blocks=node.truth("checkpoint_blocks")
        if node.has("checkpoint_blocks")
        else False,
    )


def _parse_launch(root: Node, document: Mapping[str, Any]) -> LaunchSpec:
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


def _parse_layers(root: Node) -> LayersSpec | None:
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


def _parse_graph(node: Node) -> GraphSpec:
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


def _parse_data(node: Node) -> DataSpec:
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
    if kind in ("folder", "subset", "cifar10", "mnist"):
        return _parse_images(node, kind)
    if kind == "npy":
        return NpySpec(
            features=_parse_array(node.node("features")),
            labels=_parse_array(node.node("labels")) if node.has("labels") else None,
            shape=node.wholes("shape"),
            classes=node.whole("classes", at_least=2),
            validation_fraction=node.fraction("validation_fraction"),
        )
    known = "keypoints, csv, synthetic, folder, subset, cifar10, mnist or npy"
    raise node.wrong("kind", f"must be {known}, not {kind!r}")


def _parse_images(node: Node, source: str) -> ImagesSpec:
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


def _parse_array(node: Node) -> ArraySpec:
    return ArraySpec(
        path=node.text("path"),
        dtype=node.text("dtype"),
        shape=node.wholes("shape"),
        offset=node.whole("offset", at_least=0),
    )


def _parse_training(node: Node) -> TrainingSpec:
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
        validation=parse_validation(node),
        loader=parse_loader(node),
    )


def _parse_seeds(node: Node) -> SeedsSpec:
    return SeedsSpec(
        data_order=node.whole("data_order"),
        weights=node.whole("weights"),
        split=node.whole("split"),
        data=node.whole("data"),
    )


def _parse_setting(node: Node) -> SettingSpec:
    return SettingSpec(
        cores=node.wholes("cores") if node.has("cores") else None,
        threads=node.optional_whole("threads", at_least=1),
        accelerators=node.texts("accelerators") if node.has("accelerators") else (),
    )
