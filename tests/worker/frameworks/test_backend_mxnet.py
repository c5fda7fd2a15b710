"""Training with MXNet, in its own environment: it learns, and says what it cannot do."""

from pathlib import Path

import pytest
from framework_runs import chain, check_learning, check_refusals, run_in
from worker_specs import graph_document

pytestmark = pytest.mark.framework("mxnet")


def test_a_whole_run_learns_and_tells_its_setting(tmp_path: Path) -> None:
    obtained = check_learning("mxnet", tmp_path)
    assert any("seen by a waiting thread" in note for note in obtained["notes"])


def test_what_it_cannot_do_is_one_line(tmp_path: Path) -> None:
    check_refusals("mxnet", tmp_path)


def test_batch_norm_s_other_variance_is_noted(tmp_path: Path) -> None:
    graph = graph_document(chain((75,), ("batch_norm", {}), ("linear", {"units": 10})))
    status, output, events = run_in("mxnet", tmp_path, graph=graph, training={"max_steps": 2})
    assert status == 0, output
    notes = next(event for event in events if event["kind"] == "setting")["obtained"]["notes"]
    assert any("biased variance" in note for note in notes)
