"""Rules of a published source as types, read from the file that ships with the product.

Says what would be compared; whether a rule holds is judged elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Literal

import yaml

from trainload_worker.protocol.checked import build_checked

STUDY = "hardware-recommendations"
"""The name under which `trainload reproduce` knows study R."""

Scale = Literal["ratio", "difference", "value"]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """Samples of one program under one condition."""

    program: str
    at: Mapping[str, str] = field(default_factory=dict)
    """Levels that tell the condition; `most` and `least` are the highest and lowest number."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """One comparison, and the bounds within which it speaks for the rule."""

    words: str
    """What is compared, in words."""
    of: Figure
    against: Figure | None = None
    scale: Scale = "ratio"
    """`ratio` and `difference` compare two figures; `value` looks at one."""
    above: float | None = None
    below: float | None = None
    every: bool = False
    """Whether every sample counts by itself: seeds, not repetitions of one thing."""
    undecided_below: bool = False
    """Whether a figure below its bound speaks neither for nor against."""
    where_there: bool = False
    """Whether it is left out where a figure is missing."""


@dataclass(frozen=True, kw_only=True)
class FactNeeded:
    """A number that the system tells of itself and that the rule cannot do without."""

    name: str
    least: int
    otherwise: str
    """Why it cannot be told without."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One statement of a source, and how this machine would show it."""

    id: str
    place: str
    """Where in the source it stands."""
    says: str
    """In our own words."""
    predicts: str
    measured_by: str
    decides: str
    """The rule of decision, with bounds that are ours where the source has none."""
    formula: str | None = None
    checks: tuple[Check, ...] = ()
    need: int | None = None
    """How many checks must hold; None: all."""
    dated: str | None = None
    """Why time has gone over it, whatever is measured; None where it has not."""
    barred: str | None = None
    """Why no program can tell; None where one can."""
    needs_fact: FactNeeded | None = None


@dataclass(frozen=True, kw_only=True)
class RuleFile:
    """What one source advises."""

    study: str
    source: str
    rules: tuple[Rule, ...]


def load_rules() -> RuleFile:
    """The rules of study R."""
    name = "hardware_recommendations.yaml"
    place = files("trainload.analyse.rules").joinpath(name)
    return build_checked(RuleFile, yaml.safe_load(place.read_text(encoding="utf-8")), name)
