"""Keras: a callback that records each `fit` as a run.

    model.fit(…, callbacks=[TrainloadCallback()])

A script without it is measured by `trainload run --framework tensorflow` as it stands.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras

from trainload.integrations.following import Following, fails_open


class TrainloadCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """Records each `fit`; `path` is the run directory. Options are those of `trainload.watch`."""

    async_safe = True
    """So that Keras need not wait for it in every step."""

    def __init__(self, name: str = "keras", *, out: str | Path = "runs", **options: Any) -> None:
        super().__init__()
        self._following = Following(name, out, framework="tensorflow", follows=False, **options)
        self._inner: Any = None

    @property
    def path(self) -> Path | None:
        """The run directory of the latest `fit`; None where nothing was recorded."""
        return self._following.path

    def on_train_begin(self, logs: Any = None) -> None:
        """Opens the recording."""
        self._following.begin(config={"epochs": (self.params or {}).get("epochs")})
        self._inner = None
        self._join()
        if self._inner is not None:
            self._inner.on_train_begin(logs)

    @fails_open
    def _join(self) -> None:
        from trainload.integrations.door import keras_callback

        opened = self._following.watch
        if opened is not None:
            self._inner = keras_callback(keras, opened.probe)
            self._inner.set_model(self.model)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """An epoch begins."""
        if self._inner is not None:
            self._inner.on_epoch_begin(epoch, logs)

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """A step begins."""
        if self._inner is not None:
            self._inner.on_train_batch_begin(batch, logs)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """A step has ended."""
        if self._inner is not None:
            self._inner.on_train_batch_end(batch, logs)

    def on_test_begin(self, logs: Any = None) -> None:
        """A validation begins."""
        if self._inner is not None:
            self._inner.on_test_begin(logs)

    def on_test_end(self, logs: Any = None) -> None:
        """It has ended."""
        if self._inner is not None:
            self._inner.on_test_end(logs)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """An epoch has ended, with its validation."""
        if self._inner is not None:
            self._inner.on_epoch_end(epoch, logs)

    def on_train_end(self, logs: Any = None) -> None:  # noqa: ARG002
        """The training is done. One that fails is ended where the program is."""
        self._inner = None
        self._following.end()
