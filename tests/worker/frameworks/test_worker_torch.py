"""Training with torch: it learns, it repeats itself exactly, and its scores are right."""

import json
import math
import os
import subprocess
import sys
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from worker_specs import (
    SOURCE_FOLDER,
    all_steps,
    load_events,
    make_graph,
    make_spec,
    run_worker,
    small_counts,
)

from trainload_worker.errors import FrameworkError, GraphError
from trainload_worker.protocol.spec import parse_spec
from trainload_worker.training.prepare import prepare

torch = pytest.importorskip("torch", reason="needs torch")
pytestmark = pytest.mark.framework("torch")


@pytest.fixture(autouse=True)
def same_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def train_here(tmp_path: Path, steps: int = 12, **changes: Any) -> tuple[list[float], Any]:
    """Losses of some steps in this process, and the backend."""
    from trainload_worker.frameworks.torch.backend import create

    spec = parse_spec(json.dumps(make_spec(tmp_path, "torch", **changes)))
    backend = create(spec)
    backend.open()
    prepared = prepare(spec)
    backend.build(prepared.dataset, prepared.split)
    size = spec.training.batch_size
    rows = prepared.order.draw(0)
    for step in range(steps):
        batch = rows[step * size : (step + 1) * size]
        if batch:
            backend.run_step(batch)
    return backend.collect(drain=True).loss, backend


def test_a_whole_run_learns(tmp_path: Path) -> None:
    document = make_spec(
        tmp_path, "torch", graph=make_graph(units=(64, 64)), training={"epochs": 8}
    )
    # With a hundredth of the frames the accuracy is chance: it falls for every other seed.
    document["data"]["class_counts"] = small_counts(20)
    code, output = run_worker(document)
    assert code == 0, output
    events = load_events(document)
    epochs = [event for event in events if event["kind"] == "epoch"]
    assert epochs[-1]["train_loss"] < 0.7 * epochs[0]["train_loss"]
    assert epochs[-1]["validation"]["accuracy"] > epochs[0]["validation"]["accuracy"]
    assert epochs[-1]["validation"]["top5_accuracy"] > 0.5
    hello, setting = events[0], events[1]["obtained"]
    assert hello["framework_version"].startswith(str(torch.__version__)[:3])
    assert (setting["device"], setting["threads"]) == ("cpu", 1)


def test_the_same_seeds_repeat_every_bit(tmp_path: Path) -> None:
    losses = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        graph = make_graph(units=(32,), dropout=0.3)
        document = make_spec(tmp_path / name, "torch", graph=graph)
        assert run_worker(document)[0] == 0
        losses.append(all_steps(load_events(document))[1])
    assert losses[0] == losses[1]


@pytest.mark.parametrize("seed", ["data_order", "weights", "split", "data"])
def test_each_seed_matters(tmp_path: Path, seed: str) -> None:
    assert train_here(tmp_path)[0] != train_here(tmp_path, seeds={seed: 1})[0]


@pytest.mark.parametrize("name", ["adam", "adamw", "sgd", "rmsprop", "adagrad"])
def test_every_optimizer_lowers_the_loss(tmp_path: Path, name: str) -> None:
    optimizer = {"name": name, "learning_rate": 0.01, "weight_decay": 1e-4, "momentum": 0.9}
    losses, _ = train_here(tmp_path, training={"optimizer": optimizer})
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("kind", ["relu", "leaky_relu", "tanh", "sigmoid", "silu"])
def test_every_activation_trains(tmp_path: Path, kind: str) -> None:
    losses, _ = train_here(tmp_path, graph=make_graph(activation=kind))
    assert all(map(math.isfinite, losses))


def test_bf16_trains_near_float32(tmp_path: Path) -> None:
    exact, _ = train_here(tmp_path)
    rough, _ = train_here(tmp_path, training={"precision": "bf16"})
    assert rough != exact
    assert rough == pytest.approx(exact, rel=0.05)


def test_dropout_acts_in_training_and_not_in_evaluation(tmp_path: Path) -> None:
    plain, _ = train_here(tmp_path)
    dropped, backend = train_here(tmp_path, graph=make_graph(dropout=0.5))
    assert plain != dropped
    assert backend.evaluate() == backend.evaluate()


