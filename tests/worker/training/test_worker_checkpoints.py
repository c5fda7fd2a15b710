"""Checkpoints: the file's form, and trainings that go on from one as if they had never stopped."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from framework_runs import OTHERS, chain, interpreter, run_in
from worker_specs import all_steps, graph_document, load_events, make_graph, make_spec, run_worker

from trainload_worker.errors import CheckpointError
from trainload_worker.process.events import EventWriter
from trainload_worker.process.signals import StopRequest
from trainload_worker.protocol.spec import TrainSpec, parse_spec
from trainload_worker.training.checkpoint import Checkpoints, open_resumed
from trainload_worker.training.loop import Course
from trainload_worker.training.loop import train as train_loop
from trainload_worker.training.prepare import prepare
from trainload_worker.training.safetensors_file import Tensor, load_tensors, save_tensors
from trainload_worker.training.state import Position

VECTORS = {
    "kind": "synthetic", "form": "vectors", "shape": [12], "rows": 50, "classes": 3,
    "vocabulary": None, "validation_fraction": 0.2,
}  # fmt: skip
IMAGES = {**VECTORS, "form": "images", "shape": [3, 8, 8]}


def small_cnn() -> dict[str, Any]:
    kernel = {"kernel": [3, 3], "stride": [1, 1], "padding": [1, 1], "dilation": [1, 1]}
    graph = chain(
        (3, 8, 8),
        ("conv2d", {"channels": 4, "groups": 1, "bias": True, **kernel}),
        ("batch_norm", {"eps": 1e-5, "momentum": 0.1}),
        ("relu", {}),
        ("flatten", {}),
        ("linear", {"units": 3, "bias": True}),
    )
    return graph_document(graph)


def save_to(path: Path, every: int | None = None) -> dict[str, Any]:
    form = str(path.parent / "after-{epoch}.safetensors")
    return {"path": str(path), "every": every, "epoch_form": form, "metadata": {"graph": "small"}}


def optimizer(name: str) -> dict[str, Any]:
    return {"name": name, "learning_rate": 0.01, "weight_decay": 1e-3, "momentum": 0.9}


def test_a_file_is_written_as_the_form_says(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    values = struct.pack("<6f", 1, 2, 3, 4, 5, 6)
    tensors = {"w": Tensor((2, 3), values), "none": Tensor((0,), b""), "s": Tensor((), values[:4])}
    size = save_tensors(str(path), tensors, {"format": "x"})
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    assert (
        size == len(content)
        and length % 8 == 0
        and [p.name for p in tmp_path.iterdir()] == [path.name]
    )
    assert header["w"] == {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}
    assert header["s"]["data_offsets"] == [24, 28] and header["__metadata__"] == {"format": "x"}
    found, metadata = load_tensors(str(path))
    assert bytes(found["w"].data) == values and metadata == {"format": "x"}


def test_the_safetensors_package_reads_the_file(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors", reason="needs the safetensors package")
    path = str(tmp_path / "a.safetensors")
    save_tensors(path, {"w": Tensor((2, 3), struct.pack("<6f", 1, 2, 3, 4, 5, 6))}, {"a": "b"})
    with safetensors.safe_open(path, "numpy") as file:
        assert file.get_tensor("w").tolist() == [[1, 2, 3], [4, 5, 6]]
        assert file.metadata() == {"a": "b"}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"short",
        struct.pack("<Q", 10**12) + b"{}",
        struct.pack("<Q", 4) + b"nope",
        struct.pack("<Q", 8) + b"[]      ",
        struct.pack("<Q", 54) + b'{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}0000',
        struct.pack("<Q", 54) + b'{"w":{"dtype":"F99","shape":[1],"data_offsets":[0,4]}}0000',
    ],
)
def test_what_is_no_checkpoint_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=str(path)):
        load_tensors(str(path))


def test_a_file_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    place = tmp_path / "gone" / "a.safetensors"
    with pytest.raises(CheckpointError, match=r"cannot write .*No such file"):
        save_tensors(str(place), {"w": Tensor((1,), b"0000")}, {})
    (tmp_path / "taken").mkdir()
    with pytest.raises(CheckpointError, match="cannot write"):
        save_tensors(str(tmp_path / "taken"), {"w": Tensor((1,), b"0000")}, {})
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_a_run_saves_between_epochs_and_at_its_end(tmp_path: Path) -> None:
    path = tmp_path / "end.safetensors"
    document = make_spec(tmp_path, training={"epochs": 5}, save=save_to(path, every=2))
    assert run_worker(document)[0] == 0
    saved = [e for e in load_events(document) if e["kind"] == "checkpoint"]
    assert [(e["file"], e["epoch"]) for e in saved] == [
        ("after-2.safetensors", 2),
        ("after-4.safetensors", 4),
        ("end.safetensors", 5),
    ]
    assert saved[-1]["bytes"] == path.stat().st_size and saved[-1]["cost_s"] >= 0
    metadata = load_tensors(str(path))[1]
    assert (metadata["epoch"], metadata["framework"], metadata["graph"]) == ("5", "fake", "small")


def test_a_save_that_fails_between_epochs_does_not_stop_the_training(tmp_path: Path) -> None:
    save = save_to(tmp_path / "end.safetensors", every=1)
    save["epoch_form"] = str(tmp_path / "gone" / "{epoch}")
    document = make_spec(tmp_path, save=save)
    assert run_worker(document)[0] == 0
    states = [e["state"] for e in load_events(document) if e["kind"] == "checkpoint"]
    assert states == ["failed", "saved"]
    save["path"] = str(tmp_path / "gone" / "end")
    document = make_spec(tmp_path, save=save)
    Path(document["events_path"]).unlink()
    assert run_worker(document)[0] == 1
    assert load_events(document)[-1]["reason"].startswith("cannot write")


def test_an_epoch_cut_short_goes_on_where_it_was_cut(tmp_path: Path) -> None:
    path = tmp_path / "end.safetensors"
    document = make_spec(tmp_path, training={"max_steps": 5, "epochs": 2}, save=save_to(path))
    assert run_worker(document)[0] == 0
    per_epoch = next(e for e in load_events(document) if e["kind"] == "data")["steps_per_epoch"]
    assert load_tensors(str(path))[1]["rows_into_epoch"] == str(5 * 64)
    Path(document["events_path"]).unlink()
    document = make_spec(tmp_path, training={"epochs": 2}, resume={"path": str(path)})
    assert run_worker(document)[0] == 0
    events = load_events(document)
    assert [e["steps"] for e in events if e["kind"] == "epoch"] == [per_epoch - 5, per_epoch]
    assert next(e for e in events if e["kind"] == "data")["total_steps"] == 2 * per_epoch - 5


def test_another_optimizer_begins_anew_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "end.safetensors"
    assert run_worker(make_spec(tmp_path, save=save_to(path)))[0] == 0
    (tmp_path / "b").mkdir()
    changes = {"epochs": 3, "optimizer": optimizer("sgd")}
    document = make_spec(tmp_path / "b", training=changes, resume={"path": str(path)})
    assert run_worker(document)[0] == 0
    setting = next(e for e in load_events(document) if e["kind"] == "setting")
    assert any("the checkpoint is adam's" in note for note in setting["obtained"]["notes"])


def test_scoring_a_checkpoint_trains_nothing(tmp_path: Path) -> None:
    path = tmp_path / "end.safetensors"
    assert run_worker(make_spec(tmp_path, save=save_to(path)))[0] == 0
    (tmp_path / "b").mkdir()
    document = make_spec(tmp_path / "b", resume={"path": str(path)}, validate_only=True)
    assert run_worker(document)[0] == 0
    events = load_events(document)
    assert "steps" not in {e["kind"] for e in events}
    (epoch,) = [e for e in events if e["kind"] == "epoch"]
    assert (epoch["epoch"], epoch["steps"], epoch["train_loss"]) == (1, 0, None)
    assert epoch["validation"]["accuracy"] is not None


@pytest.mark.parametrize(
    ("when", "scored"), [("epoch", [1, 1, 1]), ("end", [0, 0, 1]), ("never", [0, 0, 0])]
)
def test_validation_comes_when_it_is_asked_for(
    tmp_path: Path, when: str, scored: list[int]
) -> None:
    document = make_spec(tmp_path, training={"epochs": 3, "validate": when})
    assert run_worker(document)[0] == 0
    epochs = [e for e in load_events(document) if e["kind"] == "epoch"]
    assert [int(bool(e["validation"])) for e in epochs] == scored
    assert [int(e["validation_end_s"] is not None) for e in epochs] == scored


def train(framework: str, folder: Path, **changes: Any) -> tuple[list[float], dict[str, Any]]:
    """Losses of a training, and its last epoch; torch's in this process, which has it already."""
    folder.mkdir()
    if framework == "torch":
        events = train_here(make_spec(folder, framework, **changes))
    else:
        status, text, events = run_in(framework, folder, **changes)
        assert status == 0, text
    losses = [loss for loss in all_steps(events)[1] if loss is not None]
    return losses, [e for e in events if e["kind"] == "epoch"][-1]


