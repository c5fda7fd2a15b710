"""The zoo: parameters as published, FLOPs that grow, any legal input, sources stated."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from published_sizes import PARAMETERS
from trainload.checked import to_json
from trainload.errors import WorkloadError
from trainload.workload import (
    MODELS,
    assemble_workload,
    build_model,
    find_model,
    graph_from_json,
    input_words,
    parse_options,
)

SMALLEST = {
    "lenet5": 16,
    "alexnet": 63,
    "vgg11": 32,
    "vgg16": 32,
    "googlenet": 15,
    "inception_v3": 75,
    "resnet18": 1,
    "resnet50": 1,
    "resnet152": 1,
    "densenet121": 29,
    "squeezenet1_0": 21,
    "squeezenet1_1": 17,
    "conv_residual": 1,
    "conv_bottleneck": 1,
}
"""Side of the smallest square image that each network takes."""


def build(name, **options):
    return build_model(name, parse_options(name, {k: str(v) for k, v in options.items()}))


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_are_those_published(name):
    graph = build(name, classes=1000)
    assert graph.parameters == PARAMETERS[name]
    assert graph.output_shape == (1000,)


def test_lenet_and_the_small_residual_network():
    assert build("lenet5").parameters == 61_706
    # 20 layers, 0.27 million parameters (He et al. 2016, table 6).
    assert round(build("conv_residual").parameters / 1e6, 2) == 0.27


@pytest.mark.parametrize("name", SMALLEST)
def test_the_smallest_image_fits_and_the_next_smaller_is_one_line(name):
    side = SMALLEST[name]
    graph = build(name, image_height=side, image_width=side + 9, image_channels=2)
    assert graph.input_shape == (2, side, side + 9)
    with pytest.raises(WorkloadError) as caught:
        build(name, image_height=side - 1)
    text = str(caught.value)
    assert name in text and "\n" not in text
    expected = "must be at least 1" if side == 1 else r"layer '.+ does not fit into its input \d"
    assert re.search(expected, text), text


@given(
    name=st.sampled_from(sorted(SMALLEST)),
    more=st.integers(0, 60),
    wider=st.integers(0, 60),
    classes=st.integers(2, 300),
)
@settings(max_examples=40, deadline=None)
def test_any_legal_size_builds_and_larger_images_never_cost_less(name, more, wider, classes):
    side = SMALLEST[name] + more
    small = build(name, image_height=side, image_width=side, classes=classes)
    large = build(name, image_height=side, image_width=side + wider, classes=classes)
    assert small.output_shape == large.output_shape == (classes,)
    assert large.flop_forward >= small.flop_forward


@pytest.mark.parametrize("name", MODELS)
def test_graphs_round_trip_and_their_sources_are_stated(name):
    model = find_model(name)
    graph = build(name)
    assert graph.name == name
    assert graph_from_json(json.loads(json.dumps(to_json(graph.to_spec())))) == graph
    assert 1950 < model.year <= 2026 and model.source
    assert model.build.__doc__
    known = model.options.__dataclass_fields__
    assert all(option in known for option in model.input_options)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "mlp"])
def test_the_docstring_names_the_paper(name):
    model = MODELS[name]
    words = model.build.__doc__
    assert str(model.year) in words
    assert re.match(r"\w+", model.source).group() in words or name == "squeezenet1_1"


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("fully_connected", "depth"),
        ("fully_connected", "width"),
        ("conv_residual", "stages"),
        ("conv_residual", "blocks"),
        ("conv_residual", "width"),
        ("conv_bottleneck", "stages"),
        ("conv_bottleneck", "width"),
        ("recurrent", "layers"),
        ("recurrent", "hidden"),
        ("recurrent", "steps"),
        ("transformer_encoder", "layers"),
        ("lstm_lm", "vocabulary"),
    ],
)
def test_families_grow_with_every_option(name, option):
    small = getattr(find_model(name).options(), option)
    base, grown = build(name), build(name, **{option: 2 * small})
    assert grown.flop_forward > base.flop_forward
    assert grown.parameters > base.parameters or option == "steps"


def test_dropout_of_0_leaves_its_layers_out():
    for name in ("alexnet", "vgg11", "googlenet", "inception_v3", "squeezenet1_1", "lstm_lm"):
        with_it, without = build(name), build(name, dropout=0)
        assert any(layer.kind == "dropout" for layer in with_it.layers)
        assert not any(layer.kind == "dropout" for layer in without.layers)
        assert with_it.parameters == without.parameters


def test_a_single_recurrent_layer_has_no_dropout_between_layers():
    lstm = build("lstm_lm", layers=1).layers[3]
    assert lstm.kind == "lstm" and lstm.attributes["dropout"] == 0


def test_input_words():
    sizes = input_words("alexnet", "3x224×96")
    assert sizes == {"image_channels": "3", "image_height": "224", "image_width": "96"}
    assert input_words("mlp", "75") == {"inputs": "75"}
    assert input_words("recurrent", "8x75") == {"steps": "8", "inputs": "75"}
    with pytest.raises(WorkloadError, match=r"takes 1 number\(s\): steps"):
        input_words("lstm_lm", "3x4")


def test_plain_features_are_keypoints_unless_told():
    workload = assemble_workload("fully_connected", {"depth": 1, "width": 8})
    assert workload.graph.input_shape == (75,) and workload.graph.output_shape == (10,)
