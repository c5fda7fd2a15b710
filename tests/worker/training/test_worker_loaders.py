"""Native loaders: the same rows in the same order as the cache gives, and a wait that is told."""

import json
from array import array
from pathlib import Path
from typing import Any

import pytest
from framework_runs import run_in
from worker_specs import all_steps, load_events, make_graph, make_spec, parts_of, run_worker

from data_samples import write_folder, write_png
from trainload.workload import assemble_workload
from trainload_worker.protocol.spec import TrainSpec, parse_spec
from trainload_worker.training.feed import Feed, cut_batches, loader_notes

VECTORS = {
    "kind": "synthetic", "form": "vectors", "shape": [12], "rows": 50, "classes": 3,
    "vocabulary": None, "validation_fraction": 0.2,
}  # fmt: skip


def parse(document: dict[str, Any]) -> TrainSpec:
    spec = parse_spec(json.dumps(document))
    assert isinstance(spec, TrainSpec)
    return spec


def test_a_feed_adds_up_what_steps_waited() -> None:
    class Slow:
        def __init__(self) -> None:
            self.epochs: list[list[int]] = []

        def begin_epoch(self, rows: "array[int]") -> None:
            self.epochs.append(rows.tolist())

        def take(self) -> tuple[Any, Any]:
            return "examples", "targets"

    loader = Slow()
    feed = Feed(lambda rows: (rows, None), loader)
    feed.begin_epoch(array("q", [3, 1]))
    assert feed.take(array("q", [3])) == ("examples", "targets") and loader.epochs == [[3, 1]]
    assert 0 < feed.wait_s < 1
    plain = Feed(lambda rows: (rows, None))
    assert plain.take(array("q", [7]))[0].tolist() == [7]
    assert cut_batches(array("q", range(5)), 2) == [[0, 1], [2, 3], [4]]


def test_the_wait_is_told_of_each_epoch(tmp_path: Path) -> None:
    document = make_spec(tmp_path, training={"batch_size": 256}, fake={"input_s": 0.004})
    assert run_worker(document)[0] == 0
    epochs = [e for e in load_events(document) if e["kind"] == "epoch"]
    assert all(0.004 * e["steps"] <= e["input_wait_s"] <= e["end_s"] - e["start_s"] for e in epochs)


def test_notes_say_who_decodes(tmp_path: Path) -> None:
    training = {"loader": "native", "loader_workers": 3}
    spec = parse(make_spec(tmp_path, "tensorflow", training=training))
    (note,) = loader_notes(spec)
    assert note.startswith("training rows come from tf.data with 3 parallel calls")
    assert loader_notes(parse(make_spec(tmp_path, "torch"))) == []


def folder_document(tmp_path: Path, framework: str, **training: Any) -> dict[str, Any]:
    """A training on nested image folders, one file of which is broken."""
    root = tmp_path / "images"
    if not root.exists():
        write_folder(root, per_class=6)
        write_png(root / "dark" / "deep" / "er" / "one.png", 9, 30, (20, 20, 20))
        (root / "dark" / "broken.png").write_bytes(b"no image")
    words = {"data": str(root), "cache": str(tmp_path / "cache"), "image_channels": 3}
    workload = assemble_workload("lenet5", {**words, "batch_size": 4, "epochs": 2})
    folder = tmp_path / f"{framework}-{len(list(tmp_path.iterdir()))}"
    folder.mkdir()
    document = make_spec(folder, framework, **parts_of(workload))
    document["training"].update(training)
    return document


@pytest.mark.framework("torch")
@pytest.mark.parametrize("workers", [0, 2])
def test_torch_s_own_loader_gives_what_the_cache_gives(tmp_path: Path, workers: int) -> None:
    pytest.importorskip("torch", reason="needs torch")
    pytest.importorskip("PIL", reason="needs Pillow")
    from trainload_worker.frameworks.torch.backend import TorchBackend
    from trainload_worker.training.prepare import prepare

    batches: list[list[Any]] = []
    for training in ({}, {"loader": "native", "loader_workers": workers}):
        spec = parse(folder_document(tmp_path, "torch", **training))
        prepared = prepare(spec)
        backend = TorchBackend(spec)
        backend.build(prepared.dataset, prepared.split)
        taken = []
        for epoch in range(2):
            rows = prepared.rows_of(epoch)
            backend.feed.begin_epoch(rows)
            for first in range(0, len(rows), 4):
                examples, targets = backend.feed.take(rows[first : first + 4])
                taken.append((examples.tolist(), targets.tolist()))
        batches.append(taken)
    assert prepared.describe().broken_count == 1 and len(prepared.dataset.files) == 13
    assert batches[0] == batches[1]


@pytest.mark.parametrize("framework", ["tensorflow", "mxnet"])
def test_the_others_own_loaders_train_on_the_same_rows(tmp_path: Path, framework: str) -> None:
    losses = []
    for name, loader in (("a", "cache"), ("b", "native")):
        (tmp_path / name).mkdir()
        status, text, events = run_in(
            framework,
            tmp_path / name,
            graph=make_graph(features=12, classes=3, dropout=0.2),
            data=VECTORS,
            training={"batch_size": 8, "loader": loader},
        )
        assert status == 0, text
        losses.append(all_steps(events)[1])
        assert all(e["input_wait_s"] > 0 for e in events if e["kind"] == "epoch")
    assert losses[0] == losses[1] and len(losses[0]) == 10


@pytest.mark.parametrize("framework", ["tensorflow", "mxnet"])
def test_the_others_decode_files_nearly_as_the_cache_has_them(
    tmp_path: Path, framework: str
) -> None:
    pytest.importorskip("PIL", reason="needs Pillow")
    from trainload_worker.training.prepare import prepare

    prepare(parse(folder_document(tmp_path, framework)))  # fills the cache, which needs Pillow
    losses = []
    for loader in ("cache", "native"):
        document = folder_document(tmp_path, framework, loader=loader)
        folder = Path(document["events_path"]).parent
        kept = {key: document[key] for key in ("graph", "data", "training", "seeds")}
        status, text, events = run_in(framework, folder, **kept)
        assert status == 0, text
        losses.append(all_steps(events)[1])
        notes = next(e for e in events if e["kind"] == "setting")["obtained"]["notes"]
        assert any("pixels differ a little" in note for note in notes) == (loader == "native")
    # Images of one colour come out the same however they are scaled.
    assert losses[0] == pytest.approx(losses[1], abs=1e-3)
