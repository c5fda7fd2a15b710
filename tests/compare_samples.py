"""Runs built by hand for tests of comparisons: figures, circumstances and parts of the step."""

import math

from trainload.analyse.compare import ComparedRun, PartKey, Side
from trainload.record.figures import RunFigures

FORWARD = {"stem": 0.010, "body.conv": 0.020, "head": 0.005}


def make(number, *, step_s=None, facts=None, factors=None, parts=None, study=None, cell=None,
         surroundings=None, **metrics):  # fmt: skip
    """One run; its parts sum to its step time."""
    told = {**({} if step_s is None else {"step_s": step_s}), **metrics}
    figures = RunFigures(
        run_sha256="0",
        run_id=f"r{number}",
        outcome="completed",
        study=study,
        cell=cell,
        facts={"model": "mlp", **(facts or {})},
        factors=factors or {},
        metrics=told,
    )
    return ComparedRun(
        name=f"r{number}", figures=figures, surroundings=surroundings or {}, parts=parts
    )


def side(name, values, *, first=0, **options):
    """A side with one run a step time."""
    runs = [make(f"{name}{first + at}", step_s=one, **options) for at, one in enumerate(values)]
    return Side(name=name, runs=tuple(runs))


def noisy(draw, value, count, noise=0.01):
    """Values around one, on a logarithmic scale."""
    return [value * math.exp(draw.gauss(0, noise)) for _ in range(count)]


def step_parts(draw, *, slower=None, by=1.0, pace=1.0, noise=0.01, remainder=0.001):
    """Parts of a step whose whole pace may change, and one layer more than that."""
    parts = {}
    for path, time_s in FORWARD.items():
        for phase, factor in (("forward", 1.0), ("backward", 2.0), ("idle", 0.05)):
            own = by if path == slower and phase == "forward" else 1.0
            parts[PartKey(path, phase)] = (
                time_s * factor * own * pace * math.exp(draw.gauss(0, noise))
            )
    parts[PartKey("not explained", None)] = remainder * pace
    return parts


def traced_side(name, count, draw, **options):
    """A side whose runs have parts; options as of `step_parts`, `paces` for one a run."""
    paces = options.pop("paces", [1.0] * count)
    runs = []
    for at in range(count):
        parts = step_parts(draw, pace=paces[at], **options)
        runs.append(make(f"{name}{at}", step_s=math.fsum(parts.values()), parts=parts))
    return Side(name=name, runs=tuple(runs))
