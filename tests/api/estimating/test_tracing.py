"""Traces are remembered: one step is traced once for all who ask, whatever GPU they mean."""

from dataclasses import replace
from importlib.util import find_spec

import pytest

from trainload import run
from trainload.api.estimating import estimate, tracing
from trainload.api.estimating.tracing import Traced
from trainload.estimate.memory.op_trace import Mark
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


def test_only_gpus_that_do_a_step_alike_share_its_trace():
    kept = tracing._Remembered()
    step = assemble_workload("mlp", {})
    kept.keep(replace(request(step), capability=(7, 5)), traced(4, ((7, 0), (8, 0))))
    found = {at: kept.find(replace(request(step), capability=at)) for at in ((7, 0), (8, 0))}
    assert found == {(7, 0): traced(4, ((7, 0), (8, 0))), (8, 0): None}


def traced(events, alike=((0, 0), (100, 0))):
    return Traced(events=(Mark(text="step begin", step=1),) * events, parameters=0, notes=(),
                  elapsed_s=1.0, alike=alike)  # fmt: skip


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
