"""Counts beside torch's own: its FLOP counter, and what its autograd really keeps."""

import math

import pytest

from trainload.estimate import estimate_step
from trainload.workload import MODELS, build_model, parse_options
from trainload_worker.protocol.graph import GraphSpec, LayerSpec

torch = pytest.importorskip("torch", reason="needs torch")
pytestmark = pytest.mark.framework("torch")

BATCH = 3
# On the meta device torch's dropout keeps numbers, where CUDA keeps a bool a value.
WITHOUT_DROPOUT = {
    name: {"dropout": "0"} for name, model in MODELS.items() if hasattr(model.options(), "dropout")
}


def model_graph(name):
    return build_model(name, parse_options(name, WITHOUT_DROPOUT.get(name, {})))


def built(graph, device="meta"):
    """The graph as a torch module and a batch; on the meta device shapes without numbers."""
    from trainload_worker.frameworks.torch.graph import GraphModule

    spec = GraphSpec(
        name=graph.name,
        output=graph.output,
        layers=tuple(
            LayerSpec(
                name=layer.name,
                kind=layer.kind,
                inputs=layer.inputs,
                attributes=layer.attributes,
                output_shape=layer.output_shape,
            )
            for layer in graph.layers
        ),
    )
    with torch.device(device):
        module = GraphModule(spec)
        tokens = graph.layers[0].attributes["dtype"] == "int64"
        shape = (BATCH, *graph.input_shape)
        rows = torch.zeros(shape, dtype=torch.int64 if tokens else torch.float32)
        labels = torch.zeros(BATCH * math.prod(graph.output_shape[:-1]), dtype=torch.int64)
    return module, rows, labels


def loss_of(module, rows, labels):
    output = module(rows)
    return torch.nn.functional.cross_entropy(output.reshape(-1, output.shape[-1]), labels)


@pytest.mark.parametrize("name", MODELS)
def test_flop_are_those_of_torch(name):
    from torch.utils.flop_counter import FlopCounterMode

    graph = model_graph(name)
    module, rows, labels = built(graph)
    step = estimate_step(graph, batch_size=BATCH)
    with FlopCounterMode(display=False) as forward:
        loss = loss_of(module, rows, labels)
    with FlopCounterMode(display=False) as backward:
        loss.backward()
    assert step.total("forward_flop") == pytest.approx(forward.get_total_flops(), rel=0.01)
    assert step.total("backward_flop") == pytest.approx(backward.get_total_flops(), rel=0.01)


def kept_by_autograd(module, rows, labels):
    """Bytes that the backward pass will need, weights and buffers left out, each storage once."""
    own = {value.untyped_storage()._cdata for value in module.state_dict().values()}
    kept = {}

    def note(tensor):
        storage = tensor.untyped_storage()
        if storage._cdata not in own:
            kept[storage._cdata] = storage  # held, so that its address is not used again
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        loss = loss_of(module, rows, labels)
    assert loss.requires_grad
    return sum(storage.nbytes() for storage in kept.values())


# An LSTM's kernel keeps what it likes; the estimate counts gates, cells and outputs alone.
@pytest.mark.parametrize("name", sorted(set(MODELS) - {"lstm_lm", "recurrent"}))
def test_kept_bytes_are_those_autograd_keeps(name):
    graph = model_graph(name)
    # Flash attention needs a device that computes.
    found = kept_by_autograd(*built(graph, "cpu" if name == "transformer_encoder" else "meta"))
    step = estimate_step(graph, batch_size=BATCH)
    assert step.total("kept_bytes") == pytest.approx(found, rel=0.001)


@pytest.mark.parametrize("name", ["lstm_lm", "recurrent"])
def test_an_lstm_keeps_at_least_what_is_counted(name):
    graph = model_graph(name)
    step = estimate_step(graph, batch_size=BATCH)
    assert 0.5 < step.total("kept_bytes") / kept_by_autograd(*built(graph)) <= 1


SMALL = {"image_height": "64", "image_width": "64"}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("mlp", {}),
        ("resnet18", SMALL),
        ("densenet121", SMALL),
        ("squeezenet1_1", {**SMALL, "dropout": "0"}),
        ("transformer_encoder", {"dropout": "0"}),
    ],
)
def test_kept_bytes_under_autocast(name, options):
    graph = build_model(name, parse_options(name, options))
    module, rows, labels = built(graph, "cpu")
    with torch.autocast("cpu", torch.bfloat16):
        found = kept_by_autograd(module, rows, labels)
    if rows.dtype == torch.float32:  # autograd keeps a bf16 copy, the training loop the batch
        found += rows.untyped_storage().nbytes()
    step = estimate_step(graph, batch_size=BATCH, precision="bf16")
    counted = step.total("kept_bytes") + step.total("weight_copy_bytes")
    assert counted == pytest.approx(found, rel=0.001)
