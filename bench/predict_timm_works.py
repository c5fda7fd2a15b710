"""Works of image models' training steps as JSON lines, for predict_steps.py; needs timm.

    python bench/predict_timm_works.py STEPS.csv OUT.jsonl [--limit-s 1800] [--largest 150]

STEPS.csv has the columns model, layout, batch, image_size, parameters_million. Each model is traced
on tensors without numbers, in a fork of this process, fp16 autocast and SGD, at its batch; models
come in a seeded order, so that a run that is cut short is a sample. torchvision is not needed: what
timm imports of it for data is stood in for. Lines: {"model", "batch", "image_size", "works"}; a
model that cannot be made or traced has "missing" instead. What OUT holds is not traced again.
"""

from __future__ import annotations

import argparse
import csv
import importlib.abc
import importlib.machinery
import json
import random
import sys
import time
import types
from collections import Counter
from pathlib import Path
from typing import Any


class _StandIn(types.ModuleType):
    """A module whose every name is a class that does nothing."""

    __path__: tuple[str, ...] = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        import torch

        modes = ("NEAREST", "BOX", "BILINEAR", "HAMMING", "BICUBIC", "LANCZOS")
        made = type(name, (torch.nn.Module,), {mode: mode for mode in modes})
        setattr(self, name, made)
        return made


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:  # noqa: ARG002
        if name.partition(".")[0] == "torchvision":
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> types.ModuleType:
        return _StandIn(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        module.__dict__["__version__"] = "0.20.0"


def packed(works: list[Any]) -> list[Any]:
    """Each different work once, with its count."""
    counts = Counter(
        (w.operation, w.dtype, tuple(w.sizes.items()), w.flops, w.bytes, w.phase) for w in works
    )
    return [[*key[:2], dict(key[2]), *key[3:], count] for key, count in counts.items()]


def trace_works(name: str, batch: int, size: int) -> list[Any]:
    """The packed works of one step; whatever goes wrong is raised."""
    import timm
    import torch

    from trainload.api.estimating.sources import ModuleSource
    from trainload.api.estimating.study import choose_optimizer
    from trainload.api.estimating.tracing import TraceJob, Tracing
    from trainload.estimate.counts.answer import StepChoice
    from trainload.estimate.memory.device import find_device_memory
    from trainload.hardware.catalogue import find_device
    from trainload.predict.operations import works_of

    model = timm.create_model(name, pretrained=False).train()
    images, labels = torch.zeros(batch, 3, size, size), torch.zeros(batch, dtype=torch.long)

    def loss() -> Any:
        return torch.nn.functional.cross_entropy(model(images), labels)

    choice = StepChoice(batch_size=batch, precision="fp16", optimizer=choose_optimizer("sgd", 0.9))
    memory = find_device_memory(find_device("rtx-3090"))
    with Tracing(None, memory, 120.0, None) as tracing:
        job = TraceJob(step=ModuleSource(module=model, loss=loss).step(choice))
        return packed(works_of(tracing.trace(job, name).events))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("steps", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--limit-s", type=float, default=1800.0)
    parser.add_argument("--largest", type=float, default=150.0, help="million parameters")
    words = parser.parse_args()
    sys.meta_path.insert(0, _Finder())
    import timm.layers
    import torch

    torch.set_num_threads(1)
    timm.layers.set_fused_attn(False)  # torch 1.12 had none
    with words.steps.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    asked = {
        (row["model"], int(row["batch"]), int(row["image_size"]))
        for row in rows
        if float(row["parameters_million"]) <= words.largest
    }
    began = time.monotonic()
    order = sorted(asked)
    random.Random(15).shuffle(order)
    if words.out.exists():
        lines = map(json.loads, words.out.read_text(encoding="utf-8").splitlines())
        done = {(line["model"], line["batch"], line["image_size"]) for line in lines}
        order = [one for one in order if one not in done]
    with words.out.open("a", encoding="utf-8") as out:
        for name, batch, size in order:
            if time.monotonic() - began > words.limit_s:
                break
            line: dict[str, Any] = {"model": name, "batch": batch, "image_size": size}
            try:
                line["works"] = trace_works(name, batch, size)
            except Exception as error:  # noqa: BLE001 - of timm and torch: the row says so
                line["missing"] = f"{type(error).__name__}: {error}"[:200]
            print(name, batch, size, line.get("missing", len(line.get("works", []))), flush=True)
            out.write(json.dumps(line, separators=(",", ":")) + "\n")
            out.flush()


if __name__ == "__main__":
    main()