def train_here(document: dict[str, Any]) -> list[dict[str, Any]]:
    from trainload_worker.frameworks.torch.backend import TorchBackend

    spec = parse_spec(json.dumps(document))
    assert isinstance(spec, TrainSpec)
    resumed, _ = open_resumed(spec)
    prepared = prepare(spec, Position() if resumed is None else resumed.position)
    backend, events = TorchBackend(spec), EventWriter(spec.events_path)
    backend.open()
    backend.build(prepared.dataset, prepared.split)
    if resumed is not None:
        resumed.load_into(backend.state, spec.training.optimizer.name)
    checkpoints = Checkpoints(spec, backend.state, events)
    course = Course(backend.state, backend.feed, checkpoints)
    train_loop(spec, backend, prepared, events, StopRequest(), course)
    events.close()
    return load_events(document)


def compare_continued(framework: str, folder: Path, tolerance: float, **changes: Any) -> None:
    """Four epochs at once, saved on the way, against the last two from what was saved."""
    training = {"batch_size": 8, "epochs": 4, **changes.pop("training", {})}
    save = save_to(folder / "end.safetensors", every=2)
    whole, end = train(framework, folder / "whole", training=training, save=save, **changes)
    resume = {"path": str(folder / "after-2.safetensors")}
    rest, continued = train(framework, folder / "rest", training=training, resume=resume, **changes)
    assert continued["epoch"] == 3 and len(rest) == len(whole) // 2
    assert rest == pytest.approx(whole[len(rest) :], rel=tolerance, abs=tolerance)
    assert continued["validation"]["loss"] == pytest.approx(end["validation"]["loss"], abs=1e-6)


