"""The kinds a layer can have, by name; those of images and sequences stand in files of their own.

Framework-free; building modules is the worker's duty.
"""

import math

from trainload.errors import GraphError
from trainload.workload.graph.kind import (
    Attribute,
    Attributes,
    Kind,
    Shape,
    Shapes,
    dense_parameters,
    elementwise,
)
from trainload.workload.graph.kinds_image import IMAGE_KINDS
from trainload.workload.graph.kinds_sequence import SEQUENCE_KINDS


def _input_shape(attributes: Attributes, _inputs: Shapes) -> Shape:
    shape = tuple(attributes["shape"])
    if not shape or any(not isinstance(d, int) or isinstance(d, bool) or d < 1 for d in shape):
        raise GraphError(f"shape {list(shape)} must hold whole numbers of at least 1")
    return shape


def _linear_shape(attributes: Attributes, inputs: Shapes) -> Shape:
    if len(inputs[0]) != 1:
        raise GraphError(f"needs a flat input, got shape {list(inputs[0])}; put a flatten before")
    return (attributes["units"],)


def _linear_parameters(attributes: Attributes, inputs: Shapes) -> dict[str, Shape]:
    return dense_parameters(attributes["units"], inputs[0][0], attributes["bias"])


def _linear_flop(attributes: Attributes, inputs: Shapes, _output: Shape) -> int:
    return 2 * inputs[0][0] * int(attributes["units"])


def _flat_shape(_attributes: Attributes, inputs: Shapes) -> Shape:
    return (math.prod(inputs[0]),)


def _sum_shape(_attributes: Attributes, inputs: Shapes) -> Shape:
    if len(set(inputs)) > 1:
        listed = ", ".join(str(list(shape)) for shape in inputs)
        raise GraphError(f"cannot add inputs of different shapes: {listed}")
    return inputs[0]


def _concat_shape(_attributes: Attributes, inputs: Shapes) -> Shape:
    if len({shape[1:] for shape in inputs}) > 1:
        listed = ", ".join(str(list(shape)) for shape in inputs)
        raise GraphError(f"inputs may differ in their first dimension alone: {listed}")
    return (sum(shape[0] for shape in inputs), *inputs[0][1:])


KINDS: dict[str, Kind] = {
    "input": Kind(
        attributes={
            "shape": Attribute(type=list),
            # int64 for tokens, which an embedding alone can read.
            "dtype": Attribute(type=str, default="float32", choices=("float32", "int64")),
        },
        inputs=0,
        infer=_input_shape,
    ),
    "linear": Kind(
        attributes={
            "units": Attribute(type=int, low=1, high=10**7),
            "bias": Attribute(type=bool, default=True),
        },
        infer=_linear_shape,
        parameter_shapes=_linear_parameters,
        flop=_linear_flop,
    ),
    "flatten": Kind(attributes={}, infer=_flat_shape),
    "add": Kind(attributes={}, inputs=2, joins=True, infer=_sum_shape),
    # Along the first dimension: the channels of images.
    "concat": Kind(attributes={}, inputs=2, joins=True, infer=_concat_shape),
    "dropout": elementwise(rate=Attribute(type=float, default=0.5, low=0, below=1)),
    "relu": elementwise(),
    # Slope 0.01 is torch's default and the value of Maas, Hannun and Ng 2013.
    "leaky_relu": elementwise(negative_slope=Attribute(type=float, default=0.01, low=0, high=1)),
    "tanh": elementwise(),
    "sigmoid": elementwise(),
    "silu": elementwise(),
    "gelu": elementwise(),  # by the error function, not its tanh approximation
    "softmax": elementwise(),  # over the last dimension
    **IMAGE_KINDS,
    **SEQUENCE_KINDS,
}
