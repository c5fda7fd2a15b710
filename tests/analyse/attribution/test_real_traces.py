"""Traces that torch itself wrote, of models that other tools fail on."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trainload.analyse.attribution import RankLayers, collect_trace

torch = pytest.importorskip("torch", reason="torch is not installed")
pytestmark = pytest.mark.framework("torch")

STEPS = 3


def trace_steps(path: Path, models: dict[str, Any], step: Callable[[], None]) -> RankLayers:
    """Trace some steps with layer ranges and marks, and attribute them."""
    names = {
        id(module): f"layer:{root}:{layer}"
        for root, model in models.items()
        for layer, module in model.named_modules()
    }
    mark = torch.autograd.profiler.record_function
    opened: list[Any] = []

    def begin(module: Any, arguments: Any) -> None:
        opened.append(mark(names.get(id(module), "loss:" + type(module).__name__)))
        opened[-1].__enter__()

    def end(module: Any, arguments: Any, output: Any) -> None:
        opened.pop().__exit__(None, None, None)

    hooks = torch.nn.modules.module
    handles = [
        hooks.register_module_forward_pre_hook(begin),
        hooks.register_module_forward_hook(end, always_call=True),
    ]
    try:
        with torch.autograd.profiler.profile(use_kineto=True) as profiler:
            for number in range(STEPS + 1):
                step()
                with mark(f"trainload.step:{number}"):
                    pass
    finally:
        for handle in handles:
            handle.remove()
    profiler.export_chrome_trace(str(path / "trace.json"))
    return collect_trace(path / "trace.json")


def train(model: Any, *inputs: Any) -> Callable[[], None]:
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad()
        output = model(*inputs)
        output.square().mean().backward()
        optimizer.step()

    return step


def checkpointed(reentrant: bool) -> tuple[Any, Any]:
    from torch.utils.checkpoint import checkpoint

    class Checkpointed(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = torch.nn.Linear(32, 64), torch.nn.Linear(64, 8)

        def forward(self, x: Any) -> Any:
            return self.b(checkpoint(self.a, x, use_reentrant=reentrant).relu())

    return Checkpointed(), torch.randn(16, 32, requires_grad=True)


def in_place() -> tuple[Any, Any]:
    layers = (
        torch.nn.Conv2d(3, 8, 3),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(inplace=True),
        torch.nn.Conv2d(8, 4, 3),
    )
    return torch.nn.Sequential(*layers), torch.randn(4, 3, 12, 12)


def attention() -> tuple[Any, Any]:
    class Attention(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.heads = torch.nn.MultiheadAttention(16, 2, batch_first=True)
            self.norm = torch.nn.LayerNorm(16)

        def forward(self, x: Any) -> Any:
            return self.norm(x + self.heads(x, x, x)[0])

    return Attention(), torch.randn(4, 6, 16)


def recurrent() -> tuple[Any, Any]:
    class Recurrent(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.lstm = torch.nn.LSTM(8, 16, 2, batch_first=True)

        def forward(self, x: Any) -> Any:
            return self.lstm(x)[0]

    return Recurrent(), torch.randn(4, 6, 8)


def shared() -> tuple[Any, Any]:
    layer = torch.nn.Linear(16, 16)
    return torch.nn.Sequential(layer, torch.nn.Tanh(), layer), torch.randn(4, 16)


@pytest.mark.parametrize(
    ("build", "layers"),
    [
        (lambda: checkpointed(True), {"a", "b"}),
        (lambda: checkpointed(False), {"a", "b"}),
        (in_place, {"0", "1", "2", "3"}),
        (attention, {"heads", "norm"}),
        (recurrent, {"lstm"}),
        (shared, {"0", "1"}),
    ],
)
def test_every_layer_has_its_forward_and_backward(
    tmp_path: Path, build: Callable[[], tuple[Any, Any]], layers: set[str]
) -> None:
    model, inputs = build()
    found = trace_steps(tmp_path, {"Model": model}, train(model, inputs))
    assert found.notes == ()
    assert found.rows["step"].n_unique() == STEPS
    worked = {n.layer for n in found.nodes if n.layer and n.forward_s and n.backward_s}
    assert worked == layers
    assert found.parts["loss"] > 0
    assert found.parts["update"] > 0
    assert "script" not in found.parts or found.parts["script"] < found.parts["backward"]
    assert sum(found.parts.values()) == pytest.approx(found.step_s)


def test_accumulated_gradients_and_two_models_are_told_apart(tmp_path: Path) -> None:
    one, two = torch.nn.Linear(16, 16), torch.nn.Linear(16, 4)
    optimizers = [torch.optim.Adam(model.parameters()) for model in (one, two)]
    inputs = torch.randn(8, 16)

    def step() -> None:
        for _ in range(2):
            two(one(inputs)).square().mean().backward()
        torch.nn.utils.clip_grad_norm_(one.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()

    found = trace_steps(tmp_path, {"One": one, "Two": two}, step)
    assert [(node.root, node.layer) for node in found.nodes] == [("One", ""), ("Two", "")]
    assert all(node.forward_s > 0 and node.backward_s > 0 for node in found.nodes)
    assert found.parts["script"] > 0
    calls = found.rows.filter(kind="layer", root="Two", phase="forward")["calls"].to_list()
    assert calls == [2] * STEPS


def test_a_schedule_of_torchs_own_with_modules_is_read(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Sequential(torch.nn.Linear(8, 2)))
    step = train(model, torch.randn(4, 8))
    with torch.profiler.profile(
        schedule=torch.profiler.schedule(wait=0, warmup=1, active=2, repeat=1), with_stack=True,
        experimental_config=torch._C._profiler._ExperimentalConfig(verbose=True),
    ) as profiler:  # fmt: skip
        for _ in range(3):
            step()
            profiler.step()
    profiler.export_chrome_trace(str(tmp_path / "trace.json.gz"))
    found = collect_trace(tmp_path / "trace.json.gz")
    assert found.notes == ("steps are ProfilerStep ranges", "layers are nn.Module events")
    assert [(node.class_name, node.depth) for node in found.nodes] == [
        ("Sequential", 0), ("Linear", 1), ("Sequential", 1), ("Linear", 2),
    ]  # fmt: skip
    assert found.nodes[3].backward_s > 0
    assert found.rows["step"].n_unique() == 2
