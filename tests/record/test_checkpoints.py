"""Checkpoints as the driver meets them: found, checked against the graph, refused in one line."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from trainload.errors import RecordError
from trainload.record import checkpoints
from trainload.record.checkpoints import (
    FORMAT,
    check_fits,
    checkpoint_metadata,
    find_checkpoint,
    load_checkpoint,
)
from trainload.record.parts import CheckpointOrigin
from trainload.workload import LayerGraph, build_model, parse_options
from trainload_worker.training import checkpoint as worker_checkpoint


def graph_of(**words: str) -> LayerGraph:
    return build_model("mlp", parse_options("mlp", {"inputs": "4", "hidden_units": "3", **words}))


def write_checkpoint(
    path: Path, graph: LayerGraph, missing: int = 0, **metadata: str
) -> dict[str, Any]:
    """A checkpoint of zeros, written by hand; its last `missing` bytes are not there."""
    header: dict[str, Any] = {
        "__metadata__": {
            **checkpoint_metadata(graph, "run-1", {"weights": 7}),
            "epoch": "2", "step": "10", "framework": "torch", **metadata,
        }
    }  # fmt: skip
    offset = 0
    for layer in graph.layers:
        for name, shape in layer.parameter_shapes.items():
            size = 4
            for length in shape:
                size *= length
            header[f"{layer.name}.{name}"] = {
                "dtype": "F32", "shape": list(shape), "data_offsets": [offset, offset + size],
            }  # fmt: skip
            offset += size
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(offset - missing))
    return header


def test_a_sound_checkpoint_says_what_it_is(tmp_path: Path) -> None:
    graph = graph_of()
    header = write_checkpoint(tmp_path / "a.safetensors", graph)
    found = load_checkpoint(tmp_path / "a.safetensors")
    assert (found.run_id, found.framework, found.graph) == ("run-1", "torch", graph.name)
    assert (found.epoch, found.step, found.run_dir) == (2, 10, None)
    assert header["__metadata__"]["seed_weights"] == "7"
    check_fits(found, graph)
    assert found.origin == CheckpointOrigin(
        run_id="run-1",
        path=str((tmp_path / "a.safetensors").resolve()),
        framework="torch",
        epoch=2,
        step=10,
    )


def test_both_halves_write_the_same_format() -> None:
    assert FORMAT == worker_checkpoint.FORMAT


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"missing": 4}, "is cut short: "),
        ({"missing": -4}, "is damaged: "),
        ({"format": "pt"}, "is no checkpoint of this trainload: its format is 'pt'"),
        ({"epoch": "two"}, "is damaged: its epoch is 'two', no count"),
    ],
)
def test_a_file_that_is_wrong_is_one_line(tmp_path: Path, change: Any, words: str) -> None:
    path = tmp_path / "a.safetensors"
    write_checkpoint(path, graph_of(), **change)
    with pytest.raises(RecordError) as error:
        load_checkpoint(path)
    assert words in str(error.value) and str(path) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"abc",
        b"PK\x03\x04 a zip file",
        struct.pack("<Q", 2) + b"[]",
        struct.pack("<Q", 2) + b"{x",
    ],
)
def test_a_foreign_file_is_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(content)
    with pytest.raises(RecordError, match="no safetensors file"):
        load_checkpoint(path)


def test_another_graph_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    write_checkpoint(path, graph_of())
    found = load_checkpoint(path)
    with pytest.raises(RecordError, match=r"of shape \[5, 4\] has shape \[3, 4\] in it"):
        check_fits(found, graph_of(hidden_units="5"))
    with pytest.raises(RecordError, match="differ in an attribute"):
        check_fits(found, graph_of(dropout="0.7"))


def test_the_last_checkpoint_of_a_run_is_found(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="no such run or checkpoint"):
        find_checkpoint(tmp_path / "nowhere")
    with pytest.raises(RecordError, match="is no run directory"):
        find_checkpoint(tmp_path)
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(RecordError, match="holds no checkpoint; a run leaves one with --save"):
        find_checkpoint(tmp_path)
    for epoch in (2, 10):
        (tmp_path / f"checkpoint-{epoch}.safetensors").write_bytes(b"")
    assert find_checkpoint(tmp_path).name == "checkpoint-10.safetensors"
    (tmp_path / "checkpoint.safetensors").write_bytes(b"")
    assert find_checkpoint(tmp_path).name == "checkpoint.safetensors"
    assert checkpoints.CHECKPOINT == "checkpoint.safetensors"
