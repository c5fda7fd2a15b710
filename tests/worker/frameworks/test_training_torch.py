"""Short trainings of the zoo in torch on every kind of data: the loss falls."""

import json
import struct
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from worker_specs import all_steps, load_events, make_spec, parts_of, run_worker

from data_samples import write_cifar10, write_folder, write_mnist, write_npy
from trainload.workload import assemble_workload
from trainload_worker.process.events import EventWriter
from trainload_worker.process.signals import StopRequest
from trainload_worker.protocol.spec import TrainSpec, parse_spec
from trainload_worker.training.checkpoint import Checkpoints
from trainload_worker.training.loop import Course, train
from trainload_worker.training.prepare import prepare

torch = pytest.importorskip("torch", reason="needs torch")
pytestmark = pytest.mark.framework("torch")

IMAGES = {"classes": 3, "rows": 60, "batch_size": 8, "learning_rate": 0.003}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    # Threads that share two cores with other work wait for each other longer than they compute.
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def make_document(folder: Path, model: str, words: dict[str, Any]) -> dict[str, Any]:
    options = {"cache": str(folder / "cache"), **words}
    return make_spec(folder, "torch", **parts_of(assemble_workload(model, options)))


def train_here(folder: Path, model: str, **words: Any) -> list[dict[str, Any]]:
    """Events of a training in this process, which spares importing torch for each."""
    from trainload_worker.frameworks.torch.backend import TorchBackend

    document = make_document(folder, model, words)
    Path(document["events_path"]).unlink(missing_ok=True)
    spec = parse_spec(json.dumps(document))
    assert isinstance(spec, TrainSpec)
    backend = TorchBackend(spec)
    prepared = prepare(spec)
    backend.build(prepared.dataset, prepared.split)
    events = EventWriter(spec.events_path)
    events.write(prepared.describe())
    course = Course(backend.state, backend.feed, Checkpoints(spec, backend.state, events))
    train(spec, backend, prepared, events, StopRequest(), course)
    events.close()
    return load_events(document)


def assert_falls(events: list[dict[str, Any]], by: float = 0.9) -> None:
    losses = [loss for loss in all_steps(events)[1] if loss is not None]
    few = max(1, len(losses) // 5)
    assert sum(losses[-few:]) < by * sum(losses[:few]), losses


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("lenet5", {**IMAGES, "epochs": 4}),
        (
            "googlenet",
            {**IMAGES, "image_height": 33, "image_width": 33, "learning_rate": 3e-4, "epochs": 3},
        ),
        ("resnet18", {**IMAGES, "image_height": 32, "image_width": 32, "learning_rate": 3e-4}),
        ("densenet121", {**IMAGES, "rows": 40, "image_height": 32, "image_width": 32}),
        ("conv_bottleneck", {**IMAGES, "image_height": 12, "image_width": 12}),
        ("recurrent", {"rows": 200, "steps": 6, "learning_rate": 0.01, "epochs": 3}),
        ("fully_connected", {"data": "synthetic", "rows": 600, "learning_rate": 0.01}),
        (
            "transformer_encoder",
            {"vocabulary": 60, "steps": 9, "layers": 1, "rows": 300, "learning_rate": 3e-3},
        ),
    ],
)
def test_the_loss_falls_on_synthetic_data(tmp_path: Path, model: str, words: Any) -> None:
    by = 0.97 if model == "fully_connected" else 0.9
    assert_falls(train_here(tmp_path, model, **{"epochs": 2, **words}), by)


def test_a_language_model_learns_the_next_token(tmp_path: Path) -> None:
    events = train_here(
        tmp_path,
        "lstm_lm",
        vocabulary=1200,
        steps=10,
        hidden=32,
        rows=200,
        learning_rate=0.02,
        epochs=2,
    )
    assert_falls(events)
    scores = next(e for e in reversed(events) if e["kind"] == "epoch")["validation"]
    assert scores["f1_macro"] is None and 0 < scores["accuracy"] < scores["top5_accuracy"] < 1
    data = next(e for e in events if e["kind"] == "data")
    assert data["class_count"] == 1200 and data["classes"] is None and data["form"] == "int64"


