"""Which metered columns a live view draws, in which chart, against which limit; reads nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence

from trainload.analyse.columns import metered_quantities
from trainload.record import Manifest

MOST_SERIES = 4
"""In one chart; a screen tells no more apart."""

_CHARTS = (
    (
        "load",
        (
            r"host_cpu_load_fraction|tegra_cpu_load_fraction",
            r"gpu\d+_load_fraction|tegra_gpu_load_fraction",
        ),
    ),
    ("memory", (r"run_rss_bytes", r"host_ram_used_bytes|tegra_ram_used_bytes")),
    ("gpu_memory", (r"gpu\d+_memory_used_bytes",)),
    ("power", (r"gpu\d+_power_w", r"tegra_power_w", r"rapl_\w+_power_w", r"\w+_power_w")),
)
"""Charts and what they draw; the first kinds have the first places."""

METERED = tuple(name for name, _ in _CHARTS)


def choose_columns(columns: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The columns of each chart that has any."""
    chosen: dict[str, tuple[str, ...]] = {}
    for chart, patterns in _CHARTS:
        found: dict[str, None] = {}
        for pattern in patterns:
            found.update(dict.fromkeys(c for c in columns if re.fullmatch(pattern, c)))
        if found:
            chosen[chart] = tuple(found)[:MOST_SERIES]
    return chosen


def find_limit(column: str, manifest: Manifest) -> float | None:
    """What a column may not pass: as its meter says, else what the machine lets a run use."""
    if not column.endswith("_bytes"):
        return None
    quantity = metered_quantities(manifest.meters).get(column)
    if quantity is not None and quantity.capacity:
        return quantity.capacity
    machine = manifest.machine
    if column.startswith("gpu") or machine is None:
        return None
    limits = [machine.memory_limit_bytes, machine.memory_total_bytes]
    return min((float(limit) for limit in limits if limit), default=None)


def explain_absence(chart: str, manifest: Manifest) -> str | None:
    """Why a chart will stay empty; None where nobody can tell yet."""
    if not manifest.meters:
        return None
    if chart == "power":
        reasons = [
            quantity.reason
            for meter in manifest.meters
            for quantity in meter.quantities
            if quantity.provenance == "unavailable" and quantity.column.endswith(("_w", "_j"))
        ]
        reason = next((one for one in reasons if one), None)
        return f"no meter tells it here{f': {reason}' if reason else ''}"
    return "no GPU is part of this run" if chart == "gpu_memory" else "no meter tells it here"
