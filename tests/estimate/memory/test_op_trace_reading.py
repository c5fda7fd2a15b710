"""Reading an op trace: typed events, and one clear line for a file that is none."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from trainload.errors import TraceError
from trainload.estimate.memory.op_trace import (
    Allocation,
    Free,
    Mark,
    Operation,
    TraceLayer,
    TraceTensor,
    load_op_trace,
)

HEADER = {
    "kind": "op_trace",
    "format": 1,
    "framework": "torch",
    "version": "2.13.0",
    "target": "cuda",
    "precision": "bf16",
    "optimizer": "adamw",
    "batch_size": 4,
    "iterations": 2,
    "layers": [{"name": "head", "class": "Linear", "parameters": 12}],
}
ROWS: list[Any] = [
    ["a", 0, 48, "weight"],
    ["m", "step begin", 0],
    ["o", "aten.mm.default", "head", "forward", 0, [[[2, 3], "float32", [1, 2], 0]], [], [1, None]],
    ["f", 0],
]


def write(path: Path, *lines: Any) -> Path:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_bytes(gzip.compress("".join(f"{text}\n" for text in texts).encode()))
    return path


def test_events_come_typed_and_in_order(tmp_path: Path) -> None:
    trace = load_op_trace(write(tmp_path / "ops.jsonl.gz", HEADER, *ROWS))
    assert (trace.target, trace.precision, trace.batch_size) == ("cuda", "bf16", 4)
    assert trace.layers == (TraceLayer(name="head", kind="Linear", parameters=12),)
    expected = [
        Allocation(storage=0, size_bytes=48, category="weight"),
        Mark(text="step begin", step=0),
        Operation(
            name="aten.mm.default",
            layer="head",
            phase="forward",
            step=0,
            inputs=(TraceTensor(shape=(2, 3), dtype="float32", strides=(1, 2), storage=0),),
            outputs=(),
            attributes=(1, None),
        ),
        Free(storage=0),
    ]
    assert list(trace.events()) == expected
    assert list(trace.events()) == expected, "it can be read again"


def test_later_fields_are_passed_over(tmp_path: Path) -> None:
    path = write(tmp_path / "ops.jsonl.gz", {**HEADER, "more": 1}, *ROWS)
    assert load_op_trace(path).iterations == 2


@pytest.mark.parametrize(
    ("first", "words"),
    [
        ("", "is no op trace"),
        ("[]", "is no op trace"),
        ({"kind": "run"}, "is no op trace"),
        ({**HEADER, "format": 9}, "of format 9; this version reads 1"),
        ({k: v for k, v in HEADER.items() if k != "layers"}, "lacks 'layers'"),
        ({**HEADER, "target": "tpu"}, "lacks a target"),
    ],
)
def test_another_file_is_refused(tmp_path: Path, first: Any, words: str) -> None:
    with pytest.raises(TraceError, match=words):
        load_op_trace(write(tmp_path / "ops.jsonl.gz", first))


@pytest.mark.parametrize("row", ["{", ["x", 1], ["a", 1], ["o", "name"], 3, ["f", "one"]])
def test_a_damaged_line_is_named(tmp_path: Path, row: Any) -> None:
    trace = load_op_trace(write(tmp_path / "ops.jsonl.gz", HEADER, *ROWS, row))
    with pytest.raises(TraceError, match="line 6 is no event"):
        list(trace.events())


def test_a_file_that_ends_too_early(tmp_path: Path) -> None:
    path = write(tmp_path / "ops.jsonl.gz", HEADER, *(["a", n, n, "weight"] for n in range(2000)))
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(TraceError, match="ends too early"):
        list(load_op_trace(path).events())


def test_no_gzip_and_no_file(tmp_path: Path) -> None:
    plain = tmp_path / "ops.jsonl.gz"
    plain.write_text(json.dumps(HEADER))
    with pytest.raises(TraceError, match="damaged or no op trace"):
        load_op_trace(plain)
    with pytest.raises(TraceError, match=r"cannot read .*No such file"):
        load_op_trace(tmp_path / "nowhere.gz")