def test_few_tokens_keep_their_confusion_matrix(tmp_path: Path) -> None:
    events = train_here(
        tmp_path, "lstm_lm", vocabulary=20, steps=6, hidden=16, rows=60, epochs=1, precision="bf16"
    )
    scores = next(e for e in events if e["kind"] == "epoch")["validation"]
    assert scores["f1_macro"] is not None


def test_images_on_disk_are_trained_on(tmp_path: Path) -> None:
    pytest.importorskip("PIL", reason="needs Pillow")
    sets = {
        "lenet5": write_mnist(tmp_path / "mnist"),
        "conv_residual": write_cifar10(tmp_path / "cifar", 20),
        "conv_bottleneck": write_folder(tmp_path / "folder", 20),
    }
    for model, path in sets.items():
        (tmp_path / model).mkdir()
        words = {"data": str(path), "epochs": 6, "batch_size": 8, "learning_rate": 0.003}
        events = train_here(tmp_path / model, model, **words)
        data = next(e for e in events if e["kind"] == "data")
        assert data["normalisation"] == "(value - 128) / 64"
        assert data["cache"]["layout"] == "NCHW" and data["broken"] == []
        assert_falls(events)


def test_arrays_on_disk_are_trained_on(tmp_path: Path) -> None:
    rows = 64
    values = array("f", [float(row % 2 == at % 2) for row in range(rows) for at in range(6)])
    labels = [row % 2 for row in range(rows)]
    path = write_npy(tmp_path / "npy", "<f4", (rows, 6), values.tobytes(), labels)
    words = {"data": str(path), "epochs": 10, "batch_size": 8, "learning_rate": 0.01}
    assert_falls(train_here(tmp_path, "mlp", hidden_units=8, **words))
    tokens = struct.pack("<121i", *(n % 5 for n in range(121)))
    stream = write_npy(tmp_path / "stream", "<i4", (121,), tokens, None)
    words = {**words, "data": str(stream), "steps": 4, "hidden": 16, "dropout": 0}
    assert_falls(train_here(tmp_path, "lstm_lm", **words))


def test_pixels_reach_the_model_normalised(tmp_path: Path) -> None:
    from trainload_worker.frameworks.torch.backend import TorchBackend

    words = {"classes": 2, "rows": 10, "image_height": 16, "image_width": 16}
    spec = parse_spec(json.dumps(make_document(tmp_path, "lenet5", words)))
    assert isinstance(spec, TrainSpec)
    prepared, backend = prepare(spec), TorchBackend(spec)
    backend.build(prepared.dataset, prepared.split)
    seen: list[Any] = []
    backend._model.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    backend.run_step(array("q", [3, 7]))
    expected = [(v - 128) / 64 for v in bytes(prepared.dataset.features[3 * 256 : 4 * 256])]
    assert seen[0].dtype is torch.float32 and seen[0].shape == (2, 1, 16, 16)
    assert seen[0][0].flatten().tolist() == expected


def test_a_worker_of_its_own_trains_from_a_folder_with_broken_files(tmp_path: Path) -> None:
    pytest.importorskip("PIL", reason="needs Pillow")
    root = write_folder(tmp_path / "folder", 6)
    (root / "dark" / "0.png").write_bytes(b"\x89PNG\r\n\x1a\nno more")
    document = make_document(tmp_path, "lenet5", {"data": str(root), "batch_size": 4, "epochs": 1})
    status, output = run_worker(document)
    assert status == 0, output
    data = next(event for event in load_events(document) if event["kind"] == "data")
    assert data["broken_count"] == 1 and data["broken"][0]["file"].endswith("0.png")
    assert data["train_rows"] + data["validation_rows"] == 11
