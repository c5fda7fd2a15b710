"""Lightning: a callback, or a profiler, that records each `fit` as a run.

    Trainer(callbacks=[TrainloadCallback()])
    Trainer(profiler=TrainloadProfiler())

Steps, losses, rows and layers are seen as in any torch program; epochs, validations and what the
loop waits for its rows come from Lightning's own hooks.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from typing import Any

from trainload.integrations.following import Following, fails_open

try:
    from lightning.pytorch.callbacks import Callback
    from lightning.pytorch.profilers import Profiler
except ImportError:  # the same under its older name
    from pytorch_lightning.callbacks import Callback
    from pytorch_lightning.profilers import Profiler

_ROWS = "train_dataloader_next"
_FIT, _EPOCH = "fit", "run_training_epoch"


class TrainloadCallback(Callback):  # type: ignore[misc]
    """Records each `fit`; `path` is the run directory. Options are those of `trainload.watch`."""

    def __init__(
        self, name: str = "lightning", *, out: str | Path = "runs", **options: Any
    ) -> None:
        self._following = Following(name, out, framework="torch", **options)

    @property
    def path(self) -> Path | None:
        """The run directory of the latest `fit`; None where nothing was recorded."""
        return self._following.path

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Opens the recording; in one process of those that Lightning itself starts."""
        if trainer.is_global_zero or "RANK" in os.environ:
            config = getattr(pl_module, "hparams", None)
            kept = config if isinstance(config, Mapping) else None
            self._following.begin(model=pl_module, config=kept)

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002
        """An epoch begins."""
        self._following.begin_epoch(trainer.current_epoch, trainer.global_step)

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002
        """A validation begins; the one before all training is not counted."""
        if not trainer.sanity_checking:
            self._following.begin_validation()

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002
        """It has ended."""
        if not trainer.sanity_checking:
            self._following.end_validation(trainer.callback_metrics)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002
        """An epoch has ended, with its validation."""
        loss = trainer.callback_metrics.get("train_loss")
        self._following.end_epoch(trainer.global_step, train_loss=loss)

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:  # noqa: ARG002
        """The training failed or was interrupted."""
        self._following.end(exception)

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002
        """The training is done."""
        self._following.end()


class TrainloadProfiler(Profiler):  # type: ignore[misc]
    """Records each `fit` as the callback does, and how long steps waited for their rows.

    Its report, which Lightning prints at the end, says where the seconds of a step went.
    """

    def __init__(
        self, name: str = "lightning", *, out: str | Path = "runs", **options: Any
    ) -> None:
        super().__init__()
        self._following = Following(name, out, framework="torch", **options)
        self._begun_s: dict[str, float] = {}
        self._epochs = 0
        self._told = True

    @property
    def path(self) -> Path | None:
        """The run directory of the latest `fit`; None where nothing was recorded."""
        return self._following.path

    def setup(self, stage: str, local_rank: int | None = None, log_dir: str | None = None) -> None:
        """Opens the recording where a `fit` begins."""
        super().setup(stage=stage, local_rank=local_rank, log_dir=log_dir)
        if stage == _FIT and (local_rank in (None, 0) or "RANK" in os.environ):
            self._epochs, self._told = 0, False
            self._following.begin()

    def start(self, action_name: str) -> None:
        """Lightning begins something."""
        if action_name == _EPOCH:
            self._following.begin_epoch(self._epochs)
        elif action_name.endswith(_ROWS):
            self._begun_s[action_name] = monotonic()

    def stop(self, action_name: str) -> None:
        """And has done it."""
        if action_name == _EPOCH:
            self._epochs += 1
            self._following.end_epoch()
        elif action_name.endswith(_ROWS):
            begun_s = self._begun_s.pop(action_name, None)
            if begun_s is not None:
                self._following.add_input_wait(monotonic() - begun_s)

    def summary(self) -> str:
        """Closes the recording; what the run was, in words. Empty where nothing was recorded."""
        self._following.end()
        path = self.path
        if path is None or self._told:
            return ""
        self._told = True
        said: list[str] = []
        fails_open(lambda: said.append(_render(path)))()
        return "".join(said)

    def teardown(self, stage: str | None) -> None:
        """Ends with whatever is recorded; a failed training has no report."""
        if getattr(self, "_following", None) is not None and self._following.watch is not None:
            self._following.end()
        super().teardown(stage=stage)


def _render(path: Path) -> str:
    """A run in three lines: its steps, what they waited for rows, where all the rest stands."""
    from trainload.analyse import summarise_run
    from trainload.record import open_run
    from trainload.units import render_percent, render_seconds

    summary = summarise_run(open_run(path))
    median_s, rate = summary.step_time.median_s, summary.examples_per_s
    lines = [f"trainload: {summary.steps} steps in {render_seconds(summary.training_s)}"]
    if median_s is not None:
        lines[0] += f", {render_seconds(median_s)} each"
    if rate is not None:
        lines[0] += f", {rate:,.4g} examples/s"
    if summary.input_wait_s is not None and summary.training_s:
        share = summary.input_wait_s / summary.training_s
        lines.append(
            f"  waited {render_seconds(summary.input_wait_s)} for rows, {render_percent(share)}"
        )
    lines.append(f"  where each step goes: trainload show {path}")
    return "\n".join(lines)
