"""The zoo in torch: the graph's parameters, shapes and FLOPs, and one step of training each."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worker_specs import graph_document, make_spec

from trainload.errors import GraphError
from trainload.workload import (
    MODELS,
    LayerGraph,
    LayerSpec,
    build_graph,
    build_model,
    parse_options,
)
from trainload.workload.graph.kinds import KINDS
from trainload_worker.protocol.graph import GraphSpec
from trainload_worker.protocol.spec import parse_spec

torch = pytest.importorskip("torch", reason="needs torch")
pytestmark = pytest.mark.framework("torch")

SMALL: dict[str, dict[str, Any]] = {
    "lenet5": {"image_height": 16, "image_width": 20},
    "alexnet": {"image_height": 63, "image_width": 70},
    "vgg11": {"image_height": 32, "image_width": 33},
    "vgg16": {"image_height": 32, "image_width": 40},
    "googlenet": {"image_height": 33, "image_width": 40},
    "inception_v3": {"image_height": 75, "image_width": 80},
    "resnet18": {"image_height": 32, "image_width": 33},
    "resnet50": {"image_height": 32, "image_width": 33},
    "resnet152": {"image_height": 32, "image_width": 33},
    "densenet121": {"image_height": 32, "image_width": 40},
    "squeezenet1_0": {"image_height": 30, "image_width": 33},
    "squeezenet1_1": {"image_height": 30, "image_width": 33},
    "lstm_lm": {"hidden": 16, "vocabulary": 40, "steps": 7},
    "transformer_encoder": {"vocabulary": 40, "steps": 7},
    "conv_residual": {"image_height": 9, "image_width": 8},
    "conv_bottleneck": {"image_height": 9, "image_width": 8},
    "recurrent": {"steps": 5},
    "fully_connected": {},
    "mlp": {},
}


@pytest.fixture(autouse=True)
def small_steps() -> Iterator[None]:
    # For one step of a small image, compiling oneDNN's kernels takes longer than plain ones.
    torch.backends.mkldnn.set_flags(_enabled=False)
    yield
    torch.backends.mkldnn.set_flags(_enabled=True)


def as_read(graph: LayerGraph) -> GraphSpec:
    """The graph as the worker reads it."""
    document = make_spec(Path("/nowhere"), "torch", graph=graph_document(graph))
    spec = parse_spec(json.dumps(document))
    return spec.graph  # type: ignore[union-attr]


def build_module(graph: LayerGraph, device: str) -> Any:
    from trainload_worker.frameworks.torch.graph import GraphModule

    with torch.device(device):
        return GraphModule(as_read(graph))


def build_named(name: str, **options: Any) -> LayerGraph:
    return build_model(name, parse_options(name, {k: str(v) for k, v in options.items()}))


def make_batch(name: str, graph: LayerGraph, device: str) -> Any:
    if MODELS[name].examples == "tokens":
        return torch.ones((2, *graph.input_shape), dtype=torch.int64, device=device)
    return torch.randn((2, *graph.input_shape), device=device)


def test_every_kind_can_be_built() -> None:
    from trainload_worker.frameworks.torch.kinds import BUILDERS

    assert set(BUILDERS) == set(KINDS) - {"input"}


@pytest.mark.parametrize("name", MODELS)
def test_parameters_shapes_and_flop_are_the_graph_s(name: str) -> None:
    """On the meta device, where nothing is computed and every product is counted.

    On a CPU torch's counter misses the fused LSTM and attention.
    """
    from torch.utils.flop_counter import FlopCounterMode

    from trainload_worker.frameworks.torch.graph import count_parameters

    graph = build_named(name)
    module = build_module(graph, "meta").eval()
    for layer, read in zip(graph.layers, as_read(graph).layers, strict=True):
        assert count_parameters(module, read) == layer.parameters
        if layer.kind != "input":
            own = module.get_submodule(layer.name).named_parameters(recurse=False)
            trained = {key: tuple(value.shape) for key, value in own if value.requires_grad}
            assert trained == dict(layer.parameter_shapes), layer.name
    trained_values = (p.numel() for p in module.parameters() if p.requires_grad)
    assert sum(trained_values) == graph.parameters
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        output = module(make_batch(name, graph, "meta"))
    assert tuple(output.shape) == (2, *graph.output_shape)
    assert counter.get_total_flops() == pytest.approx(2 * graph.flop_forward, rel=0.01)


@pytest.mark.parametrize("name", MODELS)
def test_one_step_of_training(name: str) -> None:
    torch.manual_seed(0)
    options = dict(SMALL[name])
    if "classes" in MODELS[name].options.__dataclass_fields__:
        options["classes"] = 3
    graph = build_named(name, **options)
    module = build_module(graph, "cpu")
    trained = [value for value in module.parameters() if value.requires_grad]
    scores = module(make_batch(name, graph, "cpu"))
    assert tuple(scores.shape) == (2, *graph.output_shape)
    flat = scores.flatten(0, -2)
    targets = torch.zeros(len(flat), dtype=torch.int64)
    loss = torch.nn.functional.cross_entropy(flat, targets)
    loss.backward()
    assert math.isfinite(loss.item())
    assert all(value.grad is not None for value in trained)
    before = trained[-1].detach().clone()
    torch.optim.SGD(module.parameters(), lr=0.01).step()
    assert not torch.equal(before, trained[-1])


def test_a_residual_block_equals_its_hand_written_twin() -> None:
    graph = build_named("conv_residual", stages=1, blocks=1, width=4)
    module = build_module(graph, "cpu").eval()
    parts = dict(module.named_modules())
    images = torch.randn(2, *graph.input_shape)

    def conv_norm(prefix: str, number: str, values: Any) -> Any:
        return parts[f"{prefix}.norm{number}"](parts[f"{prefix}.conv{number}"](values))

    stem = conv_norm("stem", "", images).relu()
    block = "stage1.block1"
    inner = conv_norm(block, "2", conv_norm(block, "1", stem).relu())
    expected = parts["output"]((inner + stem).relu().mean(dim=(2, 3)))
    assert torch.allclose(module(images), expected, atol=1e-6)


def test_attention_equals_torch_s_own() -> None:
    from trainload_worker.frameworks.torch.kinds import SelfAttention

    ours = SelfAttention(16, 4, 0.0, causal=False)
    theirs = torch.nn.MultiheadAttention(16, 4, batch_first=True)
    theirs.in_proj_weight, theirs.in_proj_bias = ours.in_weight, ours.in_bias
    theirs.out_proj.weight, theirs.out_proj.bias = ours.out_weight, ours.out_bias
    values = torch.randn(3, 7, 16)
    expected = theirs(values, values, values, need_weights=False)[0]
    assert torch.allclose(ours(values), expected, atol=1e-6)


def test_a_causal_attention_does_not_look_ahead() -> None:
    from trainload_worker.frameworks.torch.kinds import SelfAttention

    attention = SelfAttention(8, 2, 0.0, causal=True)
    values = torch.randn(1, 5, 8)
    changed = values.clone()
    changed[:, 3:] = 0
    assert torch.allclose(attention(values)[:, :3], attention(changed)[:, :3], atol=1e-6)


def test_an_lstm_trains_one_bias_a_gate() -> None:
    from trainload_worker.frameworks.torch.kinds import Lstm

    lstm = Lstm(4, 3, 2, 0.0)
    optimizer = torch.optim.SGD(lstm.parameters(), lr=0.1, weight_decay=0.1)
    lstm(torch.randn(2, 5, 4)).sum().backward()
    optimizer.step()
    assert lstm.bias_hh_l0.count_nonzero() == lstm.bias_hh_l1.count_nonzero() == 0
    assert lstm.bias_ih_l0.count_nonzero() > 0


def test_the_momentum_of_a_batch_norm_is_the_share_of_the_new_value() -> None:
    layers = [
        LayerSpec(name="input", kind="input", attributes={"shape": [2]}),
        LayerSpec(name="norm", kind="batch_norm", inputs=("input",), attributes={"momentum": 0.25}),
    ]
    module = build_module(build_graph("g", layers), "cpu")
    module(torch.full((4, 2), 8.0))
    assert module.norm.running_mean.tolist() == [2.0, 2.0]


sides = st.integers(1, 5)


@given(
    kind=st.sampled_from(["conv2d", "max_pool2d", "avg_pool2d"]),
    image=st.tuples(st.integers(1, 20), st.integers(1, 20)),
    kernel=st.tuples(sides, sides),
    stride=st.tuples(sides, sides),
    padding=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    other=st.integers(1, 3),
    ceil=st.booleans(),
)
@settings(max_examples=200, deadline=None)
def test_windows_have_torch_s_shapes_and_limits(
    kind: str,
    image: tuple[int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int],
    other: int,
    ceil: bool,
) -> None:
    attributes: dict[str, Any] = {"kernel": kernel, "stride": stride, "padding": padding}
    if kind == "conv2d":
        attributes.update(channels=6, groups=other, dilation=other)
    else:
        attributes["ceil"] = ceil
    layers = [
        LayerSpec(name="input", kind="input", attributes={"shape": [6, *image]}),
        LayerSpec(name="window", kind=kind, inputs=("input",), attributes=attributes),
    ]
    values = torch.zeros(2, 6, *image)
    try:
        graph = build_graph("g", layers)
    except GraphError:
        keywords: dict[str, Any] = {"stride": stride, "padding": padding}
        with pytest.raises(RuntimeError):
            if kind == "conv2d":
                torch.nn.Conv2d(6, 6, kernel, groups=other, dilation=other, **keywords)(values)
            else:
                pool = torch.nn.MaxPool2d if kind == "max_pool2d" else torch.nn.AvgPool2d
                pool(kernel, ceil_mode=ceil, **keywords)(values)
        return
    assert tuple(build_module(graph, "cpu")(values).shape) == (2, *graph.output_shape)
