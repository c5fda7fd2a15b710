"""The multilayer perceptron family of study L: blocks of linear, activation and dropout."""

from dataclasses import dataclass
from typing import Annotated, Literal

from trainload.checked import Bounds
from trainload.workload.graph.layers import LayerGraph, build_graph
from trainload_worker.protocol.graph import LayerSpec

Activation = Literal["relu", "leaky_relu", "tanh", "sigmoid", "silu"]


@dataclass(frozen=True, kw_only=True)
class MlpOptions:
    """Shape of a multilayer perceptron; the defaults are study L's base configuration."""

    inputs: Annotated[int, Bounds(low=1, high=10**7)] = 75
    hidden_blocks: Annotated[int, Bounds(low=0, high=1000)] = 3
    hidden_units: Annotated[int, Bounds(low=1, high=10**6)] = 512
    activation: Activation = "relu"
    dropout: Annotated[float, Bounds(low=0, below=1)] = 0.0
    classes: Annotated[int, Bounds(low=2, high=10**6)] = 10


def mlp_graph(options: MlpOptions) -> LayerGraph:
    """The graph of one perceptron; dropout layers appear only where the rate is above 0."""
    layers = [LayerSpec(name="input", kind="input", attributes={"shape": [options.inputs]})]
    for block in range(1, options.hidden_blocks + 1):
        name = f"hidden{block}"
        linear = LayerSpec(
            name=f"{name}.linear",
            kind="linear",
            inputs=(layers[-1].name,),
            attributes={"units": options.hidden_units},
        )
        activation = LayerSpec(
            name=f"{name}.activation",
            kind=options.activation,
            inputs=(linear.name,),
            attributes={},
        )
        layers += [linear, activation]
        if options.dropout > 0:
            layers.append(
                LayerSpec(
                    name=f"{name}.dropout",
                    kind="dropout",
                    inputs=(activation.name,),
                    attributes={"rate": options.dropout},
                )
            )
    layers.append(
        LayerSpec(
            name="output",
            kind="linear",
            inputs=(layers[-1].name,),
            attributes={"units": options.classes},
        )
    )
    return build_graph("mlp", layers)
