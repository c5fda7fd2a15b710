"""The layer graph: inference, JSON both ways, and errors that name the layer."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainload.checked import to_json
from trainload.errors import GraphError
from trainload.workload import LayerSpec, MlpOptions, build_graph, graph_from_json, mlp_graph


def layer(name, kind, *inputs, **attributes):
    return LayerSpec(name=name, kind=kind, inputs=inputs, attributes=attributes)


def test_study_l_perceptron_has_its_parameters():
    graph = mlp_graph(MlpOptions())
    by_hand = (75 * 512 + 512) + 2 * (512 * 512 + 512) + (512 * 10 + 10)
    assert graph.parameters == by_hand == 569354
    assert [x.name for x in graph.layers][:3] == ["input", "hidden1.linear", "hidden1.activation"]
    assert graph.input_shape == (75,) and graph.output_shape == (10,)


def test_dropout_layers_appear_only_when_asked_for():
    assert not any(x.kind == "dropout" for x in mlp_graph(MlpOptions()).layers)
    dropped = mlp_graph(MlpOptions(dropout=0.2, hidden_blocks=2))
    assert [x.attributes["rate"] for x in dropped.layers if x.kind == "dropout"] == [0.2, 0.2]


options = st.builds(
    MlpOptions,
    inputs=st.integers(1, 2000),
    hidden_blocks=st.integers(0, 6),
    hidden_units=st.integers(1, 3000),
    activation=st.sampled_from(["relu", "leaky_relu", "tanh", "sigmoid", "silu"]),
    dropout=st.floats(0, 0.95),
    classes=st.integers(2, 1000),
)


@given(options)
def test_json_round_trip(choice):
    graph = mlp_graph(choice)
    assert graph_from_json(json.loads(json.dumps(to_json(graph.to_spec())))) == graph


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ([], "has no layers"),
        ([layer("x", "linear", "y", units=3)], r"layer 'x' \(linear\): input 'y' is no earlier"),
        ([layer("i", "input", shape=[3, 4]), layer("f", "linear", "i", units=2)], "put a flatten"),
        ([layer("i", "input", shape=[0])], "whole numbers of at least 1"),
        ([layer("i", "input", shape=[3]), layer("i", "relu", "i")], "name is taken"),
        ([layer("i", "input", shape=[3]), layer("a", "relo", "i")], "did you mean 'relu'"),
        ([layer("i", "input", shape=[3]), layer("a", "linear", "i", units=0)], "at least 1"),
        ([layer("i", "input", shape=[3]), layer("a", "linear", "i", unit=1)], "unknown attribute"),
        ([layer("i", "input", shape=[3]), layer("a", "linear", "i")], "'units' is missing"),
        ([layer("i", "input", shape=[3]), layer("a", "dropout", "i", rate=1.0)], "below 1"),
        ([layer("i", "input", shape=[3]), layer("a b", "relu", "i")], "made of identifiers"),
        ([layer("i", "input", shape=[3]), layer("i.x", "relu", "i")], "clashes"),
        ([layer("i", "input", shape=[3]), layer("a", "relu")], "takes 1 input"),
        ([layer("i", "input", shape=[3]), layer("j", "input", shape=[3])], "exactly one input"),
        (
            [layer("i", "input", shape=[3]), layer("a", "relu", "i"), layer("b", "relu", "i")],
            "layer 'a': nothing leads from it",
        ),
    ],
)
def test_a_graph_that_cannot_be_built_says_which_layer_and_why(layers, message):
    with pytest.raises(GraphError, match=message):
        build_graph("g", layers)


def test_stated_shapes_are_checked():
    document = to_json(mlp_graph(MlpOptions()).to_spec())
    document["layers"][1]["output_shape"] = [511]
    with pytest.raises(GraphError, match=r"hidden1\.linear.*states output_shape \[511\]"):
        graph_from_json(document)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(json_values)
def test_any_json_gives_only_typed_errors(document):
    with pytest.raises(GraphError):
        graph_from_json(document)


@given(st.data())
def test_mutated_graphs_give_only_typed_errors(data):
    document = to_json(mlp_graph(MlpOptions(hidden_blocks=1, dropout=0.1)).to_spec())
    target = data.draw(st.sampled_from([document, *document["layers"]]))
    key = data.draw(st.sampled_from(sorted(target)))
    target[key] = data.draw(json_values)
    try:
        graph = graph_from_json(document)
    except GraphError:
        return
    assert graph_from_json(to_json(graph.to_spec())) == graph
