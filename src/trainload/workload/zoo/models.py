"""Every model by name: its options, its graph, and the paper it is from; builds graphs only."""

import re
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from trainload.checked import build_checked, parse_word, suggest
from trainload.errors import GraphError, WorkloadError
from trainload.workload.graph.layers import LayerGraph
from trainload.workload.zoo.alexnet import alexnet_graph
from trainload.workload.zoo.densenet import densenet121_graph
from trainload.workload.zoo.fully_connected import FullyConnectedOptions, fully_connected_graph
from trainload.workload.zoo.googlenet import GoogLeNetOptions, googlenet_graph
from trainload.workload.zoo.inception_v3 import InceptionV3Options, inception_v3_graph
from trainload.workload.zoo.lenet import LeNetOptions, lenet5_graph
from trainload.workload.zoo.mlp import MlpOptions, mlp_graph
from trainload.workload.zoo.options import DroppingImageOptions, ImageOptions
from trainload.workload.zoo.recurrent import (
    LstmLmOptions,
    RecurrentOptions,
    lstm_lm_graph,
    recurrent_graph,
)
from trainload.workload.zoo.resnet import (
    ResidualOptions,
    conv_bottleneck_graph,
    conv_residual_graph,
    resnet18_graph,
    resnet50_graph,
    resnet152_graph,
)
from trainload.workload.zoo.squeezenet import squeezenet1_0_graph, squeezenet1_1_graph
from trainload.workload.zoo.transformer import TransformerOptions, transformer_encoder_graph
from trainload.workload.zoo.vgg import vgg11_graph, vgg16_graph

Examples = Literal["features", "images", "tokens", "sequences"]

_INPUT_OPTIONS: Mapping[Examples, tuple[str, ...]] = {
    "features": ("inputs",),
    "images": ("image_channels", "image_height", "image_width"),
    "tokens": ("steps",),
    "sequences": ("steps", "inputs"),
}


@dataclass(frozen=True, kw_only=True)
class Model:
    """A model: its options, the function that builds its graph, and the paper it is from."""

    options: type[Any]
    build: Callable[[Any], LayerGraph]
    examples: Examples
    """What one example is: decides which data the model takes."""
    source: str
    """Authors and title of the paper."""
    year: int

    @property
    def input_options(self) -> tuple[str, ...]:
        """Options that make up the input's shape, in its order."""
        return _INPUT_OPTIONS[self.examples]


_VGG = "Simonyan, Zisserman: Very Deep Convolutional Networks for Large-Scale Image Recognition"
_RESNET = "He, Zhang, Ren, Sun: Deep Residual Learning for Image Recognition"
_SQUEEZENET = "Iandola et al.: SqueezeNet: AlexNet-Level Accuracy with 50x Fewer Parameters"

MODELS: dict[str, Model] = {
    "lenet5": Model(
        options=LeNetOptions,
        build=lenet5_graph,
        examples="images",
        source="LeCun et al.: Gradient-Based Learning Applied to Document Recognition",
        year=1998,
    ),
    "alexnet": Model(
        options=DroppingImageOptions,
        build=alexnet_graph,
        examples="images",
        source="Krizhevsky: One Weird Trick for Parallelizing Convolutional Neural Networks",
        year=2014,
    ),
    "vgg11": Model(
        options=DroppingImageOptions, build=vgg11_graph, examples="images", source=_VGG, year=2015
    ),
    "vgg16": Model(
        options=DroppingImageOptions, build=vgg16_graph, examples="images", source=_VGG, year=2015
    ),
    "googlenet": Model(
        options=GoogLeNetOptions,
        build=googlenet_graph,
        examples="images",
        source="Szegedy et al.: Going Deeper with Convolutions",
        year=2015,
    ),
    "inception_v3": Model(
        options=InceptionV3Options,
        build=inception_v3_graph,
        examples="images",
        source="Szegedy et al.: Rethinking the Inception Architecture for Computer Vision",
        year=2016,
    ),
    "resnet18": Model(
        options=ImageOptions, build=resnet18_graph, examples="images", source=_RESNET, year=2016
    ),
    "resnet50": Model(
        options=ImageOptions, build=resnet50_graph, examples="images", source=_RESNET, year=2016
    ),
    "resnet152": Model(
        options=ImageOptions, build=resnet152_graph, examples="images", source=_RESNET, year=2016
    ),
    "densenet121": Model(
        options=ImageOptions,
        build=densenet121_graph,
        examples="images",
        source="Huang et al.: Densely Connected Convolutional Networks",
        year=2017,
    ),
    "squeezenet1_0": Model(
        options=DroppingImageOptions,
        build=squeezenet1_0_graph,
        examples="images",
        source=_SQUEEZENET,
        year=2016,
    ),
    "squeezenet1_1": Model(
        options=DroppingImageOptions,
        build=squeezenet1_1_graph,
        examples="images",
        source=_SQUEEZENET,
        year=2016,
    ),
    "mlp": Model(
        options=MlpOptions,
        build=mlp_graph,
        examples="features",
        source="Finocchiaro: An Outlook on Machine Learning Resource Requirements",
        year=2024,
    ),
    "lstm_lm": Model(
        options=LstmLmOptions,
        build=lstm_lm_graph,
        examples="tokens",
        source="Zaremba, Sutskever, Vinyals: Recurrent Neural Network Regularization",
        year=2014,
    ),
    "transformer_encoder": Model(
        options=TransformerOptions,
        build=transformer_encoder_graph,
        examples="tokens",
        source="Vaswani et al.: Attention Is All You Need",
        year=2017,
    ),
    "fully_connected": Model(
        options=FullyConnectedOptions,
        build=fully_connected_graph,
        examples="features",
        source="Rumelhart, Hinton, Williams: Learning Representations by Back-Propagating Errors",
        year=1986,
    ),
    "conv_residual": Model(
        options=ResidualOptions,
        build=conv_residual_graph,
        examples="images",
        source=_RESNET,
        year=2016,
    ),
    "conv_bottleneck": Model(
        options=ResidualOptions,
        build=conv_bottleneck_graph,
        examples="images",
        source=_RESNET,
        year=2016,
    ),
    "recurrent": Model(
        options=RecurrentOptions,
        build=recurrent_graph,
        examples="sequences",
        source="Hochreiter, Schmidhuber: Long Short-Term Memory",
        year=1997,
    ),
}
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
