"""A built-in model trained by two processes against one process with the whole batch."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from worker_specs import all_steps, load_events, make_spec, parts_of, run_worker

from trainload.workload import assemble_workload
from trainload_worker.errors import SpecError
from trainload_worker.frameworks.create import create_backend
from trainload_worker.process.events import EventWriter
from trainload_worker.process.ranks import rank_spec, share_setting
from trainload_worker.process.signals import StopRequest
from trainload_worker.protocol.spec import (
    LaunchSpec,
    RankSpec,
    SettingSpec,
    TrainSpec,
    dump_spec,
    parse_spec,
)
from trainload_worker.training.checkpoint import Checkpoints
from trainload_worker.training.loop import Course, train
from trainload_worker.training.prepare import prepare
from trainload_worker.training.ranks import count_visited, dropout_seed, rank_notes

torch = pytest.importorskip("torch", reason="needs torch")
pytestmark = pytest.mark.framework("torch")

IMAGES = {"classes": 3, "rows": 61, "batch_size": 23, "learning_rate": 0.003, "epochs": 2}
SIDES = {"image_height": 8, "image_width": 8}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def make_document(folder: Path, model: str, **words: Any) -> dict[str, Any]:
    return make_spec(folder, "torch", **parts_of(assemble_workload(model, words)))


def read_spec(document: dict[str, Any], rank: int | None = None, count: int = 2) -> TrainSpec:
    place = None if rank is None else {"number": rank, "count": count}
    spec = parse_spec(json.dumps({**document, "rank": place}))
    assert isinstance(spec, TrainSpec)
    return spec


def make_launch(document: dict[str, Any], count: int = 2) -> dict[str, Any]:
    """The same training by so many ranks."""
    folder = Path(document["events_path"]).parent
    names = ["events.jsonl", *(f"events-r{rank}.jsonl" for rank in range(1, count))]
    return {
        "format": 2,
        "task": "launch",
        "events_path": document["events_path"],
        "command": [sys.executable, "-m", "trainload_worker"],
        "ranks": [{"events_path": str(folder / n), "window_form": "w-{index}"} for n in names],
        "setting": document["setting"],
        "work": document,
        "parent_pid": os.getpid(),
    }


def train_alone(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Events of one process, which is this one: importing torch is spared."""
    from trainload_worker.frameworks.torch.backend import TorchBackend

    spec = read_spec(document)
    backend, prepared, events = TorchBackend(spec), prepare(spec), EventWriter(spec.events_path)
    backend.build(prepared.dataset, prepared.split)
    course = Course(backend.state, backend.feed, Checkpoints(spec, backend.state, events))
    train(spec, backend, prepared, events, StopRequest(), course)
    events.close()
    return load_events(document)


def train_together(document: dict[str, Any], count: int = 2) -> list[list[dict[str, Any]]]:
    """Events of each rank."""
    launch = make_launch(document, count)
    status, output = run_worker(launch)
    assert status == 0, output.decode()
    return [load_events(rank) for rank in launch["ranks"]]


def scores(events: list[dict[str, Any]]) -> list[float]:
    """Losses and scores of all epochs in a row."""
    found = []
    for epoch in (event for event in events if event["kind"] == "epoch"):
        kept = {**epoch["validation"], **epoch["validation"].get("top_n", {})}
        found += [epoch["train_loss"], *(v for v in kept.values() if isinstance(v, float))]
    return found


def test_a_cnn_has_the_losses_of_one_process(tmp_path: Path) -> None:
    alone, together = tmp_path / "alone", tmp_path / "together"
    alone.mkdir()
    together.mkdir()
    words = {**IMAGES, "top": (1, 2), "batch_size": 8, "learning_rate": 1e-3}
    one = train_alone(make_document(alone, "lenet5", **words))
    # Whoever brings the rows; of the 49 in each epoch the last is a batch that one rank has alone.
    document = make_document(together, "lenet5", **words, loader="native", loader_workers=0)
    ranks = train_together(document)
    expected, steps = scores(one), all_steps(one)[1]
    assert len(expected) == 14 and len(steps) == 14
    for events in ranks:
        assert scores(events) == pytest.approx(expected, rel=1e-5)
        assert all_steps(events)[1] == pytest.approx(steps, rel=1e-5)
    ends = [events[-1]["kind"] for events in ranks]
    assert ends == ["end", "rank_end"]


