"""The attribution of a run or of one trace: windows read, partitioned, corrected, summed up.

Ties the other modules together; the only one here that asks a run for its tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainload.analyse.attribution._stream import Progress
from trainload.analyse.attribution.advice import advise
from trainload.analyse.attribution.compiled import Compiled
from trainload.analyse.attribution.correct import correct, share_update, untraced_step_ns
from trainload.analyse.attribution.energy import PowerRange, find_power
from trainload.analyse.attribution.events import Window
from trainload.analyse.attribution.flops import flop_of_steps
from trainload.analyse.attribution.header import TraceHeader, parse_header
from trainload.analyse.attribution.host import Layering, choose_layering, follow_host
from trainload.analyse.attribution.host_times import HostTimes
from trainload.analyse.attribution.labelled import partition_labelled
from trainload.analyse.attribution.lasting import measure_lasting
from trainload.analyse.attribution.machine import find_machine
from trainload.analyse.attribution.memory import Layer, ObservedMemory, observe_memory
from trainload.analyse.attribution.partition import Part, StepParts, busiest_device, partition
from trainload.analyse.attribution.steps import HostStep, StepSource, find_marks, find_steps
from trainload.analyse.attribution.stored import restore_ranks, store_ranks
from trainload.analyse.attribution.trace import open_trace
from trainload.analyse.attribution.traits import TraitsReader
from trainload.analyse.attribution.tree import grow_tree
from trainload.analyse.attribution.types import (
    ROW_COLUMNS,
    RankLayers,
    RunLayers,
    WindowCost,
    row_schema,
)
from trainload.analyse.summary import summarise_run
from trainload.analyse.utilisation import utilisation_of_run
from trainload.errors import TraceError
from trainload.hardware.limits import MachineLimits
from trainload.record import Run

if TYPE_CHECKING:
    import polars as pl

_NS = 1e9
UNUSUAL = 4
"""Times an untraced step: a traced one longer than that is left out: more than training ran."""


def load_run_layers(
    run: Run, *, limits: MachineLimits | None = None, progress: Progress | None = None
) -> RunLayers | None:
    """The attribution of all processes of a run; None where it has no trace.

    Its step is held to `limits`, which such a machine was measured to have. `progress` is called
    with the fraction read of all traces. TraceError where one is none.
    """
    paths = list(run.traces.items())
    if not paths:
        return None
    ranks = restore_ranks(run)
    if ranks is None:
        ranks = _read_ranks(run, paths, progress)
        store_ranks(run, ranks)
    first = ranks[0]
    used = utilisation_of_run(run.manifest, first.device, first.flop, first.step_s, limits)
    return RunLayers(ranks=ranks, advice=advise(ranks, find_machine(run)), utilisation=used)


def _read_ranks(
    run: Run, paths: list[tuple[int, Path]], progress: Progress | None
) -> tuple[RankLayers, ...]:
    summary = summarise_run(run)
    ranks = []
    for at, (rank, path) in enumerate(paths):
        told = _part_of_progress(progress, at, len(paths))
        trace = _read(path, told, inside=True)
        # By the file's name, which no two share; the header may say anything.
        trace.header = replace(trace.header, rank=rank)
        power = find_power(summary, run.samples, trace.device)
        steps = run.steps_of(rank)
        ranks.append(trace.to_layers(steps=steps, training_s=summary.training_s, power=power))
    return tuple(ranks)


def collect_trace(
    path: Path,
    *,
    progress: Progress | None = None,
    header: Mapping[str, Any] | None = None,
    inside: bool = False,
) -> RankLayers:
    """The attribution of a trace from elsewhere, times as traced; TraceError where it is none.

    `header` tells what its own would, for a window not sealed yet; `inside` as `open_trace`.
    """
    trace = _read(path, progress, inside=inside, header=header)
    return trace.to_layers(steps=None, training_s=None, power=None)


def _part_of_progress(progress: Progress | None, at: int, count: int) -> Progress | None:
    if progress is None:
        return None
    return lambda fraction: progress((at + fraction) / count)


def _read(
    path: Path, progress: Progress | None, *, inside: bool = False, header: Any = None
) -> _Trace:
    with open_trace(path, progress=progress, inside=inside) as reader:
        trace = _Trace(path, parse_header(reader.header or header))
        for window in reader.windows():
            trace.add(window)
        trace.notes += reader.notes
    return trace


class _Trace:
    """One process's windows, partitioned; kept are sums, not events."""

    def __init__(self, path: Path, header: TraceHeader) -> None:
        self.path, self.header = path, header
        self.notes: list[str] = list(header.notes)
        self.steps: list[tuple[int, StepParts]] = []
        self.layers: dict[Layer, None] = {}
        self.memory: dict[Layer, ObservedMemory] = {}
        self.layering: Layering = "operations"
        self._device: int | None = None
        self._left_out = 0
        self._damaged = 0
        self._nodes = self._unknown = 0
        self._traits = TraitsReader()
        self._flop: dict[str, float] | None = None
        self._host = HostTimes()

    @property
    def device(self) -> str:
        """Device whose time is partitioned: `cpu`, `cuda:0`, …"""
        if self.header.device is not None:
            return self.header.device
        return "cpu" if self._device is None else f"cuda:{self._device}"

    def add(self, window: Window) -> None:
        """Partition one window."""
        source, steps = find_steps(window)
        steps = self._wanted(window, source, steps)
        if len(window.labelled):
            self._add_labelled(window, source, steps)
            return
        self.layering = choose_layering(window)
        compiled = Compiled(self.header.graphs, self.header.modules)
        host = follow_host(window, self.layering, compiled=compiled)
        device = busiest_device(window)
        self._device = device if device is not None else self._device
        self.layers.update({**host.layers, **dict.fromkeys(compiled.layers())})
        self._damaged += window.damaged
        self._nodes += len(host.backward_starts)
        self._unknown += host.unknown_nodes
        self._note_window(window, source, device)
        if compiled.unknown:
            self._note("compiled regions count as the module that called them")
        for owner, seen in observe_memory(window, host, steps, on_cpu=device is None).items():
            layer = compiled.largest(owner)
            self.memory[layer] = _larger(seen, self.memory.get(layer))
        if window.shaped and steps:
            self._flop = flop_of_steps(
                window.shaped, [(step.begin_ns, step.end_ns) for step in steps]
            )
        if self.header.times_steps(window.index):
            self._traits.add(window, steps)
            found = partition(window, host, steps, device)
            stacks = self.header.stacks.get(window.index)
            self._host.add(stacks, find_marks(window), found)
            for parts in found:
                parts.gaps.clear()
                compiled.share_fused(parts)
                share_update(parts, self.header.modules)
                self.steps.append((window.index, parts))

    def _add_labelled(self, window: Window, source: StepSource, steps: list[HostStep]) -> None:
        """Partition one window of TensorFlow, JAX or MXNet, whose events carry their layers."""
        self.layering = "layer ranges"
        self._damaged += window.damaged
        self._note_window(window, source, None)
        found = partition_labelled(window, steps, self.header.modules)
        self.layers.update(found.layers)
        if self.header.times_steps(window.index):
            for parts in found.steps:
                share_update(parts, self.header.modules)
                self.steps.append((window.index, parts))

    def _wanted(self, window: Window, source: StepSource, steps: list[HostStep]) -> list[HostStep]:
        """The steps of a window that took time and that the header, where there is one, lists."""
        facts = self.header.windows.get(window.index)
        if facts is not None:
            if source != "marks":
                self._left_out += 1
                return []
            steps = [s for s in steps if facts.first_step <= s.step <= facts.last_step]
        return [step for step in steps if step.end_ns > step.begin_ns]

    def _note_window(self, window: Window, source: StepSource, device: int | None) -> None:
        others = set(window.device.device) - {device}
        if others:
            listed = ", ".join(f"cuda:{number}" for number in sorted(others))
            self._note(f"work on {listed} is left out")
        if self.header.own:
            return
        if source != "marks":
            self._note(f"steps are {source}")
        if self.layering != "layer ranges":
            self._note(f"layers are {self.layering}")

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def to_layers(
        self, *, steps: pl.DataFrame | None, training_s: float | None, power: PowerRange | None
    ) -> RankLayers:
        """The figures, corrected where untraced steps are known."""
        if not self.steps:
            raise TraceError(f"{self.path} holds no whole step; trace more of them")
        self._host.name_remainder(self.steps)
        targets = {window: self._untraced(steps, window) for window, _ in self.steps}
        traced = self._usual_steps(targets)
        corrected, all_scaled, known = [], 0, True
        for window, parts in traced:
            target = targets[window]
            known &= target is not None
            if target is None:
                corrected.append(parts.parts)
                continue
            result = correct(parts.parts, target, on_cpu=self.device == "cpu")
            corrected.append(dict(result.parts))
            all_scaled += result.all_scaled
        if all_scaled:
            self._note(
                f"in {all_scaled} of {len(traced)} traced steps the work alone took longer than "
                "an untraced step: all its times are scaled down"
            )
        self._note_fused([parts for _, parts in traced])
        self._last_notes()
        cost = self._cost(training_s, steps)
        return self._rank_layers(traced, corrected, known, cost, power)

    def _usual_steps(self, targets: Mapping[int, int | None]) -> list[tuple[int, StepParts]]:
        """The traced steps without those during which something else than training went on."""
        traced = [(window, parts) for window, parts in self.steps if parts.length_ns > 0]
        usual = [
            (window, parts)
            for window, parts in traced
            if parts.length_ns <= UNUSUAL * (targets[window] or parts.length_ns)
        ]
        if usual and len(usual) < len(traced):
            self._note(
                f"{len(traced) - len(usual)} traced steps are left out that took over {UNUSUAL} "
                "times the usual: validation or saving may have been among them"
            )
        return usual or traced

    def _rank_layers(
        self,
        traced: list[tuple[int, StepParts]],
        corrected: list[dict[Part, int]],
        known: bool,
        cost: WindowCost,
        power: PowerRange | None,
    ) -> RankLayers:
        count = len(traced)
        total: dict[Part, int] = {}
        calls: dict[Part, int] = {}
        for (_, parts), times in zip(traced, corrected, strict=True):
            for part, time_ns in times.items():
                total[part] = total.get(part, 0) + time_ns
            for part, number in parts.calls.items():
                calls[part] = calls.get(part, 0) + number
        step_ns = sum(total.values())
        remainder = sum(time for part, time in total.items() if part.kind == "remainder")
        times_s = {part: time / count / _NS for part, time in total.items()}
        named_s = _by_name(total, count)
        return RankLayers(
            rank=self.header.rank,
            device=self.device,
            step_s=step_ns / count / _NS,
            traced_step_s=sum(parts.length_ns for _, parts in traced) / count / _NS,
            corrected=known,
            explained_fraction=1 - remainder / step_ns if step_ns else 1.0,
            parts=named_s,
            hidden_communication_s=sum(parts.hidden_ns for _, parts in traced) / count / _NS,
            busy_s=sum(parts.busy_ns for _, parts in traced) / count / _NS,
            nodes=grow_tree(
                modules=self.header.modules,
                seen=self.layers,
                layering=self.layering,
                times_s=times_s,
                calls={part: number / count for part, number in calls.items()},
                memory=self.memory,
                power=power,
            ),
            rows=_rows(self.header.rank, traced, corrected),
            cost=cost,
            notes=tuple(self.notes),
            traits=self._traits.traits(self.header.modules),
            flop=self._flop,
            host=self._host.times(named_s),
            sampling=self._host.sampling(),
        )

    def _untraced(self, steps: pl.DataFrame | None, window: int) -> int | None:
        facts = self.header.windows.get(window)
        if steps is None or facts is None:
            return None
        disturbed = [entry.disturbed for entry in self.header.windows.values()]
        return untraced_step_ns(steps, disturbed, facts.first_step, facts.last_step)

    def _note_fused(self, traced: list[StepParts]) -> None:
        fused = sum(parts.fused_ns for parts in traced)
        if fused:
            fraction = fused / sum(parts.length_ns for parts in traced)
            self._note(
                f"{fraction:.1%} of the traced steps are operations fused from several layers: "
                "each is shared out over its layers by their work"
            )

    def _last_notes(self) -> None:
        if self._damaged:
            self._note(f"{self._damaged} damaged events are left out")
        if self._left_out:
            self._note(f"{self._left_out} windows without a whole step are left out")
        if self._unknown:
            self._note(
                f"{self._unknown} of {self._nodes} backward nodes have no forward operation in "
                "the trace: they count to the layer before them"
            )

    def _cost(self, training_s: float | None, steps: pl.DataFrame | None) -> WindowCost:
        windows = self.header.windows.values()
        lasting = None
        if steps is not None:
            lasting = measure_lasting(steps, [window.disturbed for window in windows])
        cost_s = sum(window.cost_s for window in windows)
        cost_s += lasting.lasting_s if lasting is not None else 0.0
        without_s = (training_s or 0.0) - cost_s
        return WindowCost(
            windows=len(self.header.windows),
            cost_s=cost_s,
            fraction=cost_s / without_s if without_s > 0 else None,
            budget=self.header.budget,
            lasting=lasting,
        )


