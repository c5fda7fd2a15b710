"""Kinds of layers: shapes, parameters and FLOPs by hand, and errors that name layer and shapes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainload.errors import GraphError
from trainload.workload import LayerSpec, build_graph


def build(shape, *layers, dtype="float32"):
    """A graph of (kind, attributes) layers, each on the one before; its last layer."""
    attributes = {"shape": shape, "dtype": dtype}
    specs = [LayerSpec(name="input", kind="input", attributes=attributes)]
    for number, (kind, values) in enumerate(layers):
        name = f"l{number}"
        specs.append(LayerSpec(name=name, kind=kind, inputs=(specs[-1].name,), attributes=values))
    return build_graph("g", specs).layers[-1]


@pytest.mark.parametrize(
    ("shape", "kind", "attributes", "output", "parameters", "flop"),
    [
        # AlexNet's first layer, by hand: 64 maps of 55×55, each of 3·11·11 products.
        ([3, 224, 224], "conv2d", {"channels": 64, "kernel": 11, "stride": 4, "padding": 2},
         (64, 55, 55), 64 * 363 + 64, 2 * 64 * 55 * 55 * 363),
        ([8, 9, 9], "conv2d", {"channels": 8, "kernel": [1, 3], "groups": 8, "bias": False},
         (8, 9, 7), 24, 2 * 8 * 9 * 7 * 3),
        ([2, 9, 9], "conv2d", {"channels": 1, "kernel": 3, "dilation": 4}, (1, 1, 1), 19, 36),
        ([4, 7, 6], "max_pool2d", {"kernel": 3, "stride": 2}, (4, 3, 2), 0, 0),
        ([4, 7, 6], "max_pool2d", {"kernel": 3, "stride": 2, "ceil": True}, (4, 3, 3), 0, 0),
        # The window that would start in the last padding is left out.
        ([1, 3, 3], "max_pool2d", {"kernel": 2, "stride": 2, "padding": 1, "ceil": True},
         (1, 2, 2), 0, 0),
        ([4, 8, 8], "avg_pool2d", {"kernel": 2, "stride": 2}, (4, 4, 4), 0, 0),
        ([4, 5, 9], "adaptive_avg_pool2d", {"size": 1}, (4, 1, 1), 0, 0),
        ([4, 5, 9], "batch_norm", {}, (4, 5, 9), 8, 0),
        ([5, 9], "layer_norm", {}, (5, 9), 18, 0),
        ([5, 9], "linear_over_time", {"units": 2}, (5, 2), 20, 2 * 5 * 9 * 2),
        ([5, 9], "lstm", {"hidden": 3}, (5, 3), 4 * 3 * (9 + 3 + 1), 2 * 5 * 12 * 12),
        ([5, 9], "lstm", {"hidden": 3, "layers": 2}, (5, 3), 12 * 13 + 12 * 7,
         2 * 5 * 12 * (12 + 6)),
        ([5, 8], "self_attention", {"heads": 2}, (5, 8), 4 * 8 * 8 + 4 * 8,
         2 * 5 * 8 * 32 + 4 * 5 * 5 * 8),
        ([5, 9], "position_embedding", {}, (5, 9), 45, 0),
        ([5, 9], "mean_over_time", {}, (9,), 0, 0),
        ([5, 9], "last_step", {}, (9,), 0, 0),
        ([5, 9], "gelu", {}, (5, 9), 0, 0),
        ([5, 9], "softmax", {}, (5, 9), 0, 0),
        ([3, 4], "flatten", {}, (12,), 0, 0),
        ([7], "linear", {"units": 2}, (2,), 16, 28),
    ],
)  # fmt: skip
def test_shapes_parameters_and_flop_by_hand(shape, kind, attributes, output, parameters, flop):
    layer = build(shape, (kind, attributes))
    assert (layer.output_shape, layer.parameters) == (output, parameters)
    assert layer.flop_forward == flop


def test_an_embedding_reads_tokens():
    layer = build([6], ("embedding", {"vocabulary": 50, "width": 4}), dtype="int64")
    assert (layer.output_shape, layer.parameters, layer.flop_forward) == ((6, 4), 200, 0)


def join(kind, *shapes):
    specs = [LayerSpec(name="input", kind="input", attributes={"shape": [2, 8, 8]})]
    for number, (channels, kernel) in enumerate(shapes):
        values = {"channels": channels, "kernel": kernel}
        specs.append(
            LayerSpec(name=f"c{number}", kind="conv2d", inputs=("input",), attributes=values)
        )
    inputs = tuple(spec.name for spec in specs[1:])
    specs.append(LayerSpec(name="join", kind=kind, inputs=inputs, attributes={}))
    return build_graph("g", specs)


def test_joins_take_two_inputs_or_more():
    assert join("add", (3, 1), (3, 1)).output_shape == (3, 8, 8)
    assert join("concat", (3, 1), (4, 1), (5, 1)).output_shape == (12, 8, 8)
    with pytest.raises(GraphError, match="takes at least 2 input"):
        join("add", (3, 1))
    with pytest.raises(GraphError, match=r"'join' \(add\): .*\[3, 8, 8\], \[4, 8, 8\]"):
        join("add", (3, 1), (4, 1))
    with pytest.raises(GraphError, match=r"first dimension alone: \[3, 8, 8\], \[3, 6, 6\]"):
        join("concat", (3, 1), (3, 3))


@pytest.mark.parametrize(
    ("shape", "kind", "attributes", "message"),
    [
        ([3, 4, 4], "conv2d", {"channels": 1, "kernel": 5}, r"5×5 does not fit .* 3×4×4"),
        ([3, 4, 4], "conv2d", {"channels": 4, "kernel": 1, "groups": 2}, "into 2 groups"),
        ([3, 4, 4], "conv2d", {"channels": 1, "kernel": [1, 2, 3]}, "a height and a width"),
        ([3, 4, 4], "conv2d", {"channels": 1, "kernel": [1, True]}, "must be int"),
        ([3, 4, 4], "conv2d", {"channels": 1, "kernel": 0}, "at least 1"),
        ([3, 4], "conv2d", {"channels": 1, "kernel": 1}, "needs channels × height × width"),
        ([3, 4, 4], "max_pool2d", {"kernel": 2, "padding": 2}, "more than half"),
        ([3, 1, 1], "max_pool2d", {"kernel": 3, "stride": 2, "ceil": True}, "does not fit"),
        ([3, 4], "batch_norm", {}, r"got shape \[3, 4\]"),
        ([3, 4, 4], "batch_norm", {"momentum": 1.5}, "at most 1"),
        ([3], "lstm", {"hidden": 2}, "needs time × width"),
        ([5, 9], "self_attention", {"heads": 2}, "width of 9 cannot be split into 2 heads"),
        ([5], "embedding", {"vocabulary": 5, "width": 2}, "its dtype must be int64"),
    ],
)
def test_what_does_not_fit_is_said(shape, kind, attributes, message):
    with pytest.raises(GraphError, match=message):
        build(shape, (kind, attributes))


def test_tokens_are_for_embeddings_alone():
    with pytest.raises(GraphError, match="put an embedding before"):
        build([5], ("linear", {"units": 3}), dtype="int64")
    with pytest.raises(GraphError, match="must be float32 or int64"):
        build([5], ("relu", {}), dtype="int8")


@given(
    size=st.integers(1, 40),
    kernel=st.integers(1, 7),
    stride=st.integers(1, 4),
    padding=st.integers(0, 3),
)
def test_rounding_up_never_gives_fewer_cells_or_a_window_outside(size, kernel, stride, padding):
    values = {"kernel": kernel, "stride": stride, "padding": padding}
    try:
        down = build([1, size, size], ("max_pool2d", values)).output_shape[1]
    except GraphError:
        return
    up = build([1, size, size], ("max_pool2d", {**values, "ceil": True})).output_shape[1]
    assert down <= up <= down + 1
    assert (up - 1) * stride < size + padding
