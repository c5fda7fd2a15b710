"""Traces that devices share: by target, and by what the step asked of the capability."""

from trainload.api.estimating.memory import KnownTraces, MemoryQuestion
from trainload.api.estimating.sources import find_source
from trainload.api.estimating.study import choose_optimizer
from trainload.api.estimating.tracing import Traced
from trainload.estimate.counts.answer import StepChoice
from trainload.estimate.memory.device import find_device_memory
from trainload.hardware.catalogue import find_device


class Tracing:
    """Answers each question with a trace that says whom it holds for."""

    def __init__(self, *alike):
        self.alike = list(alike)

    def trace(self, _job, _name):
        alike = self.alike.pop(0)
        return Traced(events=(), parameters=0, notes=(), elapsed_s=0.0, alike=alike)


def question(name):
    device = find_device(name)
    return MemoryQuestion(
        source=find_source("mlp", loss=None, script=None, arguments=(), options={}),
        choice=StepChoice(
            batch_size=4, precision="float32", optimizer=choose_optimizer("adam", 0.9)
        ),
        device=device,
        memory=find_device_memory(device),
        python=None,
        limit_s=1.0,
        what_if=False,
        show=None,
    )


def test_one_trace_serves_all_gpus_where_none_is_asked_for_its_capability():
    known, tracing = KnownTraces(), Tracing(((0, 0), (1000, 0)))
    first = known.trace(question("h200"), tracing)
    assert known.trace(question("t4"), tracing) is first
    assert known.find(question("rtx-3090").memory) is first


def test_gpus_that_choose_otherwise_are_traced_by_themselves():
    known, tracing = KnownTraces(), Tracing(((9, 0), (11, 0)), ((7, 5), (7, 6)))
    hopper = known.trace(question("h200"), tracing)
    assert known.find(question("t4").memory) is None
    turing = known.trace(question("t4"), tracing)
    assert turing is not hopper and known.find(question("h200").memory) is hopper
    assert known.find(question("v100-pcie-32gb").memory) is None
