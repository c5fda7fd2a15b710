"""Fully connected networks by depth and width."""

from dataclasses import dataclass, replace
from typing import Annotated

from trainload.checked import Bounds
from trainload.workload.graph.layers import LayerGraph
from trainload.workload.zoo.mlp import Activation, MlpOptions, mlp_graph
from trainload.workload.zoo.model import Model
from trainload.workload.zoo.options import Classes, Rate


@dataclass(frozen=True, kw_only=True)
class FullyConnectedOptions:
    """Features in, classes out; for sweeps over depth and width."""

    inputs: Annotated[int, Bounds(low=1, high=10**7)] = 784
    depth: Annotated[int, Bounds(low=0, high=1000)] = 2
    """Hidden layers."""
    width: Annotated[int, Bounds(low=1, high=10**6)] = 256
    activation: Activation = "relu"
    dropout: Rate = 0.0
    classes: Classes = 10


def fully_connected_graph(options: FullyConnectedOptions) -> LayerGraph:
    """Hidden layers of equal width (Rumelhart, Hinton, Williams 1986): the mlp in other words."""
    graph = mlp_graph(
        MlpOptions(
            inputs=options.inputs,
            hidden_blocks=options.depth,
            hidden_units=options.width,
            activation=options.activation,
            dropout=options.dropout,
            classes=options.classes,
        )
    )
    return replace(graph, name="fully_connected")


_PAPER = "Rumelhart, Hinton, Williams: Learning Representations by Back-Propagating Errors"

MODELS = {
    "fully_connected": Model(
        build=fully_connected_graph, examples="features", source=_PAPER, year=1986, family=True
    )
}
