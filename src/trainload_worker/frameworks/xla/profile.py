"""Turns a profile of XLA's threads into labelled events; knows neither layers nor a framework.

Instructions run on the threads of a pool. One that is split gives tasks to the others, whose
numbers lead back to it. A step lasts until its last instruction has ended: what a window adds,
waiting for that and reading the loss, belongs to no step.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any, Callable, List, Sequence, Tuple

from trainload_worker.windows.labelled_events import (
    INPUT,
    RANGE,
    UNKNOWN,
    LabelledWindow,
    Owner,
    share,
)

STEP_MARK, INPUT_MARK = "trainload.step:", "trainload.input:"
"""Names of our own events: the end of a step; the taking of so many rows."""
KERNEL = "kernel:"
"""Before a kernel's name, in place of its instruction, where a CUDA graph launched it."""
_GRAPH = "command_buffer"
LEAST_GAP_NS = 10_000
"""A shorter gap between two instructions is not worth a range of its own."""

_TASK_GIVEN, _TASK_BEGIN, _TASK_END = (
    "ThreadpoolListener::Record",
    "ThreadpoolListener::StartRegion",
    "ThreadpoolListener::StopRegion",
)
_EXECUTOR = "ThunkExecutor::Execute"
"""Runs instructions one after another, at times inside the task that made the first one ready."""
_HAND_OVER = "DevicePut"
"""The batch becomes an array of the device."""

Pieces = List[Tuple[float, float, Owner, str]]
"""Start and end of what ran, whose it was, and its name."""
OwnerOf = Callable[[int, str], Owner]
"""Whose an instruction is in the program for so many rows."""


@dataclass(frozen=True)
class Span:
    """An event of a thread: an instruction, a task, the executor, or one of the host's own."""

    start_ns: float
    end_ns: float
    name: str
    instruction: str = ""
    """Empty but for instructions."""


@dataclass
class Thread:
    """What one thread did; spans nest."""

    spans: list[Span] = field(default_factory=list)
    given: list[tuple[float, int]] = field(default_factory=list)
    """When it gave which tasks to the pool."""
    tasks: dict[int, Span] = field(default_factory=dict)
    """The tasks it did."""


def read_threads(profile: Any) -> list[Thread]:
    """What each thread did, of a profile as JAX gives it."""
    return [_read_thread(line.events) for plane in profile.planes for line in plane.lines]


def _read_thread(events: Any) -> Thread:
    thread = Thread()
    begun: list[tuple[float, int]] = []
    for event in events:
        name, start, end = event.name, event.start_ns, event.start_ns + event.duration_ns
        if name == _TASK_GIVEN:
            thread.given.append((start, dict(event.stats).get("_p", -1)))
        elif name == _TASK_BEGIN:
            begun.append((start, dict(event.stats).get("_c", -1)))
        elif name == _TASK_END:
            if begun:
                begin, number = begun.pop()
                thread.tasks[number] = Span(begin, end, name)
        elif name in (_EXECUTOR, _HAND_OVER) or name.startswith((STEP_MARK, INPUT_MARK)):
            thread.spans.append(Span(start, end, name))
        elif not name.startswith("end: "):
            instruction = dict(event.stats).get("hlo_op", "")
            if instruction.startswith(_GRAPH):
                instruction = f"{KERNEL}{name}"
            if instruction:
                thread.spans.append(Span(start, end, name, instruction))
    thread.spans.sort(key=lambda span: (span.start_ns, -span.end_ns))
    return thread


def label_profile(threads: Sequence[Thread], owner_of: OwnerOf) -> LabelledWindow:
    """The labelled window of a profile."""
    window = LabelledWindow()
    spans = [span for thread in threads for span in thread.spans]
    taken = sorted(_numbered(spans, INPUT_MARK))

    def owner_at(start_ns: float, instruction: str) -> Owner:
        """In a window no step begins before the last one ended: the rows just taken tell."""
        place = bisect_right(taken, (start_ns, float("inf"), 0)) - 1
        return owner_of(taken[place][2], instruction) if place >= 0 else UNKNOWN

    ran: Pieces = []
    instructions = trace_tasks(threads)
    for lane, thread in enumerate(threads):
        pieces = _run_pieces(thread, instructions, owner_at)
        ran += pieces
        for start, end, owner, name in pieces:
            window.add(name, start / 1e3, end / 1e3, lane, owner)
        for span in thread.spans:
            if span.name.startswith(INPUT_MARK) or span.name == _HAND_OVER:
                name = "hand rows over" if span.name == _HAND_OVER else "take rows"
                window.add(name, span.start_ns / 1e3, span.end_ns / 1e3, lane, INPUT, RANGE)
    _add_steps(window, sorted(_numbered(spans, STEP_MARK)), taken, sorted(ran, key=_start))
    return window


def _start(piece: tuple[float, float, Owner, str]) -> float:
    return piece[0]


