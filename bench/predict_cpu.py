"""Predictions for the CPU at hand beside trainings on it, right after its calibration.

    python bench/predict_cpu.py [--seconds 120] [--steps 12] [--json FILE] [--keep ROW]

Calibrates the CPU, predicts a step of twelve built-in models, and trains each for some steps, or
for some three seconds where that is more, since a dozen steps of a few milliseconds end before
they have settled, with nothing else watched. Errors are of the median step after its
warm-up, as `trainload show` has it. Needs a quiet machine: others' load is in one and not in the
other.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from raw import keep

_LEAST_S = 3.0
_MOST_STEPS = 1000
MODELS = """
lenet5 64; alexnet 16; vgg11 4; googlenet 8; resnet18 8; densenet121 4; squeezenet1_1 16
mlp 256; lstm_lm 16; transformer_encoder 16; conv_residual 32; recurrent 32
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=120.0, help="of the calibration")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--keep", metavar="ROW")
    words = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        # Own calibrations of whoever runs this neither count nor change.
        os.environ["TRAINLOAD_CALIBRATIONS"] = str(Path(folder) / "calibrations")
        device = calibrated(words.seconds)
        rows = [judge(model, device, words.steps, Path(folder)) for model in models()]
    errors = np.abs([row["predicted_s"] / row["true_s"] - 1 for row in rows])
    held = np.mean([row["low"] <= row["true_s"] <= row["high"] for row in rows])
    summary = (
        f"{len(rows)} models: median {np.median(errors):.1%}, mean {errors.mean():.1%}, "
        f"worst {errors.max():.1%}, in range {held:.1%}"
    )
    print(summary)
    if words.json:
        words.json.write_text(json.dumps(rows))
    if words.keep:
        keep("predict_cpu", words.keep, figures=rows, printed=summary + "\n")


def models() -> list[tuple[str, int]]:
    """Names and batch sizes."""
    rows = [row.split() for row in MODELS.replace("\n", ";").split(";") if row.strip()]
    return [(name, int(batch)) for name, batch in rows]


def calibrated(seconds: float) -> str:
    """The name of the CPU, once it is calibrated."""
    from trainload.hardware.calibrations import load_calibrations

    command = [sys.executable, "-m", "trainload", "calibrate", "--device", "cpu"]
    subprocess.run([*command, "--seconds", str(seconds), "--anyway"], check=True)
    own = [one for name, one in load_calibrations().items() if one.source.startswith("trainload")]
    own = [one for one in own if one.host_cpu and one.device != "h200"]
    found = max(own, key=lambda one: one.taken_at)
    return found.device


def judge(model: tuple[str, int], device: str, steps: int, folder: Path) -> dict[str, Any]:
    """One model, predicted and trained."""
    import trainload

    name, batch = model
    said = trainload.predict(name, batch_size=batch, device=device, optimizer="adam")
    steps = max(steps, min(round(_LEAST_S / said.step_s.value), _MOST_STEPS))
    run = trainload.run(
        name,
        batch_size=batch,
        optimizer="adam",
        data="synthetic",
        rows=batch * (steps + 2),
        epochs=1,
        layers=False,
        check_overhead=False,
        out=folder / "runs",
    )
    row = {
        "model": name,
        "batch": batch,
        "true_s": run.summary.step_time.median_s,
        "predicted_s": said.step_s.value,
        "low": said.step_s.low,
        "high": said.step_s.high,
        "tier": said.tier,
    }
    print(
        f"{name:20} {batch:4} {1e3 * row['true_s']:9.2f} ms, predicted "
        f"{1e3 * row['predicted_s']:9.2f} ms ({row['predicted_s'] / row['true_s'] - 1:+.1%}), "
        f"{row['tier']}",
        flush=True,
    )
    return row


if __name__ == "__main__":
    main()
