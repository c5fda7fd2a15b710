"""The events of one traced window as columns of integers, times in nanoseconds.

Keeps the kinds that attribution needs and drops the rest; reads no file and explains nothing.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Mapping
from enum import IntEnum
from typing import Any

from trainload.analyse.attribution._values import nanoseconds, printable, whole
from trainload.analyse.attribution.flops import Shaped, read_shaped
from trainload.analyse.attribution.labels import CATEGORIES, LabelledEvents

NODE_PREFIX = "autograd::engine::evaluate_function: "
_COMMUNICATION = re.compile(
    r"\bgloo:|\bnccl:|\bc10d::|_c10d_functional|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all"
    r"|broadcast_coalesced|copy_bucket_to_grad|record_param_comms",
    re.IGNORECASE,
)
_SYNCHRONISING = frozenset(
    {
        "cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize", "cudaMemcpy",
        "cudaMemcpy2D", "cuStreamSynchronize", "cuCtxSynchronize", "cuEventSynchronize",
        "hipStreamSynchronize", "hipDeviceSynchronize", "hipEventSynchronize", "hipMemcpy",
    }
)  # fmt: skip


class Role(IntEnum):
    """What a host event's name says about it."""

    OPERATION = 0
    LAYER = 1
    LOSS = 2
    BACKWARD = 3
    MARK = 4
    OPTIMIZER = 5
    LOADER = 6
    PROFILER_STEP = 7
    COMMUNICATION = 8
    ASYNCHRONOUS = 9
    """A collective that runs asynchronously to the thread that started it."""
    NODE = 10
    ACCUMULATE = 11
    MODULE = 12
    ANNOTATION = 13
    SYNCHRONISE = 14
    COMPILED = 15
    """One call of a compiled graph."""


class Work(IntEnum):
    """What a device event does; the lower comes first where several run at once."""

    COMPUTE = 0
    COMMUNICATION = 1
    COPY = 2


_HOST = frozenset({"cpu_op", "user_annotation"})
_CALLS = frozenset({"cuda_runtime", "cuda_driver", "hip_runtime", "privateuse1_runtime"})
_DEVICE = {"kernel": Work.COMPUTE, "gpu_memset": Work.COMPUTE, "gpu_memcpy": Work.COPY}


def role_of(category: str, name: str) -> Role:
    """The role of a host event."""
    for prefix, role in _PREFIXES:
        if name.startswith(prefix):
            return role
    if category in _CALLS:
        return Role.SYNCHRONISE
    if _COMMUNICATION.search(name):
        return Role.ASYNCHRONOUS if category == "user_annotation" else Role.COMMUNICATION
    return Role.ANNOTATION if category == "user_annotation" else Role.OPERATION


_PREFIXES = (
    ("layer:", Role.LAYER),
    ("loss:", Role.LOSS),
    ("trainload.backward", Role.BACKWARD),
    ("trainload.step:", Role.MARK),
    ("Optimizer.", Role.OPTIMIZER),
    ("enumerate(DataLoader)#", Role.LOADER),
    ("ProfilerStep#", Role.PROFILER_STEP),
    (NODE_PREFIX + "torch::autograd::AccumulateGrad", Role.ACCUMULATE),
    (NODE_PREFIX, Role.NODE),
    ("nn.Module: ", Role.MODULE),
    ("## Call CompiledFxGraph ", Role.COMPILED),
)


class HostEvents:
    """Ranges and operations of the host's threads."""

    __slots__ = ("end_ns", "forward_thread", "name", "sequence", "start_ns", "thread")

    def __init__(self) -> None:
        self.start_ns, self.end_ns, self.sequence = array("q"), array("q"), array("q")
        self.thread, self.name, self.forward_thread = array("l"), array("l"), array("l")

    def __len__(self) -> int:
        return len(self.start_ns)


class DeviceEvents:
    """Kernels, copies and fills."""

    __slots__ = ("correlation", "device", "end_ns", "name", "start_ns", "stream", "work")

    def __init__(self) -> None:
        self.start_ns, self.end_ns, self.correlation = array("q"), array("q"), array("q")
        self.device, self.stream, self.work = array("l"), array("l"), array("b")
        self.name = array("l")

    def __len__(self) -> int:
        return len(self.start_ns)


class CallEvents:
    """Calls into the device's runtime that may have launched something."""

    __slots__ = ("correlation", "start_ns", "thread")

    def __init__(self) -> None:
        self.start_ns, self.correlation, self.thread = array("q"), array("q"), array("l")

    def __len__(self) -> int:
        return len(self.start_ns)


class MemoryEvents:
    """Allocations and frees, with the allocator's total after each; -1 where that is unknown."""

    __slots__ = ("address", "at_ns", "change_bytes", "on_cpu", "thread", "total_bytes")

    def __init__(self) -> None:
        self.at_ns, self.address, self.change_bytes = array("q"), array("q"), array("q")
        self.total_bytes, self.thread, self.on_cpu = array("q"), array("l"), array("b")

    def __len__(self) -> int:
        return len(self.at_ns)