def _numbered(spans: Sequence[Span], prefix: str) -> list[tuple[float, float, int]]:
    """Start, end and number of events with that name."""
    return [
        (span.start_ns, span.end_ns, int(span.name[len(prefix) :]))
        for span in spans
        if span.name.startswith(prefix)
    ]


def _run_pieces(
    thread: Thread, instructions: dict[int, str], owner_at: Callable[[float, str], Owner]
) -> Pieces:
    """The instructions of a thread and the tasks it did for those of others."""
    found: Pieces = [
        (span.start_ns, span.end_ns, owner_at(span.start_ns, span.instruction), span.instruction)
        for span in thread.spans
        if span.instruction
    ]
    runs = [span for span in thread.spans if span.name == _EXECUTOR]
    starts = [span.start_ns for span in runs]
    for number, task in thread.tasks.items():
        name = instructions.get(number)
        if name is not None:
            owner = owner_at(task.start_ns, name)
            inside = runs[bisect_right(starts, task.start_ns) : bisect_right(starts, task.end_ns)]
            found += [(start, end, owner, name) for start, end in _without(task, inside)]
    return found


def _without(task: Span, runs: Sequence[Span]) -> list[tuple[float, float]]:
    """A task without the instructions that its thread went on to run inside of it."""
    pieces = []
    begin = task.start_ns
    for run in runs:
        pieces.append((begin, run.start_ns))
        begin = max(begin, run.end_ns)
    pieces.append((begin, task.end_ns))
    return [(start, end) for start, end in pieces if end > start]


def _add_steps(
    window: LabelledWindow,
    marks: Sequence[tuple[float, float, int]],
    taken: Sequence[tuple[float, float, int]],
    ran: Pieces,
) -> None:
    """The marks of steps, and ranges for what the host did while none of a step's work ran."""
    starts = [piece[0] for piece in ran]
    for before, after in zip(marks, marks[1:]):
        window.mark(before[2], before[0] / 1e3)
        own = ran[bisect_right(starts, before[0]) : bisect_right(starts, after[0])]
        begins = [end for start, end, _ in taken if before[0] <= start < after[0]]
        if own and begins and after[2] == before[2] + 1:
            window.add(
                "launch", begins[-1] / 1e3, own[0][0] / 1e3, "launch", _all_layers(own), RANGE
            )
            _add_gaps(window, own)
            # The mark itself follows: between the two is what a window adds.
            window.mark(after[2], min(after[0], max(end for _, end, _, _ in own)) / 1e3)
    if marks:
        window.mark(marks[-1][2], marks[-1][0] / 1e3)


def _all_layers(own: Pieces) -> Owner:
    """A program is launched for all of its instructions; each counts the same."""
    weights: dict[tuple[str, str], float] = {}
    for _, _, owner, _ in own:
        parts = owner.get("shares", ())
        if "layer" in owner:
            parts = ((owner["layer"], owner["phase"], 1.0),)
        for name, phase, weight in parts:
            weights[name, phase] = weights.get((name, phase), 0.0) + weight
    return share([(name, phase, weight) for (name, phase), weight in weights.items()])


def _add_gaps(window: LabelledWindow, own: Pieces) -> None:
    """Inside a program nothing but the way to the next instruction lies between two of them."""
    until = own[0][1]
    for start, end, owner, name in own:
        if start - until >= LEAST_GAP_NS:
            window.add(f"way to {name}", until / 1e3, start / 1e3, "way", owner, RANGE)
        until = max(until, end)


def trace_tasks(threads: Sequence[Thread]) -> dict[int, str]:
    """The instruction that each task of the pool is of, by the task's number.

    A task is of the innermost instruction, or task, inside of which it was given to the pool.
    """
    found: dict[int, str] = {}
    parents: dict[int, int] = {}
    for thread in threads:
        for number, (span, task) in _givers(thread):
            if span.instruction:
                found[number] = span.instruction
            elif task >= 0:
                parents[number] = task
    for number in parents:
        chain = [number]
        while chain[-1] in parents and chain[-1] not in found and len(chain) <= len(parents):
            chain.append(parents[chain[-1]])
        if chain[-1] in found:
            found.update((member, found[chain[-1]]) for member in chain)
    return found


def _givers(thread: Thread) -> list[tuple[int, tuple[Span, int]]]:
    """Each task that a thread gave, and the innermost span it did so in with its own number."""
    inside = [(span, -1) for span in thread.spans]
    inside += [(span, number) for number, span in thread.tasks.items()]
    inside.sort(key=lambda pair: (pair[0].start_ns, -pair[0].end_ns))
    found = []
    stack: list[tuple[Span, int]] = []
    place = 0
    for at, number in sorted(thread.given):
        while place < len(inside) and inside[place][0].start_ns <= at:
            stack.append(inside[place])
            place += 1
        stack = [pair for pair in stack if pair[0].end_ns >= at]
        if stack:
            found.append((number, stack[-1]))
    return found