def test_layers_are_named_as_in_the_graph(tmp_path: Path) -> None:
    _, backend = train_here(tmp_path, steps=0)
    names = [name for name, _ in backend._model.named_parameters()]
    assert names == ["hidden1.linear.weight", "hidden1.linear.bias", "output.weight", "output.bias"]


def test_a_module_equals_its_hand_written_twin(tmp_path: Path) -> None:
    _, backend = train_here(tmp_path, steps=0)
    twin = torch.nn.Sequential(
        torch.nn.Linear(75, 16), torch.nn.LeakyReLU(0.01), torch.nn.Linear(16, 10)
    )
    with torch.no_grad():
        for own, drawn in zip(twin.parameters(), backend._model.parameters(), strict=True):
            own.copy_(drawn)
    rows = torch.randn(5, 75)
    assert torch.equal(backend._model(rows), twin(rows))


def test_the_evaluation_equals_one_by_hand(tmp_path: Path) -> None:
    _, backend = train_here(tmp_path)
    spec = parse_spec(json.dumps(make_spec(tmp_path, "torch")))
    prepared = prepare(spec)
    evaluation = backend.evaluate()
    confusion = [[0] * 10 for _ in range(10)]
    loss_sum, hits = 0.0, 0
    backend._model.eval()
    for row in prepared.split.validation_rows:
        features = prepared.dataset.features[75 * row : 75 * row + 75]
        scores = backend._model(torch.tensor([list(features)]))[0].tolist()
        truth = prepared.dataset.labels[row]
        ranked = sorted(range(10), key=lambda at: -scores[at])
        confusion[truth][ranked[0]] += 1
        hits += truth in ranked[:5]
        loss_sum += math.log(sum(map(math.exp, scores))) - scores[truth]
    assert evaluation.confusion == confusion
    assert evaluation.top5_hits == hits
    assert evaluation.loss_sum == pytest.approx(loss_sum, rel=1e-4)


def test_a_last_batch_of_one_row_trains(tmp_path: Path) -> None:
    _, backend = train_here(tmp_path, steps=1)
    backend.run_step(array("q", [3]))
    assert math.isfinite(backend.collect(drain=True).loss[0])


def test_a_batch_larger_than_the_data_is_one_step(tmp_path: Path) -> None:
    document = make_spec(tmp_path, "torch", training={"batch_size": 100_000})
    assert run_worker(document)[0] == 0
    assert len(all_steps(load_events(document))[0]) == 2


def test_a_table_of_two_classes_trains(tmp_path: Path) -> None:
    lines = ["x,y,label"]
    lines += [f"{n % 7},{n % 5},{'a' if n % 7 > 3 else 'b'}" for n in range(200)]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    data = {
        "kind": "csv",
        "path": str(path),
        "label_column": "label",
        "group_column": None,
        "feature_columns": ["x", "y"],
        "classes": ["a", "b"],
        "validation_fraction": 0.2,
    }
    graph = make_graph(features=2, classes=2)
    optimizer = {"name": "adam", "learning_rate": 0.02}
    training = {"epochs": 20, "batch_size": 16, "optimizer": optimizer}
    document = make_spec(tmp_path, "torch", data=data, graph=graph, training=training)
    code, output = run_worker(document)
    assert code == 0, output
    last = [event for event in load_events(document) if event["kind"] == "epoch"][-1]
    assert last["validation"]["accuracy"] > 0.9
    assert last["validation"]["top5_accuracy"] is None


def test_memory_that_torch_cannot_have_is_an_outcome(tmp_path: Path) -> None:
    document = make_spec(tmp_path, "torch", graph=make_graph(units=(1 << 42,)))
    code, _ = run_worker(document)
    assert code == 3
    assert load_events(document)[-1]["outcome"] == "out_of_memory"


