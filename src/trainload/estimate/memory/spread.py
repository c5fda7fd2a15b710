"""How far memory estimates lie from the truth, by architecture; data with its source.

Reads its own package's file; measures nothing.
"""

import json
from functools import cache
from importlib import resources
from typing import Any

from trainload.estimate.memory.fit import Spread

SPREAD_FORMAT = 1
REFERENCE = "sm90"
"""The architecture whose spread, widened, stands for those nobody has measured."""


@cache
def _load() -> dict[str, Any]:
    file = resources.files("trainload.estimate.memory") / "spread.json"
    document: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    assert document["format"] == SPREAD_FORMAT, "spread.json"
    return document


def find_spread(architecture: str | None) -> Spread:
    """The spread of an architecture such as sm90; a widened one where nobody measured it."""
    document = _load()
    known = {entry["architecture"]: entry for entry in document["spreads"]}
    entry = known.get(architecture or "")
    factor = 1.0 if entry is not None else float(document["unmeasured_factor"])
    entry = known[REFERENCE] if entry is None else entry
    source = entry["source"]
    if factor != 1:
        source = f"{factor:g} × that of {REFERENCE}, since nobody measured this device; {source}"
    return Spread(
        allocated=entry["allocated"] * factor,
        reserved=entry["reserved"] * factor,
        needed=entry["needed"] * factor,
        source=source,
    )
