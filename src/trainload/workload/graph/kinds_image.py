"""Kinds of layers that work on images, shaped channels × height × width."""

import math

from trainload.errors import GraphError
from trainload.workload.graph.kind import (
    Attribute,
    Attributes,
    Kind,
    Shape,
    Shapes,
    render_shape,
    same_shape,
)

_LARGEST = 10**5


def _need_image(inputs: Shapes) -> Shape:
    if len(inputs[0]) != 3:
        raise GraphError(f"needs channels × height × width, got shape {list(inputs[0])}")
    return inputs[0]


def _too_small(inputs: Shapes, kernel: list[int], padding: list[int]) -> GraphError:
    padded = f" with padding {render_shape(tuple(padding))}" if any(padding) else ""
    return GraphError(
        f"a window of {render_shape(tuple(kernel))} does not fit into its input "
        f"{render_shape(inputs[0])}{padded}; take a larger image"
    )


def _conv_shape(attributes: Attributes, inputs: Shapes) -> Shape:
    channels, *size = _need_image(inputs)
    groups, kernel = attributes["groups"], attributes["kernel"]
    if channels % groups or attributes["channels"] % groups:
        raise GraphError(
            f"{channels} channels in and {attributes['channels']} out "
            f"cannot both be split into {groups} groups"
        )
    out = []
    for axis in range(2):
        reach = attributes["dilation"][axis] * (kernel[axis] - 1) + 1
        free = size[axis] + 2 * attributes["padding"][axis] - reach
        out.append(free // attributes["stride"][axis] + 1)
        if free < 0:
            raise _too_small(inputs, kernel, attributes["padding"])
    return (attributes["channels"], *out)


def _conv_parameters(attributes: Attributes, inputs: Shapes) -> dict[str, Shape]:
    fan_in = inputs[0][0] // attributes["groups"]
    shapes: dict[str, Shape] = {
        "weight": (attributes["channels"], fan_in, *attributes["kernel"]),
    }
    if attributes["bias"]:
        shapes["bias"] = (attributes["channels"],)
    return shapes


def _conv_flop(attributes: Attributes, inputs: Shapes, output: Shape) -> int:
    products = inputs[0][0] // int(attributes["groups"]) * int(math.prod(attributes["kernel"]))
    return 2 * math.prod(output) * products


def _pool_shape(attributes: Attributes, inputs: Shapes) -> Shape:
    channels, *size = _need_image(inputs)
    kernel, padding = attributes["kernel"], attributes["padding"]
    out = []
    for axis in range(2):
        if 2 * padding[axis] > kernel[axis]:
            raise GraphError(
                f"padding {render_shape(tuple(padding))} is more than half of "
                f"the window {render_shape(tuple(kernel))}"
            )
        stride = attributes["stride"][axis]
        free = size[axis] + 2 * padding[axis] - kernel[axis]
        count = (free + (stride - 1 if attributes["ceil"] else 0)) // stride + 1
        # A last window that would start beyond the image and its first padding is left out.
        if attributes["ceil"] and (count - 1) * stride >= size[axis] + padding[axis]:
            count -= 1
        if count < 1:
            raise _too_small(inputs, kernel, padding)
        out.append(count)
    return (channels, *out)


def _adaptive_shape(attributes: Attributes, inputs: Shapes) -> Shape:
    return (_need_image(inputs)[0], *attributes["size"])


def _norm_shape(attributes: Attributes, inputs: Shapes) -> Shape:
    if len(inputs[0]) not in (1, 3):
        raise GraphError(
            f"needs a flat input or channels × height × width, got shape {list(inputs[0])}"
        )
    return same_shape(attributes, inputs)


def _norm_parameters(_attributes: Attributes, inputs: Shapes) -> dict[str, Shape]:
    return {"weight": (inputs[0][0],), "bias": (inputs[0][0],)}


def _pair(default: int | None, low: int) -> Attribute:
    return Attribute(type=int, default=default, low=low, high=_LARGEST, pair=True)


_WINDOW = {"kernel": _pair(None, 1), "stride": _pair(1, 1), "padding": _pair(0, 0)}
# Rounding up keeps a last window that the image fills in part only.
_POOL = {**_WINDOW, "ceil": Attribute(type=bool, default=False)}

IMAGE_KINDS: dict[str, Kind] = {
    "conv2d": Kind(
        attributes={
            "channels": Attribute(type=int, low=1, high=10**6),
            **_WINDOW,
            "dilation": _pair(1, 1),
            "groups": Attribute(type=int, default=1, low=1, high=10**6),
            "bias": Attribute(type=bool, default=True),
        },
        infer=_conv_shape,
        parameter_shapes=_conv_parameters,
        flop=_conv_flop,
    ),
    "max_pool2d": Kind(attributes=_POOL, infer=_pool_shape),
    # The zeros of the padding count as values of the mean where `count_padding` says so.
    "avg_pool2d": Kind(
        attributes={**_POOL, "count_padding": Attribute(type=bool, default=True)},
        infer=_pool_shape,
    ),
    # Cell i of n covers rows floor(i·h/n) to ceil((i+1)·h/n); a size of 1 is the global mean.
    "adaptive_avg_pool2d": Kind(attributes={"size": _pair(None, 1)}, infer=_adaptive_shape),
    "batch_norm": Kind(
        attributes={
            # The share of the NEW value in a running mean (torch's meaning; Keras and Flax mean
            # the share of the old one).
            "momentum": Attribute(type=float, default=0.1, low=0, high=1),
            "eps": Attribute(type=float, default=1e-5, low=0, high=1),
        },
        infer=_norm_shape,
        parameter_shapes=_norm_parameters,
    ),
}
