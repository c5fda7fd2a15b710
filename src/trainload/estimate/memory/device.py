"""What a device of the catalogue means for memory: its room, its workspaces, its doubts.

Reads its own package's data; asks no device.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache, partial
from importlib import resources
from typing import Any, Literal

from trainload.estimate.memory.fit import MemoryRoom, Span
from trainload.estimate.memory.replay import TemporariesOf
from trainload.estimate.memory.spread import find_spread
from trainload.estimate.workspaces.temporaries import temporaries
from trainload.hardware.catalogue import Device

FORMAT = 1
Target = Literal["cuda", "cpu"]
DEFAULT_CAPABILITY = (9, 0)
_CPU_PARTS = ("-cpu",)
"""In the names of boards whose processor is meant."""


@dataclass(frozen=True, kw_only=True)
class DeviceMemory:
    """A device as a step meets it; without a device, an H200's choices and no capacity."""

    target: Target
    capability: tuple[int, int]
    """As CUDA numbers it: it decides between kernels."""
    room: MemoryRoom
    temporaries_of: TemporariesOf
    notes: tuple[str, ...]
    """What the estimate takes for granted about this device."""


def find_device_memory(device: Device | None, target: Target | None = None) -> DeviceMemory:
    """What is known of a device; `target` overrules whose choices the step makes."""
    target = target or target_of(device)
    known = None if device is None else device.capability
    capability = known or DEFAULT_CAPABILITY
    architecture = None if known is None and device is not None else _architecture(capability)
    overhead, overhead_source = _context(architecture)
    capacity, source = (None, None) if target == "cpu" else _capacity(device)
    spread = find_spread(architecture)
    return DeviceMemory(
        target=target,
        capability=capability,
        room=MemoryRoom(
            capacity=capacity,
            capacity_source=source,
            overhead=overhead,
            overhead_source=overhead_source,
            spread=spread,
        ),
        temporaries_of=partial(temporaries, device_kind=_architecture(capability)),
        notes=tuple(_notes(device, known, source)) if target == "cuda" else (),
    )


def target_of(device: Device | None) -> Target:
    """cpu for processors, cuda for everything else and where no device is named."""
    if device is None:
        return "cuda"
    part = any(part in device.name for part in _CPU_PARTS)
    return "cpu" if device.kind == "CPU" or part else "cuda"


@cache
def _load() -> dict[str, Any]:
    file = resources.files("trainload.estimate.memory") / "device.json"
    document: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    assert document["format"] == FORMAT, "device.json"
    return document


def _architecture(capability: tuple[int, int]) -> str:
    return f"sm{capability[0]}{capability[1]}"


def _context(architecture: str | None) -> tuple[Span, str]:
    """What a process takes beside the allocator, and where that is from."""
    known = _load()["context_bytes"]
    entry = known.get(architecture) or known["other"]
    span = Span(value_bytes=entry["value"], low_bytes=entry["low"], high_bytes=entry["high"])
    return span, entry["source"]


def _is_shared(device: Device) -> bool:
    return device.kind == "board" or device.maker == "Apple"


def _capacity(device: Device | None) -> tuple[Span | None, str | None]:
    """What a training process could have of the device's memory, and where that is from."""
    nominal = None if device is None else device.value("memory_bytes")
    if device is None or nominal is None:
        return None, None
    seen = device.figures["cuda_memory_bytes"]
    if seen is not None:
        value = int(seen.value)
        return Span(value_bytes=value, low_bytes=value, high_bytes=value), seen.source
    if device.kind == "own":
        # A user's own figure is taken at its word.
        value = round(nominal)
        return Span(value_bytes=value, low_bytes=value, high_bytes=value), "the device's own file"
    corrected = device.value("ecc_memory_fraction") is not None
    kind = "shared" if _is_shared(device) else "ecc" if corrected else "gpu"
    kept = _load()["kept_shares"][kind]
    span = Span(
        value_bytes=round(nominal * (1 - kept["value"])),
        low_bytes=round(nominal * (1 - kept["high"])),
        high_bytes=round(nominal * (1 - kept["low"])),
    )
    return span, kept["source"]


def _notes(
    device: Device | None, capability: tuple[int, int] | None, source: str | None
) -> list[str]:
    if device is None:
        return ["no device is named: workspaces and context are those of an H200"]
    notes = []
    if _is_shared(device) and source is not None:
        share = _load()["kept_shares"]["shared"]
        notes.append(
            f"the memory of {device.title} is shared with the system, which is taken to hold "
            f"{share['low'] * 100:.0f} to {share['high'] * 100:.0f} % of it"
        )
    if capability is None:
        notes.append(
            f"torch has no CUDA on {device.title}, or its kind is not known: the step makes the "
            "choices of an H200"
        )
    return notes
