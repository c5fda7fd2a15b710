"""Workspaces of recurrent layers against those that cuDNN 9.19 took on an H200."""

from dataclasses import dataclass
from typing import Any

import pytest

from trainload.estimate.workspaces.recurrent import Recurrent, workspace_bytes
from trainload.estimate.workspaces.temporaries import temporaries

LSTM, GRU, RNN = 2, 3, 1

# Kind, rows, steps, input, units, layers, directions, dropout, bytes a value: measured bytes.
MEASURED = {
    (LSTM, 64, 35, 200, 200, 1, 1, 0.0, 4): 20_984_576,
    (LSTM, 128, 100, 512, 512, 1, 2, 0.0, 4): 433_063_168,
    (LSTM, 64, 35, 512, 512, 1, 1, 0.0, 2): 63_570_688,
    (LSTM, 128, 100, 512, 512, 2, 1, 0.3, 2): 119_538_944,
    (LSTM, 64, 35, 650, 650, 2, 1, 0.5, 4): 87_913_984,
    (LSTM, 32, 35, 650, 650, 2, 1, 0.5, 2): 41_321_728,
    (LSTM, 64, 32, 75, 128, 2, 1, 0.0, 4): 40_876_800,
    (GRU, 128, 100, 200, 200, 1, 2, 0.0, 2): 85_015_296,
    (GRU, 64, 35, 512, 512, 2, 1, 0.3, 4): 58_196_736,
    (GRU, 128, 64, 256, 256, 2, 2, 0.2, 4): 162_530_560,
    (RNN, 128, 100, 200, 200, 2, 2, 0.0, 2): 153_549_312,
    (RNN, 64, 35, 512, 512, 2, 2, 0.0, 4): 111_936_256,
    (RNN, 128, 100, 512, 512, 1, 1, 0.0, 2): 206_832_896,
}


def _net(key: tuple[Any, ...]) -> Recurrent:
    mode, batch, steps, width, hidden, layers, directions, dropout, item_bytes = key
    return Recurrent(
        mode=mode,
        batch=batch,
        steps=steps,
        width=width,
        hidden=hidden,
        layers=layers,
        directions=directions,
        dropout=dropout,
        item_bytes=item_bytes,
        batch_first=True,
    )


@pytest.mark.parametrize("key", MEASURED, ids=str)
def test_workspaces_are_those_measured(key: tuple[Any, ...]) -> None:
    for backward in (False, True):
        assert workspace_bytes(_net(key), "sm90", backward=backward) == MEASURED[key]


def test_layers_that_work_in_turn_are_within_a_hundredth() -> None:
    key = (GRU, 64, 35, 512, 512, 2, 1, 0.0, 4)
    assert workspace_bytes(_net(key), "sm90", backward=True) == pytest.approx(55_706_368, rel=0.01)


@dataclass(frozen=True, kw_only=True)
class Tensor:
    shape: tuple[int, ...]
    dtype: str = "float32"
    strides: tuple[int, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class Op:
    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    attributes: tuple[Any, ...]
    phase: str = "forward"


ROWS, STATE = Tensor(shape=(64, 35, 200)), Tensor(shape=(1, 64, 200))
OUTPUT = Tensor(shape=(64, 35, 200), strides=(200, 64 * 200, 1))
WEIGHTS = (Tensor(shape=(800, 200)),) * 2 + (Tensor(shape=(800,)),) * 2
BUFFER, RESERVE = Tensor(shape=(0,)), Tensor(shape=(8_960_256,), dtype="uint8")
OPTIONS = (LSTM, 200, 0, 1, True, 0.0, True, False, [], None)


def _acts(op: Op) -> list[tuple[str, int]]:
    sizes: dict[int, int] = {}
    acts = []
    for step in temporaries(op).steps:
        if step.kind == "take":
            sizes[step.number] = step.size_bytes
        acts.append((step.kind, step.number if step.kind == "result" else sizes[step.number]))
    return acts


def test_order_going_forward_is_that_recorded() -> None:
    op = Op(
        name="aten._cudnn_rnn.default",
        inputs=(ROWS, *WEIGHTS, WEIGHTS[0], STATE, STATE),
        outputs=(OUTPUT, STATE, STATE, RESERVE, BUFFER),
        attributes=(4, *OPTIONS),
    )
    copy, workspace = 1_792_000, 20_984_576
    assert _acts(op) == [
        ("take", copy),
        *[("result", number) for number in range(3)],
        ("take", workspace),
        ("result", 3),
        ("result", 4),
        ("give", workspace),
        ("give", copy),
    ]


def test_order_going_back_is_that_recorded() -> None:
    op = Op(
        name="aten._cudnn_rnn_backward.default",
        inputs=(ROWS, *WEIGHTS, BUFFER, STATE, STATE, OUTPUT, OUTPUT, RESERVE),
        outputs=(OUTPUT, *WEIGHTS),
        attributes=(4, None, None, *OPTIONS, [True, False, False, True]),
        phase="backward",
    )
    state, copy, workspace = 51_200, 1_792_000, 20_984_576
    made = [act for act in _acts(op) if act[0] != "give"]
    assert made == [
        ("take", state),
        ("take", state),
        ("take", copy),
        ("result", 0),
        ("take", state),
        ("take", state),
        ("take", workspace),
        ("take", copy),
        *[("result", number) for number in range(1, 5)],
        ("take", workspace),
    ]
