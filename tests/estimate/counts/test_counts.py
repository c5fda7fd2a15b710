"""Counts of a step: by hand, their sums, and how they move with batch and precision."""

import pytest
from hand_graphs import graph_of, small_perceptron
from hypothesis import given, settings
from hypothesis import strategies as st

from trainload.estimate import estimate_step
from trainload.estimate.counts.kinds import RULES
from trainload.estimate.counts.step import LOSS
from trainload.workload import MODELS, Optimizer, build_model
from trainload.workload.graph.kinds import KINDS

COUNTS = (
    "parameters", "forward_flop", "backward_flop", "flop", "kept_bytes", "weight_copy_bytes",
    "forward_moved_bytes", "backward_moved_bytes", "update_moved_bytes", "moved_bytes",
    "weight_bytes", "buffer_bytes", "gradient_bytes", "optimizer_bytes",
)  # fmt: skip
PLAIN_SGD = Optimizer(name="sgd", momentum=0.0)


def row(step, name):
    return next(layer for layer in step.layers if layer.name == name)


def test_flop_by_hand():
    # 2 examples: 2·2·4·5 = 80 and 2·2·5·3 = 60 forward. Backward, the first layer needs the
    # gradient of its weights alone (80), the second that of its input too (2·60).
    step = estimate_step(small_perceptron(), batch_size=2)
    first, second = row(step, "linear0"), row(step, "linear2")
    assert (first.forward_flop, first.backward_flop) == (80, 80)
    assert (second.forward_flop, second.backward_flop) == (60, 120)


def test_kept_bytes_by_hand():
    # The batch 2·4·4 = 32; relu's output, which the second layer shares, 2·5·4 = 40; the loss
    # keeps 2·3·4 = 24 of logarithms and 2·8 of labels.
    step = estimate_step(small_perceptron(), batch_size=2)
    kept = {layer.name: layer.kept_bytes for layer in step.layers if layer.kept_bytes}
    assert kept == {"x": 32, "relu1": 40, LOSS: 40}


def test_moved_bytes_by_hand():
    step = estimate_step(small_perceptron(), batch_size=2)
    first, relu, second = (row(step, name) for name in ("linear0", "relu1", "linear2"))
    # Input 32, 25 weights 100, output 40; back the input, the gradients of output and weights.
    assert (first.forward_moved_bytes, first.backward_moved_bytes) == (172, 172)
    # In 40, out 40; back its output and two gradients.
    assert (relu.forward_moved_bytes, relu.backward_moved_bytes) == (80, 120)
    # 40 + 18·4 + 24; back input 40, weights 72, gradients of output 24, weights 72, input 40.
    assert (second.forward_moved_bytes, second.backward_moved_bytes) == (136, 248)
    # Adam: gradient read; weight and two moments read and written: 43·4·7.
    assert step.total("update_moved_bytes") == 1204


def test_the_fullest_moment_by_hand():
    # Lasting: 43 weights 172, Adam 344. Going back: 112 kept and no gradient; 72 and 72 at the
    # second layer; 32 and 172 at the first.
    step = estimate_step(small_perceptron(), batch_size=2)
    assert step.fullest_bytes == 172 + 344 + max(112, 72 + 72, 32 + 172)


def test_bf16_by_hand():
    # The batch stays 32 in float32, the first layer keeps a copy 16 of it; relu's output is 20 in
    # bf16; the loss computes in float32. Only the second layer needs its weights back: 15·2.
    step = estimate_step(small_perceptron(), batch_size=2, precision="bf16")
    kept = {layer.name: layer.kept_bytes for layer in step.layers if layer.kept_bytes}
    assert kept == {"x": 32, "linear0": 16, "relu1": 20, LOSS: 40}
    assert {layer.name: layer.weight_copy_bytes for layer in step.layers}["linear2"] == 30
    assert step.total("weight_copy_bytes") == 30
    assert step.total("weight_bytes") == step.total("gradient_bytes") == 172


def test_a_layer_norm_computes_in_float32_under_autocast():
    graph = graph_of([3, 4], ("linear_over_time", {"units": 8}), ("layer_norm", {}))
    step = estimate_step(graph, batch_size=2, precision="bf16")
    # A float32 copy of its input, 2·3·8·4, and mean and deviation of 6 rows.
    assert row(step, "layer_norm1").kept_bytes == 192 + 2 * 6 * 4


def test_what_single_kinds_keep():
    # 1×4×4 → 2×4×4: the norm keeps its input 2·32·4 (made by the convolution) and 2·2 statistics;
    # pooling keeps relu's output and 2·8 indices of 8 bytes; dropout a byte a value.
    graph = graph_of(
        [1, 4, 4],
        ("conv2d", {"channels": 2, "kernel": 3, "padding": 1, "bias": False}),
        ("batch_norm", {}),
        ("relu", {}),
        ("max_pool2d", {"kernel": 2, "stride": 2}),
        ("flatten", {}),
        ("dropout", {"rate": 0.5}),
        ("linear", {"units": 3}),
    )
    step = estimate_step(graph, batch_size=2)
    kept = {layer.kind: layer.kept_bytes for layer in step.layers}
    assert kept["conv2d"] == 256 and kept["batch_norm"] == 2 * 2 * 4
    assert kept["relu"] == 256 and kept["max_pool2d"] == 2 * 8 * 8
    assert kept["flatten"] == 0
    assert kept["dropout"] == 16 * 1 + 16 * 4  # its mask, and its output for the linear layer
    # Running mean and variance of two channels and a counter.
    assert step.total("buffer_bytes") == 2 * 2 * 4 + 8


