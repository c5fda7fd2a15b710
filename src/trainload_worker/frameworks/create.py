"""Makes backends and probes by what their frameworks offer; imports one only when asked for."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Callable, Iterable, Sequence, cast

from trainload_worker.errors import FrameworkError, SpecError
from trainload_worker.frameworks.backends import (
    Backend,
    KeptBackend,
    LayerSummary,
    Opened,
    Probe,
    RankedBackend,
    StepFollower,
    StepSeer,
)
from trainload_worker.process.events import EventWriter, greet, read_cores
from trainload_worker.protocol import offers
from trainload_worker.protocol.events import OpTraceSaved
from trainload_worker.protocol.offers import Offer
from trainload_worker.protocol.spec import LayersSpec, MeasureSpec, SweepSpec, TraceSpec, TrainSpec
from trainload_worker.windows.graph_windows import LayerWindows, TracedBackend

if TYPE_CHECKING:
    from trainload_worker.limits.programs import Program


def create_backend(spec: TrainSpec) -> KeptBackend:
    """Imports the framework and readies its backend; FrameworkError where it cannot be imported."""
    offer, precision = _find(spec.framework), spec.training.precision
    if precision not in offer.precisions:
        known = " or ".join(offer.precisions)
        raise SpecError(f"{offer.name} trains in {known} here, not in {precision}")
    if spec.rank is not None and not offer.ranks:
        raise SpecError(f"{offer.name} trains a built-in model in one process")
    if spec.setting.threads is not None:
        for name in offer.thread_variables:
            os.environ[name] = str(spec.setting.threads)
    backend: KeptBackend = _import(offer, "backend").create(spec)
    return backend


def leave_ranks(backend: KeptBackend, spec: TrainSpec) -> None:
    """Parts from the other ranks of a training that is done; does nothing for one alone."""
    if spec.rank is not None:
        cast("RankedBackend", backend).leave()


def create_probe(
    framework: str, events: EventWriter, *, told: bool = False
) -> tuple[StepSeer, Opened]:
    """The probe for programs of that framework; FrameworkError where it cannot be imported.

    `told`: the program may tell its steps itself, so that nothing has to be seen.
    """
    offer = _find(framework)
    if not offer.scripts and not (told and offer.told_steps):
        known = _names(one for one in offers.list_offers() if one.scripts)
        raise SpecError(f"scripts of {framework!r} cannot be watched; this worker knows {known}")
    module = _import(offer, "probe")
    return module.StepProbe(events), module.open_framework()


def create_layer_probe(
    framework: str, events: EventWriter, layers: LayersSpec | None
) -> StepFollower:
    """The probe that tells layers of any program apart; without a request one that does nothing."""
    if layers is None:
        return NoProbe()
    offer = _find(framework)
    if not offer.script_layers:
        known = _names(one for one in offers.list_offers() if one.script_layers)
        raise SpecError(f"layers of {framework!r} cannot be told apart; this worker knows {known}")
    probe: StepFollower = _import(offer, "layers").LayerProbe(events, layers)
    return probe


def watch_layers(
    backend: Backend, spec: TrainSpec, summaries: Sequence[LayerSummary], events: EventWriter
) -> tuple[Backend, Probe]:
    """The backend to train with and the probe that tells layers apart, where that is asked for."""
    offer = _find(spec.framework)
    if spec.layers is None or offer.script_layers:
        return backend, create_layer_probe(spec.framework, events, spec.layers)
    if not offer.graph_layers:
        raise SpecError(f"layers of {spec.framework!r} cannot be told apart; leave --layers out")
    traced = cast("TracedBackend", backend)
    windows = LayerWindows(traced, spec, spec.layers, summaries, events)
    return windows, windows


def trace_operations(spec: TraceSpec, events: EventWriter) -> OpTraceSaved:
    """Traces a step's operations without running it; what the trace has, as an event."""
    offer = _find(spec.framework)
    if not offer.op_trace:
        known = _names(one for one in offers.list_offers() if one.op_trace)
        raise SpecError(f"steps of {spec.framework} cannot be traced; only those of {known}")
    found: OpTraceSaved = _import(offer, "fake_step.trace").trace_step(spec, events)
    return found


def sweep_kernels(spec: SweepSpec, events: EventWriter, check: Callable[[], None]) -> None:
    """Times the device's kernels and says each as an event; `check` raises where it is to end."""
    offer = _find(spec.framework)
    if not offer.sweep:
        known = _names(one for one in offers.list_offers() if one.sweep)
        raise SpecError(f"kernels cannot be timed with {spec.framework}; only with {known}")
    opened = _import(offer, "probe").open_framework(ask_device=spec.target == "cuda")
    greet(events, spec.framework, opened, [])
    _import(offer, "sweep.sweep").sweep_device(spec, events, check)


def measure_limits(spec: MeasureSpec, events: EventWriter, check: Callable[[], None]) -> None:
    """Measures what the machine reaches and says each figure; `check` raises where it is to end.

    Without the framework the programs that need it are said to lack, and the others run.
    """
    from trainload_worker.limits.programs import run_programs
    from trainload_worker.limits.sampling import Lacking, Place

    offer = _find(spec.framework)
    cores = spec.setting.cores or read_cores() or tuple(range(os.cpu_count() or 1))

    def programs() -> dict[str, Program]:
        if not offer.limits:
            raise Lacking(f"no program measures with {offer.name}")
        try:
            opened = _import(offer, "probe").open_framework(ask_device=True)
            found: dict[str, Program] = _import(offer, "limits.programs").PROGRAMS
        except FrameworkError as error:
            raise Lacking(str(error)) from None
        greet(events, spec.framework, opened, [])
        return found

    place = Place(folder=spec.folder, cores=tuple(cores), quick=spec.quick, check=check)
    run_programs(spec, place, programs, events)


class NoProbe:
    """Watches nothing."""

    def attach(self) -> None:
        """Installs no hook."""

    def mark_step(self, number: int | None = None) -> None:
        """Follows nothing."""

    def finish(self) -> None:
        """Has nothing to write."""


def _find(framework: str) -> Offer:
    try:
        return offers.find_offer(framework)
    except offers.UnknownFramework:
        known = ", ".join(sorted(offers.FRAMEWORKS))
        raise SpecError(f"framework {framework!r} is unknown; this worker has {known}") from None


def _import(offer: Offer, part: str) -> Any:
    try:
        return offers.import_part(offer.name, part)
    except (ImportError, OSError) as error:
        raise FrameworkError(f"{offer.name} cannot be imported: {error}") from error


def _names(able: Iterable[Offer]) -> str:
    return ", ".join(offer.name for offer in able)
