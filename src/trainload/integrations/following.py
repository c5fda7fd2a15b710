"""A recording that another tool's hooks open, feed and close; whatever fails, the training goes on.

What the callbacks share. Under `trainload run` the training is measured already, and nothing is
opened a second time.
"""

from __future__ import annotations

import atexit
import functools
import json
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, ParamSpec

from trainload.integrations.watch import Watch, watch
from trainload_worker.protocol.events import EpochDone

_PREFIXES = ("validation", "valid", "val", "eval", "test")
_SCORES = {
    "loss": "loss",
    "accuracy": "accuracy",
    "acc": "accuracy",
    "f1_weighted": "f1_weighted",
    "f1_macro": "f1_macro",
    "top5_accuracy": "top5_accuracy",
}
"""What validations are called by their tools, and in the record."""
_P = ParamSpec("_P")


@dataclass
class _Epoch:
    """One epoch as far as it was seen."""

    number: int
    start_s: float
    first_step: int | None
    end_s: float | None = None
    steps: int | None = None
    train_loss: float | None = None
    input_wait_s: float | None = None
    validation: tuple[float | None, float | None] = (None, None)
    scores: dict[str, float] = field(default_factory=dict)


def fails_open(hook: Callable[_P, None]) -> Callable[_P, None]:
    """The same hook, but what it raises is a warning and not the end of the training."""

    @functools.wraps(hook)
    def guarded(*args: _P.args, **kwargs: _P.kwargs) -> None:
        try:
            hook(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - the user's training comes first
            _warn(f"the training goes on unmeasured: {type(error).__name__}: {error}")

    return guarded


class Following:
    """One training after another, as the hooks of a tool tell of them."""

    def __init__(self, name: str, out: str | Path, *, lasts: bool = False, **options: Any) -> None:
        """`lasts`: nothing but the program's end ends a training. Options are those of `watch`."""
        self._lasts = lasts
        self._name, self._out, self._options = name, out, options
        self._watch: Watch | None = None
        self._epoch: _Epoch | None = None
        self.path: Path | None = None
        """The run directory of the latest training; None where nothing was recorded."""

    @property
    def watch(self) -> Watch | None:
        """The recording; None while there is none."""
        return self._watch

    @fails_open
    def begin(self, *, model: Any = None, config: Mapping[str, Any] | None = None) -> None:
        """Opens a recording; one that was never ended is closed first."""
        from trainload.integrations.door import is_measured

        if self._watch is not None:
            self._leave("another training began before this one was ended")
        self.path = None
        if is_measured():
            return
        opened = watch(
            self._name, out=self._out, model=model, config=plain_values(config), **self._options
        )
        opened.__enter__()
        self._watch, self.path = opened, opened.path
        atexit.register(self._at_exit)

    @fails_open
    def begin_epoch(self, number: int, step: int | None = None) -> None:
        """An epoch begins; `step` counts the training's steps so far."""
        self._tell_epoch()
        self._epoch = _Epoch(number, monotonic(), step)

    @fails_open
    def end_epoch(self, step: int | None = None, *, train_loss: Any = None) -> None:
        """The epoch's last step is done; a validation may still follow."""
        epoch = self._epoch
        if epoch is None:
            return
        begun_s = epoch.validation[0]
        epoch.end_s = monotonic() if begun_s is None else begun_s
        if step is not None and epoch.first_step is not None:
            epoch.steps = step - epoch.first_step
        epoch.train_loss = number_of(train_loss)

    @fails_open
    def add_input_wait(self, seconds: float) -> None:
        """So long the epoch's steps waited for their rows."""
        if self._epoch is not None:
            self._epoch.input_wait_s = (self._epoch.input_wait_s or 0.0) + seconds

    @fails_open
    def begin_validation(self) -> None:
        """The epoch's validation begins."""
        if self._epoch is not None:
            self._epoch.validation = (monotonic(), None)

    @fails_open
    def end_validation(self, metrics: Mapping[str, Any], took_s: float | None = None) -> None:
        """It has ended; `took_s` tells its length where nobody told its beginning."""
        epoch, now_s = self._epoch, monotonic()
        if epoch is None:
            return
        begun_s = epoch.validation[0] if took_s is None else now_s - took_s
        epoch.validation = (begun_s, now_s)
        epoch.scores.update(scores_of(metrics))

    @fails_open
    def end(self, error: BaseException | None = None) -> None:
        """Closes the recording; with the error that ended the training as its outcome."""
        opened = self._close_up()
        if opened is not None:
            opened.__exit__(None if error is None else type(error), error, None)

    def _leave(self, reason: str) -> None:
        opened = self._close_up()
        if opened is not None:
            opened.break_off(reason)

    def _close_up(self) -> Watch | None:
        self._tell_epoch()
        opened, self._watch = self._watch, None
        atexit.unregister(self._at_exit)
        return opened

    def _at_exit(self) -> None:
        """Not every tool tells that a training failed; Python then still knows what ended it."""
        error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
        if isinstance(error, BaseException) or self._lasts:
            self.end(error)
        else:
            fails_open(self._leave)("the program ended before the training did")

    def _tell_epoch(self) -> None:
        epoch, self._epoch = self._epoch, None
        if epoch is None or epoch.end_s is None or self._watch is None:
            return
        begin_s, end_s = epoch.validation
        self._watch.note_epoch(
            EpochDone(
                epoch=epoch.number,
                start_s=epoch.start_s,
                end_s=epoch.end_s,
                steps=epoch.steps,
                train_loss=epoch.train_loss,
                input_wait_s=epoch.input_wait_s,
                validation_start_s=None if end_s is None else begin_s,
                validation_end_s=None if begin_s is None else end_s,
                validation=epoch.scores,
            )
        )


def scores_of(metrics: Mapping[str, Any]) -> dict[str, float]:
    """A validation's figures under the names of the record; those it has no name for are left."""
    found = {}
    for name, value in metrics.items():
        number = number_of(value)
        if number is None:
            continue
        first, slash, rest = name.replace("/", "_", 1).partition("_")
        bare = rest if slash and first in _PREFIXES else name
        if bare in _SCORES and (bare != name or bare != "loss"):
            found[_SCORES[bare]] = number
    return found


def number_of(value: Any) -> float | None:
    """A number, or a tensor of one; None for anything else."""
    try:
        return None if value is None or isinstance(value, str) else float(value)
    except (TypeError, ValueError, RuntimeError):
        return None


def plain_values(config: Mapping[str, Any] | None) -> dict[str, Any]:
    """What of a configuration JSON can hold; the rest is left out."""
    kept: dict[str, Any] = {}
    for name, value in (config or {}).items():
        try:
            kept[str(name)] = json.loads(json.dumps(value, allow_nan=False))
        except (TypeError, ValueError):
            continue
    return kept


def _warn(text: str) -> None:
    try:
        warnings.warn(f"trainload: {text}", stacklevel=4)
    except UserWarning as error:
        sys.stderr.write(f"{error}\n")  # warnings are errors to this program
