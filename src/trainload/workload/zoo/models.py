"""Every model by name, its options parsed, its graph built; the models stand in their own files."""

import re
import typing
from collections.abc import Mapping, Sequence
from dataclasses import fields
from importlib import import_module
from itertools import chain
from typing import Any

from trainload.checked import build_checked, parse_word, suggest
from trainload.errors import GraphError, WorkloadError
from trainload.workload.graph.layers import LayerGraph
from trainload.workload.zoo.model import Examples, Model

__all__ = [
    "MODELS",
    "Examples",
    "Model",
    "build_model",
    "find_model",
    "input_words",
    "parse_options",
]

_FILES = (
    "fully_connected",
    "lenet",
    "alexnet",
    "vgg",
    "googlenet",
    "inception_v3",
    "resnet",
    "densenet",
    "squeezenet",
    "mlp",
    "recurrent",
    "transformer",
)
"""Files of this folder in the order their models are listed; each states its own in `MODELS`."""

_STATED = [import_module(f"trainload.workload.zoo.{file}").MODELS.items() for file in _FILES]
MODELS: dict[str, Model] = dict(sorted(chain(*_STATED), key=lambda item: item[1].family))
"""Models by name, the published networks first, then the families for sweeps."""


def find_model(name: str) -> Model:
    """The entry of that name; WorkloadError suggests the nearest."""
    if name not in MODELS:
        raise WorkloadError(f"unknown model {name!r}{suggest(_plain(name), MODELS)}")
    return MODELS[name]


def parse_options(name: str, words: Mapping[str, str]) -> Any:
    """The model's options with those that `name=value` words give; WorkloadError names the word."""
    model = find_model(name)
    known = [spec.name for spec in fields(model.options)]
    hints = typing.get_type_hints(model.options, include_extras=True)
    values: dict[str, Any] = {}
    for word, text in words.items():
        if word not in known:
            raise WorkloadError(f"{name} has no option {word!r}{suggest(word, known)}")
        values[word] = parse_word(hints[word], text, f"{name}, {word}")
    return build_checked(model.options, values, name)


def build_model(name: str, options: Any) -> LayerGraph:
    """The graph of a model with these options; WorkloadError names the layer that does not fit."""
    try:
        return find_model(name).build(options)
    except GraphError as error:
        raise WorkloadError(f"{name}: {error}") from None


def input_words(name: str, text: str) -> dict[str, str]:
    """`3x224x224` as the options that make up this model's input shape."""
    model = find_model(name)
    sizes: Sequence[str] = re.split(r"[x×,]", text.strip().lower())
    if len(sizes) != len(model.input_options):
        raise WorkloadError(
            f"--input {text}: {name} takes {len(model.input_options)} number(s): "
            f"{', '.join(model.input_options)}"
        )
    return dict(zip(model.input_options, sizes, strict=True))


def _plain(name: str) -> str:
    """A name as people write it, in the registry's spelling: ResNet-50 is resnet50."""
    return re.sub(r"[-.\s]+", "_", name.lower())