class Window:
    """All kept events between one start and stop of tracing."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.host, self.device = HostEvents(), DeviceEvents()
        self.calls, self.memory = CallEvents(), MemoryEvents()
        self.labelled = LabelledEvents()
        self.shaped: list[Shaped] = []
        """Operations with their counts, where shapes were recorded."""
        self.names: list[str] = []
        self.roles: list[Role] = []
        self.events = 0
        self.damaged = 0
        self.compiled = False
        self._ids: dict[str, dict[str, int]] = {}
        self._threads: dict[tuple[Any, Any], int] = {}
        self._streams: dict[tuple[Any, Any], int] = {}

    def add(self, event: Any) -> None:
        """Take one event of the trace; what is damaged is counted and left out."""
        try:
            category, phase = event.get("cat"), event.get("ph")
            if phase == "X":
                if category in _HOST or category == "python_function":
                    self._add_host(event, category)
                elif category in _CALLS:
                    self._add_call(event, category)
                elif category in _DEVICE:
                    self._add_device(event, _DEVICE[category])
                elif category in CATEGORIES:
                    self.labelled.add(event)
                    self.events += 1
            elif phase == "i" and event.get("name") == "[memory]":
                self._add_memory(event)
        except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError):
            self.damaged += 1

    def _add_host(self, event: Mapping[str, Any], category: str) -> None:
        name = event["name"]
        if category == "python_function" and not name.startswith("nn.Module: "):
            return
        start, length = nanoseconds(event["ts"]), nanoseconds(event["dur"])
        arguments = event.get("args") or {}
        sequence = arguments.get("Sequence number")
        forward = arguments.get("Fwd thread id")
        thread = self._thread(event)
        host = self.host
        host.name.append(self._name(category, name))
        host.start_ns.append(start)
        host.end_ns.append(start + max(length, 0))
        host.thread.append(thread)
        host.sequence.append(whole(sequence, -1))
        host.forward_thread.append(whole(forward, 0))
        self.events += 1
        if "Input Dims" in arguments:
            shaped = read_shaped(name, start, arguments)
            if shaped is not None:
                self.shaped.append(shaped)

    def _add_call(self, event: Mapping[str, Any], category: str) -> None:
        start = nanoseconds(event["ts"])
        name, thread = event["name"], self._thread(event)
        if name in _SYNCHRONISING:
            end = start + max(nanoseconds(event["dur"]), 0)
            host = self.host
            host.name.append(self._name(category, name))
            host.start_ns.append(start)
            host.end_ns.append(end)
            host.thread.append(thread)
            host.sequence.append(-1)
            host.forward_thread.append(0)
        correlation = whole((event.get("args") or {}).get("correlation"), -1)
        if correlation >= 0:
            self.calls.correlation.append(correlation)
            self.calls.start_ns.append(start)
            self.calls.thread.append(thread)

    def _add_device(self, event: Mapping[str, Any], work: Work) -> None:
        start, length = nanoseconds(event["ts"]), nanoseconds(event["dur"])
        arguments = event.get("args") or {}
        correlation = whole(arguments.get("correlation"), -1)
        if work is Work.COMPUTE and "nccl" in event["name"].lower():
            work = Work.COMMUNICATION
        number = whole(arguments.get("device", event.get("pid")), 0)
        stream = self._streams.setdefault((event.get("pid"), event.get("tid")), len(self._streams))
        device = self.device
        device.stream.append(stream)
        device.start_ns.append(start)
        device.end_ns.append(start + max(length, 0))
        device.device.append(number)
        device.correlation.append(correlation)
        device.work.append(work)
        device.name.append(self._name("kernel", event["name"]))
        self.events += 1

    def _add_memory(self, event: Mapping[str, Any]) -> None:
        arguments = event["args"]
        at, thread = nanoseconds(event["ts"]), self._thread(event)
        address, change = whole(arguments["Addr"], -1), whole(arguments["Bytes"], 0)
        total = whole(arguments.get("Total Allocated"), -1)
        memory = self.memory
        memory.at_ns.append(at)
        memory.address.append(address)
        memory.change_bytes.append(change)
        memory.total_bytes.append(total)
        memory.thread.append(thread)
        memory.on_cpu.append(arguments.get("Device Type") == 0)

    def _thread(self, event: Mapping[str, Any]) -> int:
        return self._threads.setdefault((event.get("pid"), event.get("tid")), len(self._threads))

    def _name(self, category: str, name: str) -> int:
        ids = self._ids.setdefault(category, {})
        found = ids.get(name)
        if found is None:
            role = role_of(category, name)
            found = ids[name] = len(self.names)
            self.names.append(printable(name))
            self.roles.append(role)
            self.compiled |= name.startswith(("Torch-Compiled Region", "CompiledFunction"))
        return found
