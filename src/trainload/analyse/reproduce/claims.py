"""The claims of a published study as types, read from the file that ships with the product.

Says what is to be compared with what; whether it holds is judged elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import product
from typing import Literal

import yaml

from trainload_worker.protocol.checked import build_checked

REPRODUCED = ("load-analysis", "per-layer", "edge-evaluation")
"""The shipped studies whose sources made claims."""

Levels = Mapping[str, tuple[str, ...]]
Scale = Literal["ratio", "difference", "value"]
_SIDES = {"of", "against", "each"}
"""Keys of a claim whose levels may be written without a list where there is one."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One thing that a source says, and the comparison that would show it."""

    id: str
    place: str
    """Where in the source it stands."""
    says: str
    """In our own words."""
    published: str
    """The source's figures."""
    metric: str
    scale: Scale = "ratio"
    """`ratio` and `difference` compare two cells or two metrics; `value` looks at one cell."""
    of: Levels = field(default_factory=dict)
    """Levels of the cell; a list stands for one comparison each."""
    against: Levels = field(default_factory=dict)
    """Levels that differ in the other cell."""
    against_metric: str | None = None
    """Another metric of the same runs, in place of another cell."""
    each: Levels = field(default_factory=dict)
    """Levels that both cells have, every combination compared."""
    above: float | None = None
    below: float | None = None
    """The claim holds of a comparison that lies between these."""
    need: int | None = None
    """How many comparisons it must hold of; None: all."""
    whole: bool = False
    """Whether the quick form is too short to say."""
    gpu: bool = False
    """Whether it is about a training on a GPU."""
    barred: str | None = None
    """Why the shipped study cannot say, in either form; None where it can."""

    def pairs(self) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
        """Levels of the two sides of every comparison."""
        for shared in _combinations(self.each):
            for one in _combinations(self.of):
                for other in _combinations(self.against):
                    yield {**shared, **one}, {**shared, **one, **other}


@dataclass(frozen=True, kw_only=True)
class ClaimFile:
    """What one source claims."""

    study: str
    source: str
    quick: str
    """Why the quick form cannot decide the claims that need the whole one."""
    claims: tuple[Claim, ...]


def load_claims(study: str) -> ClaimFile:
    """The claims of the source of a shipped study."""
    name = f"{study.replace('-', '_')}.yaml"
    place = files("trainload.analyse.reproduce").joinpath("claims", name)
    values = yaml.safe_load(place.read_text(encoding="utf-8"))
    for claim in values["claims"]:
        for side in _SIDES & claim.keys():
            claim[side] = {
                factor: levels if isinstance(levels, list) else [levels]
                for factor, levels in claim[side].items()
            }
    return build_checked(ClaimFile, values, name)


def _combinations(levels: Levels) -> Iterator[dict[str, str]]:
    for chosen in product(*levels.values()):
        yield dict(zip(levels, chosen, strict=True))
