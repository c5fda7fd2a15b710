"""Runs as an OpenMetrics text file, which Prometheus' node exporter picks up; needs no library.

The last figures of each run as gauges, one sample a run: series are what the other tools keep.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path

from trainload.files import write_whole
from trainload.integrations.exporters.told import RunTold

FILE = "trainload.prom"
"""The node exporter reads files of that ending alone."""
_LABELS = ("model", "framework", "setting", "script")
"""Facts of a run that tell its samples apart, where it has them; `run` is always there."""
_UNITS = {
    "_per_s": ("_per_second", None),
    "_s": ("_seconds", "seconds"),
    "_j": ("_joules", "joules"),
    "_w": ("_watts", "watts"),
    "_bytes": ("_bytes", "bytes"),
    "_hz": ("_hertz", "hertz"),
    "_c": ("_celsius", "celsius"),
    "_fraction": ("_ratio", "ratio"),
}
"""Endings of ours, Prometheus' own for them, and the unit where it has a name."""


def export_to_openmetrics(runs: Sequence[RunTold], out: Path) -> list[Path]:
    """Write `trainload.prom`, whole or not at all: a collector may look at any moment."""
    path = out / FILE
    write_whole(path, render_openmetrics(runs).encode("utf-8"))
    return [path]


def render_openmetrics(runs: Sequence[RunTold]) -> str:
    """The file's text, by the OpenMetrics 1.0 format."""
    families: dict[str, tuple[str | None, list[str]]] = {}
    for told in runs:
        labels = _render_labels(told)
        samples = {**told.figures, "end_time_s": told.ended_s}
        for name, value in samples.items():
            if not math.isfinite(value):
                continue
            metric, unit = _name(name)
            families.setdefault(metric, (unit, []))[1].append(f"{metric}{{{labels}}} {value!r}")
        completed = float(told.outcome == "completed")
        line = f"trainload_completed{{{labels}}} {completed!r}"
        families.setdefault("trainload_completed", (None, []))[1].append(line)
    lines = []
    for metric, (unit, samples_of) in sorted(families.items()):
        lines.append(f"# TYPE {metric} gauge")
        lines += [f"# UNIT {metric} {unit}"] if unit else []
        lines += samples_of
    return "\n".join([*lines, "# EOF", ""])


def _name(figure: str) -> tuple[str, str | None]:
    """A metric's name and unit as Prometheus has them."""
    plain = re.sub(r"[^a-zA-Z0-9_]", "_", figure)
    for ending, (long, unit) in _UNITS.items():
        if plain.endswith(ending):
            return f"trainload_{plain.removesuffix(ending)}{long}", unit
    return f"trainload_{plain}", None


def _render_labels(told: RunTold) -> str:
    facts = {name: told.parameters[name] for name in _LABELS if name in told.parameters}
    study = {} if told.study is None else {"study": told.study}
    labels = {"run": told.name, **study, **facts}
    return ",".join(f'{name}="{_escape(value)}"' for name, value in labels.items())


def _escape(value: str) -> str:
    """A label's value: backslash, quote and line end are all that the format escapes."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
