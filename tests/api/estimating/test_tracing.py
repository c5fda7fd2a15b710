"""Traces are remembered: one step is traced once for all who ask, whatever GPU they mean."""

from importlib.util import find_spec

import pytest

from trainload import run
from trainload.api.estimating import estimate, tracing
from trainload.api.estimating.tracing import Traced, TraceJob, Tracing
from trainload.estimate.memory.device import find_device_memory
from trainload.estimate.memory.op_trace import Mark
from trainload.hardware.catalogue import find_device
from trainload.run import OpTraceRequest
from trainload.workload import assemble_workload


@pytest.mark.skipif(find_spec("torch") is None, reason="needs torch")
def test_a_step_is_traced_once_for_all_who_ask(tmp_path, monkeypatch):
    asked, spawn = [], run.spawn_op_trace
    monkeypatch.setattr(tracing, "_REMEMBERED", tracing._Remembered())
    monkeypatch.setattr(
        run, "spawn_op_trace", lambda request, *rest: asked.append(request) or spawn(request, *rest)
    )
    monkeypatch.setenv("TRAINLOAD_ESTIMATES", str(tmp_path))
    several = estimate("lenet5", batch_size=5, device=["t4", "h200"])
    again = estimate("lenet5", batch_size=5, device="t4", what_if=False)
    assert len(asked) == 1
    (first,) = (one for one in several if one.device.name == "t4")
    assert first.needed_bytes == again.needed_bytes and again.fits


@pytest.mark.parametrize(
    ("model", "options", "capability"),
    [
        ("lenet5", {}, (9, 0)),
        ("lenet5", {"precision": "bf16"}, (7, 5)),
        ("transformer_encoder", {}, (7, 5)),
    ],
)
def test_gpus_differ_where_a_step_has_attention_or_half_precision(model, options, capability):
    memory = find_device_memory(find_device("t4"))
    with Tracing("python", memory, 1.0, None) as one:
        assert one._request(TraceJob(step=assemble_workload(model, options))).capability == (
            capability
        )


def traced(events):
    return Traced(events=(Mark(text="step begin", step=1),) * events, parameters=0, notes=(),
                  elapsed_s=1.0)  # fmt: skip


def request(source):
    return OpTraceRequest(source=source, python="python")


def test_the_oldest_are_forgotten_and_the_user_s_own_code_is_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(tracing, "REMEMBERED_EVENTS", 10)
    kept = tracing._Remembered()
    steps = [request(assemble_workload("mlp", {"batch_size": size})) for size in (1, 2, 3)]
    for one in steps:
        kept.keep(one, traced(4))
    assert [kept.find(one) is not None for one in steps] == [False, True, True]
    assert kept.find(request(assemble_workload("mlp", {"batch_size": 2}))) == traced(4)
    kept.keep(steps[0], traced(11))
    assert [kept.find(one) for one in steps] == [None] * 3
    script = tmp_path / "train.py"
    script.write_text("pass\n")
    own = request(run.parse_build(f"{script}:build", batch_size=1))
    kept.keep(own, traced(1))
    assert kept.find(own) is None