def test_a_rate_of_zero_drops_nothing_and_keeps_nothing():
    graph = graph_of(
        [4], ("linear", {"units": 5}), ("dropout", {"rate": 0}), ("linear", {"units": 3})
    )
    dropout = row(estimate_step(graph, batch_size=2), "dropout1")
    assert dropout.kept_bytes == 0 and dropout.moved_bytes == 0


def test_nothing_is_kept_where_nothing_before_is_trained():
    graph = graph_of([4], ("relu", {}), ("linear", {"units": 3}))
    relu = row(estimate_step(graph, batch_size=2), "relu0")
    assert relu.kept_bytes == 2 * 4 * 4  # for the linear layer, not for itself
    assert relu.backward_moved_bytes == 0


@pytest.mark.parametrize(
    ("optimizer", "values"),
    [
        (PLAIN_SGD, 0),
        (Optimizer(name="sgd", momentum=0.9), 1),
        (Optimizer(name="rmsprop"), 1),
        (Optimizer(name="adagrad"), 1),
        (Optimizer(name="adam"), 2),
        (Optimizer(name="adamw"), 2),
    ],
)
def test_optimizer_state(optimizer, values):
    step = estimate_step(small_perceptron(), batch_size=2, optimizer=optimizer)
    assert step.total("optimizer_bytes") == 43 * 4 * values


def test_every_kind_has_a_rule():
    assert set(RULES) == set(KINDS)


@pytest.mark.parametrize("precision", ["float32", "bf16"])
@pytest.mark.parametrize("name", MODELS)
def test_totals_are_sums_and_the_bound_lies_within(name, precision):
    graph = build_model(name, MODELS[name].options())
    step = estimate_step(graph, batch_size=3, precision=precision)
    assert [layer.name for layer in step.layers] == [*(x.name for x in graph.layers), LOSS]
    for count in COUNTS:
        assert step.total(count) == sum(getattr(layer, count) for layer in step.layers)
    assert step.total("parameters") == graph.parameters
    assert step.total("forward_flop") == 3 * graph.flop_forward
    lasting = sum(step.total(f"{part}_bytes") for part in ("weight", "buffer", "optimizer"))
    kept = step.total("kept_bytes") + step.total("weight_copy_bytes")
    assert lasting + kept <= step.fullest_bytes <= lasting + kept + step.total("gradient_bytes")
    assert step.fullest_bytes >= lasting + step.total("gradient_bytes")


ATTRIBUTES = {
    "linear": st.fixed_dictionaries({"units": st.integers(1, 40), "bias": st.booleans()}),
    "dropout": st.fixed_dictionaries({"rate": st.sampled_from([0.0, 0.5])}),
}
LAYERS = st.sampled_from(
    ["linear", "relu", "leaky_relu", "tanh", "sigmoid", "silu", "gelu", "softmax", "dropout"]
).flatmap(lambda kind: st.tuples(st.just(kind), ATTRIBUTES.get(kind, st.just({}))))


@settings(max_examples=80, deadline=None)
@given(
    layers=st.lists(LAYERS, min_size=1, max_size=8),
    width=st.integers(1, 30),
    batch=st.integers(1, 500),
    precision=st.sampled_from(["float32", "bf16"]),
    optimizer=st.sampled_from(["sgd", "adam", "adamw", "rmsprop", "adagrad"]),
)
def test_doubling_the_batch_never_lowers_a_count(layers, width, batch, precision, optimizer):
    graph = graph_of([width], *layers, ("linear", {"units": 2}))
    chosen = {"precision": precision, "optimizer": Optimizer(name=optimizer)}
    once = estimate_step(graph, batch_size=batch, **chosen)
    twice = estimate_step(graph, batch_size=2 * batch, **chosen)
    for before, after in zip(once.layers, twice.layers, strict=True):
        for count in COUNTS:
            assert getattr(after, count) >= getattr(before, count) >= 0
        assert after.flop == 2 * before.flop
        assert after.kept_bytes == 2 * before.kept_bytes  # no statistics of a batch among these
    assert twice.fullest_bytes >= once.fullest_bytes
    parts = ("weight", "buffer", "gradient", "optimizer", "kept", "weight_copy")
    assert once.fullest_bytes <= sum(once.total(f"{part}_bytes") for part in parts)


# Of networks with wide inputs and few units, the copy of the batch outweighs the rest.
@pytest.mark.parametrize("name", sorted(set(MODELS) - {"mlp", "fully_connected"}))
def test_bf16_keeps_fewer_bytes_and_the_same_flop(name):
    graph = build_model(name, MODELS[name].options())
    full = estimate_step(graph, batch_size=32)
    half = estimate_step(graph, batch_size=32, precision="bf16")
    assert half.total("flop") == full.total("flop")
    assert half.total("kept_bytes") < full.total("kept_bytes")


def test_fp16_counts_as_bf16():
    halves = [
        estimate_step(small_perceptron(), batch_size=2, precision=name) for name in ("bf16", "fp16")
    ]
    assert halves[0].layers == halves[1].layers
    assert halves[0].fullest_bytes == halves[1].fullest_bytes
