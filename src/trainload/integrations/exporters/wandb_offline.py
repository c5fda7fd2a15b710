"""Runs as W&B offline files, which `wandb sync` uploads if somebody wants that; sends nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from trainload.integrations.exporters.told import RunTold, require_library

FOLDER = "wandb"


def export_to_wandb(runs: Sequence[RunTold], out: Path) -> list[Path]:
    """Write one offline run for each; final figures are its summary, the rest its history."""
    require_library("W&B", "wandb", "wandb")
    import wandb

    out.mkdir(parents=True, exist_ok=True)
    written = []
    for told in runs:
        run = wandb.init(
            project=told.study or "trainload",
            name=told.name,
            dir=str(out),
            config=dict(told.parameters),
            mode="offline",
            reinit="finish_previous",
            # What this process and machine do now is no part of a run that was recorded before.
            settings=wandb.Settings(
                console="off", silent=True, x_disable_stats=True, x_disable_meta=True
            ),
        )
        for kind, points in told.series.items():
            run.define_metric(f"{kind}/number")
            run.define_metric(f"{kind}/*", step_metric=f"{kind}/number")
            for point in points:
                named = {f"{kind}/{name}": value for name, value in point.values.items()}
                run.log({**named, f"{kind}/number": point.step, f"{kind}/time_s": point.time_s})
        run.summary.update(dict(told.figures))
        written.append(Path(run.dir).parent)
        run.finish(exit_code=0 if told.outcome == "completed" else 1)
    return written
