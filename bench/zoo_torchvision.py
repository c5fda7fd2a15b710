"""The zoo beside torchvision: outputs of the same weights on the same batch, and parameters.

torchvision's model is made with random weights and running statistics, which the zoo's model takes
over in order; then both run the same images in evaluation mode and in float32. Prints the norm of
the difference over the norm for each, and fails above 1e-4. Needs torchvision; on a GPU too:

    python bench/zoo_torchvision.py [--device cuda] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import torch

from trainload.workload import build_model, parse_options
from trainload_worker.frameworks.torch.graph import GraphModule

MODELS = {
    "alexnet": 224,
    "vgg11": 224,
    "vgg16": 224,
    "googlenet": 224,
    "inception_v3": 299,
    "resnet18": 224,
    "resnet50": 224,
    "resnet152": 224,
    "densenet121": 224,
    "squeezenet1_0": 224,
    "squeezenet1_1": 224,
}
"""Zoo model, of the same name in torchvision -> side of its images."""
LIMIT = 1e-4


def main() -> None:
    """Compare every model; exit 1 where one is off."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    words.add_argument("--batch", type=int, default=8)
    words.add_argument("--json", type=Path)
    chosen = words.parse_args()
    rows = [_compare(name, side, chosen) for name, side in MODELS.items()]
    for row in rows:
        print(
            f"{row['model']:15} {row['parameters']:>12,} parameters  "
            f"difference {row['difference']:.2e}  largest {row['largest']:.2e}"
        )
    described = {
        "command": " ".join(["bench/zoo_torchvision.py", *sys.argv[1:]]),
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if chosen.device == "cuda" else chosen.device,
        "models": rows,
    }
    if chosen.json:
        chosen.json.write_text(json.dumps(described, indent=1) + "\n")
    wrong = [row["model"] for row in rows if not row["agrees"]]
    if wrong:
        sys.exit(f"not equal to torchvision: {', '.join(wrong)}")


def _compare(name: str, side: int, chosen: argparse.Namespace) -> dict[str, Any]:
    theirs, ours = _torchvision_model(name), _zoo_model(name)
    given = [(key, value) for key, value in theirs.state_dict().items()]
    wanted = ours.state_dict()
    assert [v.shape for _, v in given] == [v.shape for v in wanted.values()], name
    ours.load_state_dict({key: value for key, (_, value) in zip(wanted, given, strict=True)})
    theirs.to(chosen.device).eval()
    ours.to(chosen.device).eval()
    images = torch.randn(chosen.batch, 3, side, side, device=chosen.device)
    with torch.no_grad():
        want, got = theirs(images).double(), ours(images).double()
    difference = float((got - want).norm() / want.norm())
    counts = [sum(p.numel() for p in model.parameters()) for model in (ours, theirs)]
    return {
        "model": name,
        "parameters": counts[0],
        "difference": difference,
        "largest": float((got - want).abs().max()),
        "agrees": difference <= LIMIT and counts[0] == counts[1],
    }


def _torchvision_model(name: str) -> Any:
    from torchvision import models

    torch.manual_seed(7)
    more = {"aux_logits": False} if name in ("googlenet", "inception_v3") else {}
    if more:
        more["init_weights"] = True
    model = getattr(models, name)(weights=None, **more)
    for key, value in model.state_dict().items():
        # Otherwise 0 and 1: a wrong statistic would not show.
        if key.endswith("running_mean"):
            value.normal_(0, 0.1)
        elif key.endswith("running_var"):
            value.uniform_(0.5, 1.5)
    return model


def _zoo_model(name: str) -> Any:
    graph = build_model(name, parse_options(name, {"classes": "1000"}))
    return GraphModule(graph.to_spec())


if __name__ == "__main__":
    main()
