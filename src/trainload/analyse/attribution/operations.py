"""The operations and kernels of each part of a step, by name, as traced.

Reads a trace again, since the stored attribution keeps no names; labelled windows have none.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from trainload.analyse.attribution.compiled import Compiled
from trainload.analyse.attribution.events import Role, Window, Work
from trainload.analyse.attribution.header import parse_header
from trainload.analyse.attribution.host import choose_layering, follow_host
from trainload.analyse.attribution.partition import Part, busiest_device, part_of
from trainload.analyse.attribution.steps import find_steps
from trainload.analyse.attribution.timeline import NOWHERE, HostTimeline
from trainload.analyse.attribution.trace import open_trace

_NS = 1e9
Operations = dict[Part, dict[str, float]]


def operation_times(path: Path) -> Operations:
    """Seconds of a traced step by part and name of the kernel (on a CPU: outermost operation).

    Kernels that ran at once are counted in full, so that they may sum to more than their part.
    """
    found: Operations = {}
    steps = 0
    with open_trace(path, inside=True) as reader:
        header = parse_header(reader.header)
        for window in reader.windows():
            if not header.times_steps(window.index):
                continue
            _, spans = find_steps(window)
            if not spans:
                continue
            steps += len(spans)
            compiled = Compiled(header.graphs, header.modules)
            host = follow_host(window, choose_layering(window), compiled=compiled)
            begin, end = spans[0].begin_ns, spans[-1].end_ns
            device = busiest_device(window)
            named = _outermost(window) if device is None else _kernels(window, device)
            for thread, at, length_ns, name in named:
                part = _part(host, thread, at)
                if part is not None and begin <= at < end:
                    times = found.setdefault(part, {})
                    times[name] = times.get(name, 0.0) + length_ns / _NS
    return {
        part: {name: time_s / steps for name, time_s in times.items()}
        for part, times in found.items()
    }


def _part(host: HostTimeline, thread: int, at_ns: int) -> Part | None:
    known = host.threads.get(thread)
    state = NOWHERE if known is None else known.at(at_ns)
    return None if state == NOWHERE else part_of(host.states[state].owner)


def _outermost(window: Window) -> Iterator[tuple[int, int, int, str]]:
    """Thread, start, length and name of the operations that lie in no other operation."""
    host = window.host
    order = sorted(range(len(host)), key=lambda i: (host.start_ns[i], -host.end_ns[i]))
    beyond: dict[int, int] = {}
    for i in order:
        thread, start, end = host.thread[i], host.start_ns[i], host.end_ns[i]
        if window.roles[host.name[i]] is Role.OPERATION and start >= beyond.get(thread, 0):
            beyond[thread] = end
            yield thread, start, end - start, window.names[host.name[i]]


def _kernels(window: Window, device: int) -> Iterator[tuple[int, int, int, str]]:
    """The same of a device's kernels, by the thread and time of their launch."""
    calls, events = window.calls, window.device
    launches = {
        correlation: (thread, at)
        for correlation, thread, at in zip(
            calls.correlation, calls.thread, calls.start_ns, strict=True
        )
    }
    for i in range(len(events)):
        launch = launches.get(events.correlation[i])
        if launch is None or events.device[i] != device or events.work[i] != Work.COMPUTE:
            continue
        yield *launch, events.end_ns[i] - events.start_ns[i], window.names[events.name[i]]
