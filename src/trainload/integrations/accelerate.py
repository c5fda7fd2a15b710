"""Accelerate: a tracker that records what is trained between `init_trackers` and `end_training`.

    Accelerator(log_with=TrainloadTracker())

Steps, losses and layers are seen as in any torch program; what is logged with an `epoch` is kept as
that epoch's scores. A script without it is measured by `trainload run` as it stands.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from accelerate.tracking import GeneralTracker

from trainload.integrations.following import Following


class TrainloadTracker(GeneralTracker):  # type: ignore[misc]
    """One run; `path` is its directory. Options are those of `trainload.watch`."""

    name = "trainload"
    requires_logging_directory = False
    main_process_only = False

    def __init__(
        self, run_name: str = "accelerate", *, out: str | Path = "runs", **options: Any
    ) -> None:
        super().__init__()
        self._following = Following(run_name, out, framework="torch", **options)

    @property
    def tracker(self) -> Following:
        """What records."""
        return self._following

    @property
    def path(self) -> Path | None:
        """The run directory; None where nothing is recorded."""
        return self._following.path

    def store_init_configuration(self, values: Mapping[str, Any]) -> None:
        """Opens the recording with that configuration; the first epoch begins."""
        self._following.begin(config=values)
        self._following.begin_epoch(0)

    def log(self, values: Mapping[str, Any], step: int | None = None, **_told: Any) -> None:  # noqa: ARG002
        """Ends an epoch where `epoch` is among the values; other figures are another tracker's."""
        number = values.get("epoch")
        if not isinstance(number, int) or isinstance(number, bool):
            return
        self._following.end_epoch(train_loss=values.get("train_loss"))
        self._following.end_validation(values, 0.0)
        self._following.begin_epoch(number + 1)

    def finish(self) -> None:
        """The training is done."""
        self._following.end()
