"""Sees the steps of a Keras program, or takes those that it tells; changes nothing it computes.

Every `fit` is given one callback more. Keras is not imported here but when the program does it: it
reads variables then that a program may set in its first lines.
"""

from __future__ import annotations

import functools
import inspect
from importlib import metadata
from types import ModuleType
from typing import Any, Callable

from trainload_worker.frameworks.backends import Opened
from trainload_worker.frameworks.tensorflow.fits import KerasFits
from trainload_worker.process.after_import import AfterImport
from trainload_worker.process.events import EventWriter
from trainload_worker.training.told_steps import ToldSteps


class StepProbe:
    """Follows every `fit` of the process until the program tells a step itself."""

    def __init__(self, events: EventWriter) -> None:
        self.fits = KerasFits(events)
        self._told = ToldSteps(events)
        self._tells = False
        self._undo: Callable[[], None] = _nothing
        self._import = AfterImport("keras", self._join)
        self.on_backward_step: Callable[[int], None] | None = None

    def attach(self) -> None:
        """Gives each `fit` a callback, from the import of Keras on."""
        self._told.begin()
        self._import.watch()

    def mark_step(self, loss: Any = None, examples: int | None = None) -> None:
        """Takes a step's end from the program; from then on no `fit` is followed."""
        if not self._tells:
            self._tells = True
            self._undo()
        self._told.mark(loss, examples)

    def finish(self) -> None:
        """Writes what is still held and leaves Keras as it was."""
        self._import.leave()
        self._undo()
        self.fits.finish()
        self._told.finish()

    def _join(self, keras: ModuleType) -> None:
        owner = next(kind for kind in keras.Model.__mro__ if "fit" in vars(kind))
        original = vars(owner)["fit"]
        signature = inspect.signature(original)
        callback = make_callback(keras, self.fits)

        @functools.wraps(original)
        def fit(*args: Any, **kwargs: Any) -> Any:
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError:
                return original(*args, **kwargs)  # which says what is wrong
            given = bound.arguments.get("callbacks")
            bound.arguments["callbacks"] = _with(keras, given, callback)
            return original(*bound.args, **bound.kwargs)

        def undo() -> None:
            self._undo = _nothing
            if vars(owner).get("fit") is fit:
                owner.fit = original

        owner.fit, self._undo = fit, undo


def _with(keras: ModuleType, given: Any, callback: Any) -> Any:
    """The program's callbacks and one more; a list of Keras' own kind is added to in place."""
    if isinstance(given, keras.callbacks.CallbackList):
        if callback not in given.callbacks:
            given.callbacks.append(callback)
            callback.set_model(given.model)
        return given
    several = given if isinstance(given, (list, tuple)) else [] if given is None else [given]
    return [*several, callback]


def make_callback(keras: ModuleType, fits: KerasFits) -> Any:
    """A Keras callback that tells `fits` what happens."""

    class FollowFit(keras.callbacks.Callback):  # type: ignore[name-defined, misc]
        """Told by Keras, in whatever thread it uses: so it need not wait for us."""

        async_safe = True

        def on_train_begin(self, _logs: Any = None) -> None:
            fits.begin_fit(self.model)

        def on_epoch_begin(self, epoch: int, _logs: Any = None) -> None:
            fits.begin_epoch(epoch)

        def on_train_batch_begin(self, _batch: int, logs: Any = None) -> None:  # noqa: ARG002
            fits.begin_batch()

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            fits.end_batch(batch, logs or {})

        def on_test_begin(self, _logs: Any = None) -> None:
            fits.begin_validation()

        def on_test_end(self, _logs: Any = None) -> None:
            fits.end_validation()

        def on_epoch_end(self, _epoch: int, logs: Any = None) -> None:
            fits.end_epoch(logs or {})

    return FollowFit()


def open_framework() -> Opened:
    """Versions from the packages' metadata: nothing is imported, no device touched."""
    names = ("tensorflow", "tensorflow-cpu", "keras")
    found = {name: version for name in names if (version := _version(name)) is not None}
    return Opened(
        version=found.get("tensorflow") or found.get("tensorflow-cpu") or "unknown",
        software=found,
        device="as the program chooses",
        threads=None,
        accelerators=None,
        notes=[],
    )


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _nothing() -> None:
    """Stands where nothing has to be undone."""
