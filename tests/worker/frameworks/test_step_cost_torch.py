"""What watching does in every step of a torch program: counted, not timed, so exact under load."""

import json

import pytest
from own_calls import own_calls

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.framework("torch")

from torch import nn  # noqa: E402
from torch.nn.modules import module as torch_modules  # noqa: E402

from trainload_worker.frameworks.torch import probe as probe_module  # noqa: E402
from trainload_worker.frameworks.torch.layers import LayerProbe  # noqa: E402
from trainload_worker.frameworks.torch.probe import StepProbe  # noqa: E402
from trainload_worker.process.events import EventWriter  # noqa: E402
from trainload_worker.protocol.spec import LayersSpec  # noqa: E402
from trainload_worker.windows import thread_timer  # noqa: E402

HARDLY = 1e-9
"""A budget that allows the first window alone."""


class Deep(nn.Module):
    def __init__(self, blocks):
        super().__init__()
        parts = (nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(blocks))
        self.blocks = nn.ModuleList(parts)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


@pytest.fixture
def watch(tmp_path, monkeypatch):
    """Begins to watch this process, with or without layers; ended after the test."""
    monkeypatch.setattr(probe_module, "FLUSH_PERIOD_S", 1e9)
    events = EventWriter(str(tmp_path / "events.jsonl"))
    begun = []

    def begin(*, layers):
        probes = [StepProbe(events)]
        if layers:
            probes.append(LayerProbe(events, LayersSpec(HARDLY, str(tmp_path), "w-{index}.json")))
        for probe in probes:
            probe.attach()
        begun[:0] = reversed(probes)
        return probes[0]

    yield begin
    for probe in begun:
        probe.finish()
    events.close()


def trained(model, batches, called=None, optimizer=None):
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.01)
    for batch in batches:
        optimizer.zero_grad()
        (model if called is None else called)(batch).square().mean().backward()
        optimizer.step()
    return optimizer


@pytest.mark.parametrize(("layers", "most"), [(False, 8), (True, 10)])
@pytest.mark.parametrize("blocks", [1, 16])
def test_a_step_calls_few_functions_however_many_modules(watch, blocks, layers, most):
    model, batches = Deep(blocks), [torch.randn(8, 4)] * 60
    watch(layers=layers)
    optimizer = trained(model, batches)
    calls = own_calls(lambda: trained(model, batches[:10], optimizer=optimizer))
    assert len(calls) == 10 * most, calls[:most]


def test_nothing_stays_in_torch_after_a_window(watch, tmp_path):
    model = Deep(2)
    watch(layers=True)
    watched = torch.autograd.backward
    trained(model, [torch.randn(8, 4)] * 30)
    assert (tmp_path / "w-0.json").exists()
    assert torch.autograd.backward is watched
    assert not torch_modules._global_forward_hooks
    assert not torch_modules._global_forward_pre_hooks
    assert not torch.autograd._profiler_enabled()
    assert not thread_timer._ticking


def test_batches_that_differ_are_told_exactly(watch, tmp_path):
    sizes = [8, 8, 8, 8, 3, 8, 8, 5, 5, 8]
    probe = watch(layers=False)
    trained(Deep(1), [torch.randn(size, 4) for size in sizes])
    probe.finish()
    lines = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    steps = [line for line in lines if line["kind"] == "steps"]
    assert [count for line in steps for count in line["examples"]] == sizes[1:]


def _compiled_model(model, backend):
    return torch.compile(model, backend=backend)


def _compiled_in_place(model, backend):
    model.compile(backend=backend)
    return model


def _compiled_part(model, backend):
    model.blocks[0] = torch.compile(model.blocks[0], backend=backend)
    return model


def _compiled_function(model, backend):
    return torch.compile(lambda batch: model(batch) * 2, backend=backend)


def _compiled_part_of_the_same_class(model, backend):
    # As the first: of a later one the compiler warns that its input is no leaf.
    model.blocks.insert(0, _compiled_in_place(Deep(1), backend))
    return model


@pytest.mark.parametrize(
    "compiled",
    [
        _compiled_model,
        _compiled_in_place,
        _compiled_part,
        _compiled_function,
        _compiled_part_of_the_same_class,
    ],
)
def test_the_compiler_sees_the_same_frames(watch, compiled):
    def frames():
        torch._dynamo.reset()
        graphs = []

        def backend(graph, _):
            graphs.append(graph)
            return graph.forward

        model = Deep(2)
        called = compiled(model, backend)
        held = called if isinstance(called, nn.Module) else model
        batches = [torch.randn(8, 4)] * 6
        optimizer = trained(held, batches, called)
        held.eval()
        with torch.no_grad():
            called(batches[0])
        held.train()
        trained(held, batches, called, optimizer)
        return len(graphs)

    alone = frames()
    assert alone
    watch(layers=False)
    assert frames() == alone
    torch._dynamo.reset()


# Torch's own, of any such function.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated")
@pytest.mark.parametrize("layers", [False, True])
@pytest.mark.parametrize("updates", [False, True])
def test_compiled_functions_break_no_more_often_for_being_watched(watch, tmp_path, layers, updates):
    counters = torch._dynamo.utils.counters

    def breaks():
        torch._dynamo.reset()
        counters.clear()
        model = nn.Linear(4, 4)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

        @torch.compile(backend="eager")
        def step(batch):
            optimizer.zero_grad()
            loss = model(batch).square().mean()
            loss.backward()
            if updates:
                optimizer.step()
            return loss

        losses = []
        for _ in range(30):
            losses.append(step(torch.ones(8, 4)).item())
            if not updates:
                optimizer.step()
        return sum(counters["graph_break"].values()), losses

    alone, _ = breaks()
    assert alone
    probe = watch(layers=layers)
    watched, losses = breaks()
    if not layers or torch.__version__ >= "2.7":  # before, a window's hooks have it compile anew
        assert watched == alone
    probe.finish()
    steps = lines_of(tmp_path, "steps")
    assert [loss for line in steps for loss in line["loss"]] == losses[1:]
    torch._dynamo.reset()


def lines_of(folder, kind):
    lines = (folder / "events.jsonl").read_text().splitlines()
    return [line for line in map(json.loads, lines) if line["kind"] == kind]
