"""Does a few real steps of a user's build function; run as a script, measured from outside.

python steps_of_build.py my.py build BATCH PRECISION OPTIMIZER MOMENTUM STEPS
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
from typing import Any

import torch

_NAMES = ("Adam", "AdamW", "SGD", "RMSprop", "Adagrad")
_HALVES = {"bf16": torch.bfloat16, "fp16": torch.float16}
_RULES = {name.lower(): getattr(torch.optim, name) for name in _NAMES}


def main(
    path: str, name: str, batch: str, precision: str, rule: str, momentum: str, steps: str
) -> None:
    """As many steps as asked for, on the GPU where torch has one."""
    kind = "cuda" if torch.cuda.is_available() else "cpu"
    # The function makes its example batch itself, wherever tensors are made.
    torch.set_default_device(kind)
    model, loss = _load(path, name)(int(batch))
    model.to(kind)
    model.train()
    options = {"momentum": float(momentum)} if rule == "sgd" else {}
    optimizer = _RULES[rule](model.parameters(), lr=1e-4, **options)
    if precision == "fp16" and kind == "cpu":
        raise SystemExit("fp16 with its gradient scaler is for GPUs; torch finds none here")
    scaler = torch.amp.GradScaler(kind, enabled=precision == "fp16")
    half = _HALVES.get(precision)
    for _ in range(int(steps)):
        optimizer.zero_grad(set_to_none=True)
        with contextlib.nullcontext() if half is None else torch.autocast(kind, half):
            found = loss()
        scaler.scale(found).backward()
        scaler.step(optimizer)
        scaler.update()


def _load(path: str, name: str) -> Any:
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    spec = importlib.util.spec_from_file_location("measured_build", path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


if __name__ == "__main__":
    main(*sys.argv[1:])