def test_an_accelerator_that_is_not_there_is_never_replaced(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has an accelerator")
    setting = {"cores": None, "threads": 1, "accelerators": ["GPU-1"]}
    with pytest.raises(FrameworkError, match="finds no CUDA device"):
        train_here(tmp_path, setting=setting)


def test_an_unknown_layer_kind_is_named(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=r"hidden1\.activation is of kind 'swish'"):
        train_here(tmp_path, graph=make_graph(activation="swish"))


@pytest.mark.parametrize("name", ["hidden1", "hidden1.linear", "forward"])
def test_a_layer_name_that_is_taken_is_refused(tmp_path: Path, name: str) -> None:
    graph = make_graph()
    graph["layers"][-1]["name"] = graph["output"] = name
    if name == "hidden1.linear":
        graph["layers"][2]["name"] = name
        graph["layers"][-1]["inputs"] = ["hidden1.linear"]
        graph["layers"][-1]["name"] = graph["output"] = "output"
        graph["layers"][2]["output_shape"] = [16]
    with pytest.raises(GraphError, match=f"layer {name} cannot be named so"):
        train_here(tmp_path, graph=graph)


def test_torch_works_without_numpy(tmp_path: Path) -> None:
    (tmp_path / "numpy.py").write_text("raise ModuleNotFoundError('no numpy here')\n")
    document = make_spec(tmp_path, "torch", training={"epochs": 1})
    document["data"]["class_counts"] = small_counts(200)
    result = subprocess.run(
        [sys.executable, "-m", "trainload_worker"],
        input=json.dumps(document).encode(),
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{SOURCE_FOLDER}"},
        capture_output=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.gpu
def test_cuda_steps_are_timed_in_order_without_waiting(tmp_path: Path) -> None:
    if not torch.cuda.is_available():
        pytest.skip("this machine has no NVIDIA GPU")
    setting = {"cores": None, "threads": 1, "accelerators": ["0"]}
    graph = make_graph(units=(512, 512, 512))
    document = make_spec(tmp_path, "torch", setting=setting, graph=graph, training={"epochs": 30})
    code, output = run_worker(document)
    assert code == 0, output
    events = load_events(document)
    ends, losses = all_steps(events)
    data = next(event for event in events if event["kind"] == "data")
    assert len(ends) == data["total_steps"]
    assert ends == sorted(ends)
    assert all(loss is not None for loss in losses)
    for epoch in (event for event in events if event["kind"] == "epoch"):
        assert epoch["start_s"] < epoch["end_s"] <= epoch["validation_start_s"] + 1e-4


def test_without_numpy_torch_draws_the_weights_itself_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trainload_worker.frameworks.torch.backend import create
    from trainload_worker.frameworks.torch.graph import GraphModule
    from trainload_worker.frameworks.torch.weights import load_initial_weights

    drawn, _ = train_here(tmp_path)
    monkeypatch.setitem(sys.modules, "numpy", None)
    own, _ = train_here(tmp_path)
    assert own != drawn and all(map(math.isfinite, own))
    spec = parse_spec(json.dumps(make_spec(tmp_path, "torch")))
    assert any("without numpy" in note for note in create(spec).open().notes)
    module = GraphModule(spec.graph)
    load_initial_weights(module, spec.graph, 0)
    for layer in spec.graph.layers:
        if layer.kind == "linear":
            linear = module.get_submodule(layer.name)
            bound = math.sqrt(6 / linear.in_features)
            assert 0.9 * bound < linear.weight.abs().max().item() <= bound
            assert not linear.bias.any()


def test_fp16_scales_the_loss_and_skips_a_step_that_overflows() -> None:
    from trainload_worker.frameworks.torch.backend import step_scaled

    plain, scaled = (torch.nn.Linear(4, 1, bias=False) for _ in range(2))
    scaled.load_state_dict(plain.state_dict())
    rows = torch.ones(2, 4)
    rule = torch.optim.SGD(plain.parameters(), lr=0.1)
    plain(rows).sum().backward()
    rule.step()
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    own = torch.optim.SGD(scaled.parameters(), lr=0.1)
    seen = []
    step_scaled(
        scaler, scaled(rows).sum(), own, lambda: seen.append(scaled.weight.grad.max().item())
    )
    assert seen == [16.0], "eight times the gradient"
    assert torch.equal(plain.weight, scaled.weight)
    before = scaled.weight.detach().clone()
    own.zero_grad()
    step_scaled(scaler, scaled(rows).sum() * float("inf"), own)
    assert torch.equal(before, scaled.weight) and scaler.get_scale() == 4.0


def test_fp16_is_for_gpus(tmp_path: Path) -> None:
    from trainload_worker.frameworks.torch.backend import TorchBackend

    spec = parse_spec(json.dumps(make_spec(tmp_path, "torch", training={"precision": "fp16"})))
    with pytest.raises(FrameworkError, match="fp16 with its gradient scaler is for GPUs"):
        TorchBackend(spec).open()
