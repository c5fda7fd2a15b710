"""From a model's name and its options, as values or as words, to a checked workload."""

import typing
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from trainload.checked import build_checked, check_value, parse_word, suggest
from trainload.errors import WorkloadError
from trainload.workload.data.choose import DataOptions, survey_data
from trainload.workload.graph.layers import LayerGraph
from trainload.workload.script import looks_like_script
from trainload.workload.spec import Optimizer, Seeds, Training, Workload
from trainload.workload.zoo.models import build_model, find_model

_BATCH_SIZE = 32
"""Of images, tokens and sequences, unless told: the perceptron's 512 would fill the memory."""


def split_words(words: Sequence[str]) -> dict[str, str]:
    """`["hidden_units=512"]` as a mapping of texts; WorkloadError for a word without '='."""
    parsed: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name.strip():
            raise WorkloadError(f"--set {word!r}: write it as name=value, such as hidden_units=512")
        parsed[name.strip()] = value.strip()
    return parsed


def parse_words(model: str | None, words: Sequence[str]) -> dict[str, Any]:
    """The values that `name=value` words mean for this model; WorkloadError names the word.

    Without a model those of the training; other words stay texts, for whoever refuses them, and
    so do all words for a script.
    """
    texts = split_words(words)
    if model is not None and looks_like_script(model):
        return dict(texts)
    names: Mapping[str, tuple[type[Any], str]]
    names = {f.name: (Training, f.name) for f in fields(Training)}
    if model is not None and texts:
        names = settable_names(model)
    return {
        name: text
        if model is None and name not in names
        else parse_word(_hint_of(name, names, f"--set {name}"), text, f"--set {name}")
        for name, text in texts.items()
    }


def settable_names(model: str) -> dict[str, tuple[type[Any], str]]:
    """Every name `--set` takes for this model, with the spec type and field it belongs to."""
    options_type = find_model(model).options
    names: dict[str, tuple[type[Any], str]] = {}
    for cls in (options_type, Training, Optimizer, DataOptions):
        for spec in fields(cls):
            if spec.name != "optimizer":
                names["optimizer" if (cls, spec.name) == (Optimizer, "name") else spec.name] = (
                    cls,
                    spec.name,
                )
    for spec in fields(Seeds):
        names[f"seed_{spec.name}"] = (Seeds, spec.name)
    return names


def assemble_workload(model: str, options: Mapping[str, Any], *, seed: int = 0) -> Workload:
    """The workload that a model's name and the options of model, training and data describe.

    `seed` is the default of all four seeds. The features, sizes and classes of data that has its
    own win over the model's defaults; naming other ones is an error of the workload.
    """
    family = find_model(model)
    options_type = family.options
    values = _sort_values(model, options)
    seeds = {**{spec.name: seed for spec in fields(Seeds)}, **values.get(Seeds, {})}
    given = values.get(DataOptions, {})
    survey = survey_data(model, family, build_checked(DataOptions, given, "data"), given)
    said = survey.defaults(family)
    options_values = {**said, **values.get(options_type, {})}
    model_options = build_checked(options_type, options_values, model)
    graph = _build_graph(model, model_options, said)
    optimizer = build_checked(Optimizer, values.get(Optimizer, {}), "optimizer")
    training = {**values.get(Training, {}), "optimizer": optimizer}
    if family.examples != "features":
        training.setdefault("batch_size", _BATCH_SIZE)
    return Workload(
        model=model,
        model_options=asdict(model_options),
        graph=graph,
        data=survey.fit(graph, family),
        training=build_checked(Training, training, "training"),
        seeds=build_checked(Seeds, seeds, "seeds"),
    )


def _sort_values(model: str, options: Mapping[str, Any]) -> dict[type[Any], dict[str, Any]]:
    """The options, each checked, by the spec type and field that they belong to."""
    names = settable_names(model)
    values: dict[type[Any], dict[str, Any]] = {}
    for name, value in options.items():
        hint = _hint_of(name, names, name)
        cls, field_name = names[name]
        values.setdefault(cls, {})[field_name] = check_value(hint, value, name)
    return values


def _hint_of(name: str, names: Mapping[str, tuple[type[Any], str]], where: str) -> Any:
    if name not in names:
        raise WorkloadError(f"{where}: no such name{suggest(name, names)}")
    cls, field_name = names[name]
    return typing.get_type_hints(cls, include_extras=True)[field_name]


def _build_graph(model: str, options: Any, said: Mapping[str, Any]) -> LayerGraph:
    """The model's graph; where the data's own image size is too small, the way out is said."""
    try:
        return build_model(model, options)
    except WorkloadError as error:
        if "image_height" not in said:
            raise
        size = f"{said['image_height']}×{said['image_width']}"
        raise WorkloadError(
            f"{error}; the images are {size}, other sizes are reached with "
            "--set image_height=… --set image_width=…"
        ) from None
