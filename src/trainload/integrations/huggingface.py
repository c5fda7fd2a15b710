"""Hugging Face: a `TrainerCallback` that records each training as a run.

    Trainer(…, callbacks=[TrainloadCallback()])

Steps, losses, tokens and layers are seen as in any torch program; epochs and evaluations come from
the Trainer's own hooks.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from trainload.integrations.following import Following

_KEPT = (
    "per_device_train_batch_size",
    "gradient_accumulation_steps",
    "learning_rate",
    "max_steps",
    "num_train_epochs",
    "optim",
    "seed",
    "bf16",
    "fp16",
    "gradient_checkpointing",
    "torch_compile",
)
"""Of the training's arguments, with the run."""


class TrainloadCallback(TrainerCallback):  # type: ignore[misc]
    """Records each `train`; `path` is the run directory. Options are those of `trainload.watch`."""

    def __init__(
        self, name: str = "huggingface", *, out: str | Path = "runs", **options: Any
    ) -> None:
        self._following = Following(name, out, framework="torch", **options)
        self._epochs = 0

    @property
    def path(self) -> Path | None:
        """The run directory of the latest training; None where nothing was recorded."""
        return self._following.path

    def on_train_begin(self, args: Any, state: Any, control: Any, **told: Any) -> None:  # noqa: ARG002
        """Opens the recording."""
        self._epochs = 0
        config = {name: getattr(args, name, None) for name in _KEPT}
        self._following.begin(model=told.get("model"), config=config)

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **told: Any) -> None:  # noqa: ARG002
        """An epoch begins."""
        self._following.begin_epoch(self._epochs, state.global_step)
        self._epochs += 1

    def on_evaluate(
        self,
        args: Any,  # noqa: ARG002
        state: Any,  # noqa: ARG002
        control: Any,  # noqa: ARG002
        metrics: Mapping[str, Any] | None = None,
        **told: Any,  # noqa: ARG002
    ) -> None:
        """An evaluation has ended, inside an epoch or after it."""
        found = metrics or {}
        took_s = found.get("eval_runtime")
        self._following.end_validation(found, took_s if isinstance(took_s, float) else None)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **told: Any) -> None:  # noqa: ARG002
        """An epoch's last step is done."""
        losses = [line["loss"] for line in state.log_history if "loss" in line]
        self._following.end_epoch(state.global_step, train_loss=losses[-1] if losses else None)

    def on_train_end(self, args: Any, state: Any, control: Any, **told: Any) -> None:  # noqa: ARG002
        """The training is done. One that fails is ended where the program is."""
        self._following.end()