def test_batch_norm_and_dropout_are_each_rank_s_own(tmp_path: Path) -> None:
    (tmp_path / "bf16").mkdir()
    words = {**IMAGES, **SIDES, "top": (1,), "precision": "bf16"}
    document = make_document(tmp_path / "bf16", "conv_bottleneck", **words)
    save = {"path": str(tmp_path / "end"), "epoch_form": str(tmp_path / "{epoch}"), "every": None}
    first, second = train_together({**document, "save": {**save, "metadata": {}}})
    assert scores(first) == scores(second), "evaluated with the same statistics"
    saved = [[e["state"] for e in rank if e["kind"] == "checkpoint"] for rank in (first, second)]
    assert saved == [["saved"], []], "one of them alone leaves checkpoints"
    notes = [e["obtained"]["notes"] for e in first if e["kind"] == "setting"]
    assert notes == [["batch norm takes its statistics from each process's own 11 rows"]]
    # 49 rows are two batches of 23 and three more: too few for two rows each.
    data = next(event for event in first if event["kind"] == "data")
    assert data["rows_left_out_of_each_epoch"] == 3 and data["steps_per_epoch"] == 2


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["float32", "bf16", "fp16"])
def test_two_gpus_have_the_losses_of_one(tmp_path: Path, precision: str) -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("this machine has no two NVIDIA GPUs")
    found = []
    for count in (1, 2):
        folder = tmp_path / str(count)
        folder.mkdir()
        document = make_document(folder, "lenet5", **IMAGES, precision=precision)
        document["setting"]["accelerators"] = [str(index) for index in range(count)]
        if count == 1:
            status, output = run_worker(document)
            assert status == 0, output.decode()
            found.append(scores(load_events(document)))
        else:
            first, second = train_together(document)
            devices = [e["obtained"]["device"] for e in (*first, *second) if "obtained" in e]
            assert devices == ["cuda:0", "cuda:1"]
            found.append(scores(first))
    assert found[1] == pytest.approx(found[0], rel=1e-3 if precision == "float32" else 0.1)


@pytest.mark.parametrize("count", [2, 3, 8])
@pytest.mark.parametrize("total", [0, 1, 7, 8, 100])
def test_shares_are_a_partition_and_weigh_as_much_as_they_hold(count: int, total: int) -> None:
    from trainload_worker.frameworks.torch.ranks import Ranks

    rows, places = list(range(total)), [RankSpec(rank, count) for rank in range(count)]
    shares = [rows[place.share(total)] for place in places]
    assert [row for share in shares for row in share] == rows
    sizes = [len(share) for share in shares]
    assert max(sizes) - min(sizes) <= 1
    assert sizes == [place.share_count(total) for place in places]
    if not total:
        return
    weights = []
    for place, own in zip(places, shares, strict=True):
        ranks = Ranks.__new__(Ranks)  # without the group, which needs the others
        ranks.place = place
        weights.append(ranks.weight(total))
        assert ranks.share(rows) == (own or rows[:1])
        assert (weights[-1] == 0) == (not own)
    assert sum(weights) == pytest.approx(count), "their plain mean is that of all rows"


def test_ranks_divide_cores_threads_and_accelerators() -> None:
    whole = SettingSpec(cores=(0, 1, 2, 4, 6), threads=5, accelerators=("a", "b"))
    found = [share_setting(whole, RankSpec(rank, 2)) for rank in range(2)]
    assert [part.cores for part in found] == [(0, 1), (2, 4, 6)]
    assert [part.threads for part in found] == [2, 2]
    assert [part.accelerators for part in found] == [("a",), ("b",)]
    unbound = share_setting(SettingSpec(threads=1), RankSpec(1, 2))
    assert unbound == SettingSpec(threads=1)


def test_each_rank_s_specification_is_read_by_a_worker(tmp_path: Path) -> None:
    save = {"path": "end", "epoch_form": "{epoch}", "every": None, "metadata": {}}
    document = {**make_document(tmp_path, "mlp"), "save": save}
    launch = parse_spec(json.dumps(make_launch(document)))
    assert isinstance(launch, LaunchSpec)
    first, second = (parse_spec(dump_spec(rank_spec(launch, rank))) for rank in range(2))
    assert isinstance(first, TrainSpec) and isinstance(second, TrainSpec)
    assert (first.rank, second.rank) == (RankSpec(0, 2), RankSpec(1, 2))
    assert first.save is not None and second.save is None
    assert second.events_path.endswith("events-r1.jsonl")


def test_what_ranks_see_differently_is_told(tmp_path: Path) -> None:
    dropping = make_document(tmp_path, "mlp", dropout=0.5)
    assert rank_notes(read_spec(dropping)) == []
    assert rank_notes(read_spec(dropping, 1)) == [
        "dropout is drawn in each process by a seed of its own"
    ]
    seeds = [dropout_seed(read_spec(dropping, rank, 3)) for rank in (None, 0, 1, 2)]
    assert seeds[0] == seeds[1] == 0 and len(set(seeds)) == 3
    assert rank_notes(read_spec(make_document(tmp_path, "mlp", dropout=0.0), 1)) == []


@pytest.mark.parametrize(
    ("rank", "train_rows", "visited"),
    [(None, 31, 30), (None, 32, 32), (0, 33, 30), (0, 34, 34), (0, 30, 30), (0, 9, 9)],
)
def test_a_last_batch_gives_each_rank_two_rows_for_batch_norm(
    tmp_path: Path, rank: int | None, train_rows: int, visited: int
) -> None:
    normed = make_document(tmp_path, "conv_bottleneck", **{**IMAGES, "batch_size": 10})
    assert count_visited(read_spec(normed, rank), train_rows) == visited
    plain = make_document(tmp_path, "lenet5", **{**IMAGES, "batch_size": 10})
    assert count_visited(read_spec(plain, rank), train_rows) == train_rows


def test_another_framework_says_that_it_trains_alone(tmp_path: Path) -> None:
    document = {**make_document(tmp_path, "mlp"), "framework": "fake"}
    with pytest.raises(SpecError, match="fake trains a built-in model in one process"):
        create_backend(read_spec(document, 1))
