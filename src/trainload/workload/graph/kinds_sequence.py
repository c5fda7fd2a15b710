"""Kinds of layers that work on sequences: tokens, shaped time, and vectors, time × width."""

from trainload.errors import GraphError
from trainload.workload.graph.kind import (
    Attribute,
    Attributes,
    Kind,
    Shape,
    Shapes,
    dense_parameters,
    same_shape,
)

_WIDTH = Attribute(type=int, low=1, high=10**6)
_RATE = Attribute(type=float, default=0.0, low=0, below=1)


def _need_sequence(inputs: Shapes) -> Shape:
    if len(inputs[0]) != 2:
        raise GraphError(f"needs time × width, got shape {list(inputs[0])}")
    return inputs[0]


def _embedded_shape(attributes: Attributes, inputs: Shapes) -> Shape:
    if len(inputs[0]) != 1:
        raise GraphError(f"needs a row of tokens, got shape {list(inputs[0])}")
    return (inputs[0][0], attributes["width"])


def _embedding_parameters(attributes: Attributes, _inputs: Shapes) -> dict[str, Shape]:
    return {"weight": (attributes["vocabulary"], attributes["width"])}


def _sequence_shape(attributes: Attributes, inputs: Shapes) -> Shape:
    _need_sequence(inputs)
    return same_shape(attributes, inputs)


def _vector_shape(_attributes: Attributes, inputs: Shapes) -> Shape:
    return (_need_sequence(inputs)[1],)


def _linear_shape(attributes: Attributes, inputs: Shapes) -> Shape:
    return (_need_sequence(inputs)[0], attributes["units"])


def _linear_parameters(attributes: Attributes, inputs: Shapes) -> dict[str, Shape]:
    return dense_parameters(attributes["units"], inputs[0][1], attributes["bias"])


def _linear_flop(attributes: Attributes, inputs: Shapes, _output: Shape) -> int:
    time, width = inputs[0]
    return 2 * time * width * int(attributes["units"])


def _lstm_shape(attributes: Attributes, inputs: Shapes) -> Shape:
    return (_need_sequence(inputs)[0], attributes["hidden"])


def _lstm_parameters(attributes: Attributes, inputs: Shapes) -> dict[str, Shape]:
    hidden, width = attributes["hidden"], inputs[0][1]
    shapes: dict[str, Shape] = {}
    for layer in range(attributes["layers"]):
        shapes[f"weight_ih_l{layer}"] = (4 * hidden, hidden if layer else width)
        shapes[f"weight_hh_l{layer}"] = (4 * hidden, hidden)
        shapes[f"bias_ih_l{layer}"] = (4 * hidden,)
    return shapes


def _lstm_flop(attributes: Attributes, inputs: Shapes, _output: Shape) -> int:
    time, width = inputs[0]
    hidden, deeper = attributes["hidden"], attributes["layers"] - 1
    return int(2 * time * 4 * hidden * ((width + hidden) + deeper * 2 * hidden))


def _attention_shape(attributes: Attributes, inputs: Shapes) -> Shape:
    _, width = _need_sequence(inputs)
    if width % attributes["heads"]:
        raise GraphError(f"a width of {width} cannot be split into {attributes['heads']} heads")
    return same_shape(attributes, inputs)


def _attention_parameters(_attributes: Attributes, inputs: Shapes) -> dict[str, Shape]:
    width = inputs[0][1]
    return {
        "in_weight": (3 * width, width),
        "in_bias": (3 * width,),
        "out_weight": (width, width),
        "out_bias": (width,),
    }


def _attention_flop(_attributes: Attributes, inputs: Shapes, _output: Shape) -> int:
    time, width = inputs[0]
    projections = 2 * time * width * 4 * width
    scores_and_values = 2 * 2 * time * time * width
    return projections + scores_and_values


def _layer_norm_parameters(_attributes: Attributes, inputs: Shapes) -> dict[str, Shape]:
    return {"weight": (inputs[0][-1],), "bias": (inputs[0][-1],)}


def _position_parameters(_attributes: Attributes, inputs: Shapes) -> dict[str, Shape]:
    return {"weight": inputs[0]}


SEQUENCE_KINDS: dict[str, Kind] = {
    "embedding": Kind(
        attributes={"vocabulary": Attribute(type=int, low=1, high=10**8), "width": _WIDTH},
        infer=_embedded_shape,
        parameter_shapes=_embedding_parameters,
        tokens=True,
    ),
    # A trained vector for each place in time, added to the input.
    "position_embedding": Kind(
        attributes={}, infer=_sequence_shape, parameter_shapes=_position_parameters
    ),
    "linear_over_time": Kind(
        attributes={
            "units": Attribute(type=int, low=1, high=10**7),
            "bias": Attribute(type=bool, default=True),
        },
        infer=_linear_shape,
        parameter_shapes=_linear_parameters,
        flop=_linear_flop,
    ),
    # Gates in the order input, forget, cell, output; ONE bias a gate, as in the papers: a second
    # one, which torch and MXNet add, would learn twice as fast as the one of Keras and Flax.
    "lstm": Kind(
        attributes={
            "layers": Attribute(type=int, default=1, low=1, high=1000),
            "hidden": _WIDTH,
            "dropout": _RATE,  # between the layers, not after the last
        },
        infer=_lstm_shape,
        parameter_shapes=_lstm_parameters,
        flop=_lstm_flop,
    ),
    # softmax(Q·Kᵀ/√d)·V in each head; Q, K and V stand in this order in the input weights.
    "self_attention": Kind(
        attributes={
            "heads": Attribute(type=int, low=1, high=10**4),
            "dropout": _RATE,  # of the softmax's weights
            "causal": Attribute(type=bool, default=False),
        },
        infer=_attention_shape,
        parameter_shapes=_attention_parameters,
        flop=_attention_flop,
    ),
    # Over the last dimension.
    "layer_norm": Kind(
        attributes={"eps": Attribute(type=float, default=1e-5, low=0, high=1)},
        infer=same_shape,
        parameter_shapes=_layer_norm_parameters,
    ),
    "mean_over_time": Kind(attributes={}, infer=_vector_shape),
    "last_step": Kind(attributes={}, infer=_vector_shape),
}
