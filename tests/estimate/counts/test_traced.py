"""Counts of a step from its op trace: each operation by hand, models beside their layer graphs."""

from importlib.util import find_spec

import pytest

from trainload.estimate import estimate_step
from trainload.estimate.counts.operations import operation_flop, operation_moved_bytes
from trainload.estimate.counts.traced import count_trace, estimate_traced_time
from trainload.estimate.memory.op_trace import Operation, TraceTensor, load_op_trace
from trainload.hardware.catalogue import find_device


def tensor(*shape, dtype="float32", strides=None, storage=0):
    return TraceTensor(shape=shape, dtype=dtype, strides=strides, storage=storage)


def operation(name, inputs, outputs=(), attributes=(), phase="forward", step=0):
    return Operation(
        name=f"aten.{name}", layer=None, phase=phase, step=step, inputs=tuple(inputs),
        outputs=tuple(outputs), attributes=tuple(attributes),
    )  # fmt: skip


A, B = tensor(4, 8), tensor(8, 16)
IMAGE, FILTERS, FOUND = tensor(2, 6, 10, 10), tensor(12, 3, 3, 3), tensor(2, 12, 8, 8)
QUERY = tensor(2, 4, 32, 16)
WEIGHTS = (tensor(12, 5), tensor(12, 3), tensor(12), tensor(12))
RECURRENT = [4, 2, 3, 0, 1, False, 0.0, True, False, [], None]
CONVOLVED = 2 * 2 * 8 * 8 * 12 * 3 * 9


@pytest.mark.parametrize(
    ("found", "flop"),
    [
        (operation("mm.default", (A, B)), 2 * 4 * 8 * 16),
        (operation("addmm.default", (tensor(16), A, B)), 2 * 4 * 8 * 16),
        (operation("bmm.default", (tensor(3, 4, 8), tensor(3, 8, 2))), 2 * 3 * 4 * 8 * 2),
        (operation("mv.default", (A, tensor(8))), 2 * 4 * 8),
        (operation("relu.default", (A,), (A,)), 0),
        (
            operation("convolution.default", (IMAGE, FILTERS), (FOUND,),
                      [None, [1, 1], [0, 0], [1, 1], False, [0, 0], 2]),
            CONVOLVED,
        ),
        (
            operation("convolution_backward.default", (FOUND, IMAGE, FILTERS), (IMAGE, FILTERS),
                      [[0], [1, 1], [0, 0], [1, 1], False, [0, 0], 2, [False, True, True]]),
            CONVOLVED,
        ),
        (
            operation("_scaled_dot_product_flash_attention.default", (QUERY,) * 3),
            2 * 2 * 4 * 32 * 32 * (16 + 16),
        ),
        (
            operation("_scaled_dot_product_flash_attention_backward.default", (QUERY,) * 4),
            2 * 2 * 2 * 4 * 32 * 32 * (16 + 16),
        ),
        (
            operation("_cudnn_rnn.default", (tensor(7, 2, 5), *WEIGHTS, tensor(12, 5)), (),
                      RECURRENT),
            2 * 7 * 2 * (12 * 5 + 12 * 3),
        ),
        (
            operation("_cudnn_rnn_backward.default", (tensor(7, 2, 5), *WEIGHTS), (),
                      [*RECURRENT, [False, False, False, True]]),
            2 * 7 * 2 * (12 * 5 + 2 * 12 * 3),
        ),
    ],
    ids=lambda value: getattr(value, "name", None),
)  # fmt: skip
def test_products_by_hand(found, flop):
    assert operation_flop(found) == flop


def test_bytes_are_those_of_operands_and_results():
    half = tensor(4, 8, dtype="bfloat16")
    assert operation_moved_bytes(operation("_to_copy.default", (A,), (half,))) == 128 + 64
    repeated = tensor(4, 8, strides=(0, 1))
    assert operation_moved_bytes(operation("add.Tensor", (repeated, A), (A,))) == 32 + 2 * 128
    table, rows = tensor(1000, 8), tensor(4, dtype="int64")
    assert (
        operation_moved_bytes(operation("embedding.default", (table, rows), (A,))) == 2 * 128 + 32
    )
    in_place = operation("_foreach_addcdiv_.ScalarList", (A,) * 3)
    assert operation_moved_bytes(in_place) == 4 * 128


def test_the_last_step_counts_by_phase_and_the_roofline_by_type():
    events = [
        operation("mm.default", (A, B), (tensor(4, 16),)),
        operation("mm.default", (A, B), (tensor(4, 16),), phase="backward", step=1),
        operation("mm.default", (A, B), (tensor(4, 16),), phase="other", step=1),
        operation("_foreach_add_.List", (A, A), phase="update", step=1),
    ]
    step = count_trace(events, 128)
    assert step.flop() == 2 * 1024 and step.flop("forward") == step.flop("backward") == 1024
    assert step.moved_bytes("update") == 3 * 128 and step.flop("update") == 0
    time = estimate_traced_time(step, find_device("h200"))
    assert time.peak == "tf32_flop_per_s" and time.missing is None
    assert time.step_s == pytest.approx(step.moved_bytes() / 4.8e12, rel=0.01)
    halves = [operation("mm.default", (tensor(4, 8, dtype="bfloat16"),) * 2)]
    assert (
        "no peak in bfloat16"
        in estimate_traced_time(count_trace(halves, 1), find_device("t4")).missing
    )
    assert count_trace([], 0).intensity_flop_per_byte is None


@pytest.mark.skipif(find_spec("torch") is None, reason="needs torch")
@pytest.mark.parametrize(
    ("model", "precision"),
    [("resnet18", "float32"), ("transformer_encoder", "bf16"), ("recurrent", "float32")],
)
def test_a_trace_has_the_flop_of_the_graph(model, precision, tmp_path):
    import sys

    from trainload.run import OpTraceRequest, spawn_op_trace
    from trainload.workload import assemble_workload

    step = assemble_workload(model, {"batch_size": 4, "precision": precision})
    result = spawn_op_trace(OpTraceRequest(source=step, python=sys.executable), tmp_path)
    traced = count_trace(load_op_trace(result.path).events(), 0)
    graph = estimate_step(step.graph, batch_size=4, precision=precision)
    for phase in ("forward", "backward"):
        assert traced.flop(phase) == pytest.approx(graph.total(f"{phase}_flop"), rel=0.01)
