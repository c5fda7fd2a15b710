"""`trainload.watch`: measures a training from inside the process that trains.

For notebooks and loops that nobody wants to move into a script. The sampler runs in a process of
its own, as always; steps and layers are seen from within. Nothing in here ends the training.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
import time
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from trainload.errors import RecordError, TrainloadError, UsageError, WorkerError
from trainload.hardware import read_machine, resolve_setting
from trainload.integrations.ranks import Rank, find_rank, join_run, offer_run, withdraw_run
from trainload.record import layout, seal_run
from trainload.run.recording import Recording, open_recording
from trainload.run.request import RunRequest
from trainload.workload import WatchedWorkload
from trainload_worker.protocol.events import End, EpochDone, PhaseEdge
from trainload_worker.protocol.offers import Offer, UnknownFramework, find_offer, list_offers
from trainload_worker.protocol.outcomes import WorkerOutcome
from trainload_worker.protocol.spec import LayersSpec

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


class Watch:
    """One watched training; use it as a context manager.

    `path` is the run directory. `step` is needed only where neither an optimizer of torch is
    stepped nor a model of Keras fitted, or where its steps are not the training's.
    """

    def __init__(self, request: RunRequest, model: Any, *, follows: bool = True) -> None:
        """With `follows=False` steps are not looked for: a tool's own hooks bring them."""
        self._request = request
        self._model = model
        self._follows = follows
        self._sees_rows = find_offer(request.framework).script_layers
        self._rank: Rank = find_rank()
        self._recording: Recording | None = None
        self._events: Any = None
        self._steps: Any = None
        self._layers: Any = None
        self.path: Path

    def __enter__(self) -> Watch:
        """Creates the run directory and begins to watch; RecordError where that is refused."""
        from trainload.integrations.door import WorkerProblem

        # The tracer would print two lines at every window.
        os.environ.setdefault("KINETO_LOG_LEVEL", "99")
        self._open_directory()
        try:
            self._begin()
        except WorkerProblem as error:
            self._close("failed", str(error))
            raise UsageError(
                f"trainload.watch needs {self._request.framework} here: {error}"
            ) from error
        except BaseException as error:
            self._end_probes()
            self._close("failed", f"the watch could not begin: {type(error).__name__}: {error}")
            raise
        return self

    def _begin(self) -> None:
        from trainload.integrations.door import (
            EventWriter,
            create_layer_probe,
            create_probe,
            greet,
        )

        rank, framework = self._rank.number, self._request.framework
        self._events = EventWriter(str(self.path / layout.events_file(rank)))
        budget = self._request.layer_budget
        spec = None
        if budget is not None:
            folder = str(self.path.resolve())
            plan = f"{folder}/{layout.WINDOW_PLAN}" if self._rank.count > 1 else None
            spec = LayersSpec(budget, folder, layout.window_form(rank), plan, leads=rank == 0)
        self._steps, opened = create_probe(framework, self._events, told=True)
        self._layers = create_layer_probe(framework, self._events, spec)
        greet(self._events, framework, replace(opened, device="as the program chooses"), ())
        self._events.write(PhaseEdge("script", "begin", time.monotonic()))
        if self._recording is not None:
            self._start_sampler(self._recording)
        if self._follows:
            self._steps.attach()
        self._layers.attach()
        self._steps.on_backward_step = self._layers.mark_step
        refusal = None if budget is None else self._layers.refusal
        if refusal is not None:
            self._warn(f"no layers here: {refusal}")
        if self._model is not None and budget is not None:
            self._layers.name_model(self._model)

    @property
    def probe(self) -> Any:
        """What sees the steps; for hooks of other tools. None before the block is entered."""
        return self._steps

    def note_epoch(self, epoch: EpochDone) -> None:
        """Keeps an epoch that somebody else saw end."""
        if self._events is not None:
            self._events.write(epoch)

    def step(self, loss: Any = None, examples: int | None = None) -> None:
        """Ends a step here; from the first call on, optimizers no longer do.

        `loss` is a number or a tensor; a tensor on a device is not waited for. `examples` is how
        many rows the step trained on; in torch they are seen without it.
        """
        if self._steps is None:
            raise UsageError("step() belongs inside the with block of trainload.watch")
        if self._sees_rows:
            self._steps.mark_step(loss)
        else:
            self._steps.mark_step(loss, examples)
        if self._request.layer_budget is not None:
            self._layers.mark_step()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ends the record with its outcome; an error of the training goes on its way."""
        from trainload.integrations.door import classify

        self._end_probes()
        if error is None or (isinstance(error, SystemExit) and error.code in (None, 0)):
            self._close("completed", None)
        elif isinstance(error, KeyboardInterrupt):
            self._close("interrupted", "Ctrl-C")
        elif isinstance(error, GeneratorExit):
            self._close("interrupted", "the generator around it was closed")
        else:
            ending = classify(error, "script")
            self._close(ending.outcome, ending.reason)

    def break_off(self, reason: str) -> None:
        """Ends the record where nobody told how the training ended."""
        self._end_probes()
        self._close("interrupted", reason)

    def _end_probes(self) -> None:
        for probe in (self._layers, self._steps):
            if probe is not None:
                probe.finish()

    def _open_directory(self) -> None:
        if self._rank.number > 0:
            self.path = join_run(self._rank, self._request.out)
            return
        self._recording = open_recording(self._request, processes=self._rank.count)
        self.path = self._recording.path
        offer_run(self._rank, self.path)

    def _start_sampler(self, recording: Recording) -> None:
        try:
            recording.sample(os.getpid())
        except (WorkerError, RecordError) as error:
            self._warn(f"training goes on unmeasured: {error}")

    def _close(self, outcome: WorkerOutcome, reason: str | None) -> None:
        now_s = time.monotonic()
        if self._events is not None:
            lost = self._events.lost_count
            self._events.write(PhaseEdge("script", "end", now_s))
            self._events.write(End(outcome, reason, t_s=now_s, events_lost=lost))
            self._events.close()
        if self._recording is None:
            return
        withdraw_run(self._rank, self.path.parent)
        status = 0 if outcome == "completed" else 1
        try:
            self._recording.close(status, unpaused="a watched training is not paused for it")
        except (OSError, RecordError) as error:
            self._warn(f"the record could not be closed: {error}")
            return
        self._seal()
        sys.stdout.write(f"trainload: {self.path}\n")

    def _seal(self) -> None:
        """Pack the record where that can be done; other ranks may still be writing to theirs."""
        if self._rank.count > 1 or importlib.util.find_spec("polars") is None:
            return
        try:
            seal_run(self.path)
        except (OSError, TrainloadError) as error:
            self._warn(f"the record is whole but not packed: {error}")

    def _warn(self, text: str) -> None:
        if self._recording is not None:
            self._recording.warnings.append(text)
        try:
            warnings.warn(f"trainload.watch: {text}", stacklevel=3)
        except UserWarning as error:
            # Warnings are errors to this program, but not worth its training.
            sys.stderr.write(f"{error}\n")


def watch(
    name: str = "watched",
    *,
    out: str | Path = "runs",
    model: Any = None,
    config: Mapping[str, Any] | None = None,
    layers: bool = True,
    layer_budget: float = 0.03,
    rate_hz: float = 10.0,
    framework: str | None = None,
    follows: bool = True,
) -> Watch:
    """Measures the training inside its `with` block and leaves one run directory.

    `name` names the run; `config` is kept with it; `model` helps to name layers where parts of a
    torch model are called on their own. `framework` is by default the first of torch, tensorflow
    and jax that is imported, else the first that is installed. UsageError for values that make no
    sense.
    """
    for word, value in (("layer_budget", layer_budget), ("rate_hz", rate_hz)):
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise UsageError(f"{word} must be a number, not {value!r:.80}")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UsageError(f"name {name!r}: use letters, digits, '.', '_' and '-'")
    try:
        kept = json.loads(json.dumps(dict(config or {}), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise UsageError(f"config must be values that JSON can hold: {error}") from None
    offer = _find_watched(framework)
    traced = layers and offer.script_layers
    if model is not None and traced and not callable(getattr(model, "named_modules", None)):
        raise UsageError(f"model must be a torch module, not {type(model).__name__}")
    machine = read_machine()
    request = RunRequest(
        workload=WatchedWorkload(name=name, config=kept),
        machine=machine,
        setting=resolve_setting(None, None, machine),
        out=Path(out),
        framework=offer.name,
        rate_hz=rate_hz,
        check_overhead=False,
        layer_budget=layer_budget if traced else None,
    )
    return Watch(request, model, follows=follows)


def _find_watched(name: str | None) -> Offer:
    """The framework by its name, else the one that this process uses or could use."""
    able = [offer for offer in list_offers() if offer.told_steps]
    if name is not None:
        known = ", ".join(offer.name for offer in able)
        try:
            found = find_offer(name)
        except UnknownFramework:
            raise UsageError(f"framework {name!r}: trainload.watch knows {known}") from None
        if found not in able:
            raise UsageError(f"framework {name!r}: trainload.watch knows {known}")
        return found
    for offer in able:
        if any(module in sys.modules for module in offer.modules):
            return offer
    found_spec = importlib.util.find_spec
    return next((one for one in able if found_spec(one.modules[0]) is not None), able[0])
