"""Events as Kineto writes them, built by hand; times are given in whole nanoseconds."""

import json
from pathlib import Path
from typing import Any

from trainload.analyse.attribution.events import Window

MAIN, AUTOGRAD = 11, 12
NODE = "autograd::engine::evaluate_function: "


class Trace:
    """A trace under construction."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self._correlation = 100

    def host(
        self,
        name: str,
        start: int,
        end: int,
        thread: int = MAIN,
        category: str = "cpu_op",
        **arguments: Any,
    ) -> None:
        """A range or operation."""
        self._add("X", category, name, 1, thread, start, end, arguments)

    def forward(self, name: str, start: int, end: int, sequence: int, thread: int = MAIN) -> None:
        """A forward operation that makes the backward node of that number."""
        numbers = {"Sequence number": sequence, "Fwd thread id": 0}
        self.host(name, start, end, thread, **numbers)

    def node(
        self, name: str, start: int, end: int, sequence: int, thread: int = MAIN, forward: int = 1
    ) -> None:
        """A backward node."""
        numbers = {"Sequence number": sequence, "Fwd thread id": forward}
        self.host(NODE + name, start, end, thread, **numbers)

    def mark(self, step: int, at: int) -> None:
        """The end of a step."""
        self.host(f"trainload.step:{step}", at, at + 1)

    def kernel(
        self,
        start: int,
        end: int,
        launched: int,
        *,
        thread: int = MAIN,
        stream: int = 7,
        category: str = "kernel",
        name: str = "gemm",
    ) -> None:
        """A device event and the call that launched it."""
        self._correlation += 1
        known = {"correlation": self._correlation}
        self._add("X", "cuda_runtime", "cudaLaunchKernel", 1, thread, launched, launched, known)
        placed = {**known, "device": 0, "stream": stream}
        self._add("X", category, name, 0, stream, start, end, placed)

    def memory(self, at: int, address: int, change: int, total: int, kind: int = 0) -> None:
        """An allocation, or with a negative change a free."""
        arguments = {
            "Addr": address, "Bytes": change, "Device Type": kind, "Total Allocated": total,
        }  # fmt: skip
        self._add("i", "cpu_instant_event", "[memory]", 1, MAIN, at, at, arguments)

    def window(self) -> Window:
        """The events as one window, read as from a file."""
        window = Window(0)
        for event in json.loads(self.text(), parse_float=str)["traceEvents"]:
            window.add(event)
        assert not window.damaged
        return window

    def text(self, header: dict[str, Any] | None = None) -> str:
        """The trace as JSON."""
        head = {"trainload": header} if header is not None else {}
        return json.dumps({**head, "schemaVersion": 1, "traceEvents": self.events})

    def save(self, path: Path, header: dict[str, Any] | None = None) -> Path:
        """The trace as a file."""
        path.write_text(self.text(header))
        return path

    def _add(
        self, phase: str, category: str, name: str, process: int, thread: int, start: int, end: int,
        arguments: dict[str, Any],
    ) -> None:  # fmt: skip
        event = {"ph": phase, "cat": category, "name": name, "pid": process, "tid": thread}
        times = {"ts": start / 1000} | ({"dur": (end - start) / 1000} if phase == "X" else {})
        self.events.append({**event, **times, "args": arguments})


def cpu_step(trace: Trace, at: int, step: int, first_sequence: int = 0) -> int:
    """One step of a model of two layers on a CPU, 1000 ns, marked at its end; answers that."""
    one, two, loss = range(first_sequence, first_sequence + 3)
    trace.host("enumerate(DataLoader)#_Iter.__next__", at, at + 100, category="user_annotation")
    trace.host("aten::stack", at + 10, at + 60)
    trace.host("layer:Net:", at + 110, at + 400)
    trace.host("layer:Net:a", at + 120, at + 200)
    trace.forward("aten::linear", at + 130, at + 200, one)
    trace.host("layer:Net:b", at + 210, at + 390)
    trace.forward("aten::linear", at + 220, at + 380, two)
    trace.forward("aten::cross_entropy_loss", at + 400, at + 450, loss)
    trace.host("trainload.backward", at + 460, at + 860)
    trace.host("aten::ones_like", at + 465, at + 470)
    trace.node("NllLossBackward0", at + 480, at + 500, loss)
    trace.node("AddmmBackward0", at + 510, at + 700, two)
    trace.host(NODE + "torch::autograd::AccumulateGrad", at + 700, at + 710)
    trace.node("AddmmBackward0", at + 720, at + 850, one)
    trace.host("Optimizer.step#SGD.step", at + 880, at + 990, category="user_annotation")
    trace.host("aten::_foreach_add_", at + 900, at + 980)
    trace.mark(step, at + 1000)
    return at + 1000


HEADER: dict[str, Any] = {
    "format": 1,
    "rank": 0,
    "device": "cpu",
    "budget": 0.03,
    "windows": [
        {
            "index": 0, "purpose": "time", "first_step": 1, "last_step": 2, "disturbed": [0, 3],
            "begin_s": 1.0, "end_s": 2.0, "cost_s": 0.001,
        }
    ],
    "modules": [
        {
            "root": "Net", "layer": name, "class": kind, "parameters": parameters,
            "parameter_bytes": 4 * parameters, "gradient_bytes": 4 * parameters,
            "optimizer_bytes": 0,
        }
        for name, kind, parameters in (("", "Net", 0), ("a", "Linear", 10), ("b", "Linear", 30))
    ],
    "notes": ["a word of the worker"],
}  # fmt: skip
