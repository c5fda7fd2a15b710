"""What tests of parity share: models of the zoo made small, and cases computed once."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

import numpy
import pytest
from framework_runs import model, run_cases

from trainload.workload import find_model

SIZES = {"lenet5": 32, "alexnet": 64, "squeezenet1_0": 64, "squeezenet1_1": 64, "inception_v3": 75}


def small(name: str, size: int | None = None) -> Any:
    """A model of the zoo on a small input, without dropout."""
    found = find_model(name)
    words: dict[str, Any] = {}
    if found.examples == "images":
        size = size or SIZES.get(name, 32)
        words = {"image_height": size, "image_width": size, "classes": 10}
    if name in ("lstm_lm", "transformer_encoder"):
        words["vocabulary"] = 50
    if "dropout" in [field.name for field in fields(found.options)]:
        words["dropout"] = 0.0
    return model(name, **words)


def computing(
    groups: Mapping[str, Mapping[str, Any]], folders: pytest.TempPathFactory
) -> Callable[[str, str], Any]:
    """Computes a group of cases in a framework, each once."""
    made: dict[tuple[str, str], Any] = {}

    def compute(group: str, framework: str) -> Any:
        if (group, framework) not in made:
            folder = folders.mktemp(group)
            made[group, framework] = run_cases(framework, groups[group], folder)
        return made[group, framework]

    return compute


def difference(found: Any, expected: Any) -> float:
    """Norm of the difference over the norm."""
    return float(numpy.linalg.norm(found - expected) / numpy.linalg.norm(expected))