@pytest.mark.framework("torch")
def test_torch_goes_on_bit_for_bit_with_dropout_too(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs torch")
    graph = make_graph(features=12, classes=3, dropout=0.3)
    compare_continued("torch", tmp_path, 0.0, graph=graph, data=VECTORS)


@pytest.mark.framework("torch")
@pytest.mark.parametrize("name", ["sgd", "adam", "adamw", "rmsprop", "adagrad"])
def test_the_state_of_torch_is_read_and_set_whole(tmp_path: Path, name: str) -> None:
    """In one process: a state that is saved, loaded into a fresh model and saved is the same."""
    pytest.importorskip("torch", reason="needs torch")
    from trainload_worker.frameworks.torch.backend import TorchBackend

    changes = {"batch_size": 8, "optimizer": optimizer(name)}
    document = make_spec(tmp_path, "torch", graph=small_cnn(), data=IMAGES, training=changes)
    spec = parse_spec(json.dumps(document))
    assert isinstance(spec, TrainSpec)
    prepared = prepare(spec)
    backends = [TorchBackend(spec) for _ in range(2)]
    for backend in backends:
        backend.build(prepared.dataset, prepared.split)
    rows = prepared.rows_of(0)
    for first in range(0, 24, 8):
        backends[0].run_step(rows[first : first + 8])
    path = str(tmp_path / "a.safetensors")
    save_tensors(path, backends[0].state.read(), {})
    saved = load_tensors(path)[0]
    backends[1].state.load(saved, 3)
    again = backends[1].state.read()
    assert list(again) == list(saved) and "block1.batch_norm.running_var" in saved
    assert all(bytes(again[key].data) == bytes(saved[key].data) for key in saved)
    for backend in backends:
        backend.run_step(rows[24:32])
    ends = [backend.state.read() for backend in backends]
    assert all(bytes(ends[0][key].data) == bytes(ends[1][key].data) for key in saved)


def test_a_checkpoint_that_does_not_fit_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "end.safetensors"
    assert run_worker(make_spec(tmp_path, save=save_to(path)))[0] == 0
    (tmp_path / "b").mkdir()
    graph = make_graph(units=(8,))
    document = make_spec(tmp_path / "b", graph=graph, resume={"path": str(path)})
    assert run_worker(document)[0] == 1
    reason = load_events(document)[-1]["reason"]
    assert "hidden1.linear.weight is F32 of shape [16, 75], the model's of shape [8, 75]" in reason


@pytest.mark.parametrize("framework", OTHERS)
def test_other_frameworks_go_on_as_if_they_had_never_stopped(
    tmp_path: Path, framework: str
) -> None:
    training = {"optimizer": optimizer("adam" if framework != "mxnet" else "sgd")}
    compare_continued(framework, tmp_path, 1e-6, graph=small_cnn(), data=IMAGES, training=training)


@pytest.mark.framework("torch")
@pytest.mark.parametrize("other", OTHERS)
def test_what_torch_saved_goes_on_in_another_framework(tmp_path: Path, other: str) -> None:
    pytest.importorskip("torch", reason="needs torch")
    interpreter(other)
    path = tmp_path / "half.safetensors"
    training = {"batch_size": 8, "optimizer": {**optimizer("adam"), "learning_rate": 1e-3}}
    same: dict[str, Any] = {"graph": small_cnn(), "data": IMAGES}
    three, one = {**training, "epochs": 3}, {**training, "epochs": 1}
    whole, _ = train("torch", tmp_path / "w", training=three, **same)
    first, _ = train("torch", tmp_path / "a", training=one, save=save_to(path), **same)
    rest, _ = train(other, tmp_path / "b", training=three, resume={"path": str(path)}, **same)
    assert rest == pytest.approx(whole[len(first) :], abs=1e-3)
