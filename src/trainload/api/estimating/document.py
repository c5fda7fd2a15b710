"""The memory of a step as JSON: every figure plain, each with its low and high end."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from trainload.estimate.memory.answer import MemoryAnswer
from trainload.estimate.memory.fit import LEAST_CHANCE
from trainload.estimate.memory.replay import thin_curve

JSON_POINTS = 400
"""Points of the curve at most; of each stretch the one that holds most."""
_MEMORY = ("allocated_bytes", "reserved_bytes", "device_bytes", "needed_bytes")


def memory_json(answer: MemoryAnswer) -> dict[str, Any]:
    """Plain numbers, each with its low and high end; null where nothing was traced."""
    estimate = answer.estimate
    document: dict[str, Any] = {
        **_figures(answer, "value_bytes"),
        "low": _figures(answer, "low_bytes"),
        "high": _figures(answer, "high_bytes"),
        "capacity_bytes": None,
        "verdict": "not known",
        "running_out_probability": None,
        "target": answer.target,
        "peak": None,
        "curve": [],
        "missing": answer.missing,
        "notes": list(answer.notes),
        "what_would_help": [asdict(one) for one in answer.alternatives],
        "largest_batch": asdict(answer.largest_batch) if answer.largest_batch else None,
        "measured": asdict(answer.measured) if answer.measured else None,
    }
    if estimate is not None:
        room = estimate.room
        document |= {
            "fits": {"fits": True, "does not fit": False}.get(estimate.verdict),
            "capacity_bytes": estimate.capacity_bytes,
            "verdict": estimate.verdict,
            "running_out_probability": estimate.running_out,
            "least_probability": LEAST_CHANCE,
            "peak": asdict(estimate.peak),
            "curve": [asdict(point) for point in thin_curve(estimate.curve, JSON_POINTS)],
            "room": asdict(room),
        }
    return document


def _figures(answer: MemoryAnswer, end: str) -> dict[str, Any]:
    estimate, ram = answer.estimate, answer.ram
    growth = None if ram is None else getattr(ram.growth_bytes, end)
    if estimate is None:
        return {**dict.fromkeys(_MEMORY), "ram_growth_bytes": growth, "fits": None}
    figures: dict[str, Any] = {name: getattr(getattr(estimate, name), end) for name in _MEMORY}
    fits = estimate.would_fit(figures["needed_bytes"])
    return {**figures, "ram_growth_bytes": growth, "fits": fits}