def _larger(one: ObservedMemory, other: ObservedMemory | None) -> ObservedMemory:
    if other is None:
        return one
    peaks = [peak for peak in (one.peak_bytes, other.peak_bytes) if peak is not None]
    return ObservedMemory(
        activation_bytes=max(one.activation_bytes, other.activation_bytes),
        peak_bytes=max(peaks, default=None),
    )


def part_name(part: Part) -> str:
    """The name of a part in `RankLayers.parts`."""
    if part.kind == "layer":
        return part.phase or "forward"
    return f"idle: {part.cause}" if part.kind == "idle" else part.kind


def _by_name(total: Mapping[Part, int], count: int) -> dict[str, float]:
    order = ("forward", "backward", "update", "loss", "input", "copy", "communication", "script",
             "idle: host", "idle: input", "idle: synchronise", "python", "remainder")  # fmt: skip
    named: dict[str, int] = {}
    for part, time_ns in total.items():
        named[part_name(part)] = named.get(part_name(part), 0) + time_ns
    return {name: named[name] / count / _NS for name in order if named.get(name)}


def _rows(
    rank: int, traced: list[tuple[int, StepParts]], corrected: list[dict[Part, int]]
) -> pl.DataFrame:
    import polars as pl

    columns: dict[str, list[Any]] = {name: [] for name in ROW_COLUMNS}
    for (window, parts), times in zip(traced, corrected, strict=True):
        keys = list(times)
        columns["rank"] += [rank] * len(keys)
        columns["window"] += [window] * len(keys)
        columns["step"] += [parts.step] * len(keys)
        for at, name in enumerate(Part._fields):
            columns[name] += [part[at] for part in keys]
        columns["time_s"] += [times[part] / _NS for part in keys]
        columns["traced_s"] += [parts.parts.get(part, 0) / _NS for part in keys]
        columns["calls"] += [parts.calls.get(part) for part in keys]
    return pl.DataFrame(columns, schema=row_schema())
