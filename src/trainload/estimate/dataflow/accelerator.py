"""A spatial accelerator as data: elements, registers, buffer, energies; reads its own package."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any

from trainload.errors import UsageError

DATAFLOWS: dict[str, str] = {
    "row": "row stationary",
    "weight": "weight stationary",
    "output_plane": "output stationary, one channel, a plane of pixels",
    "output_mixed": "output stationary, several channels, a row of pixels",
    "output_channel": "output stationary, several channels, one pixel",
    "no_local": "no local reuse",
}
"""Name of each dataflow, and what it means."""

MOST_ELEMENTS = 10**6
MOST_BYTES = 10**9


@dataclass(frozen=True, kw_only=True)
class EnergyRatios:
    """What one access of each level costs over one multiply-add."""

    mac: float
    register: float
    array: float
    buffer: float
    dram: float


@dataclass(frozen=True, kw_only=True)
class Accelerator:
    """An array of elements with registers, a shared buffer and memory outside."""

    name: str
    source: str
    elements: int
    register_bytes: int
    """Of each element under row stationary; the others need less, see `small_register_bytes`."""
    buffer_bytes: int
    """Under row stationary."""
    word_bytes: int
    energy: EnergyRatios
    register_area_per_buffer_area: float
    """Area of a byte of registers over that of a byte of buffer."""
    small_register_bytes: Mapping[str, int]
    """What an element needs under each of the other dataflows."""

    def register_words(self, dataflow: str) -> int:
        """Words of each element's register file."""
        small = self.small_register_bytes.get(dataflow)
        own = self.register_bytes if small is None else min(small, self.register_bytes)
        return own // self.word_bytes

    def buffer_words(self, dataflow: str) -> int:
        """Words of the buffer, once registers that the dataflow does not need became buffer.

        All dataflows take the same storage area.
        """
        spared = self.register_bytes - self.register_words(dataflow) * self.word_bytes
        gained = self.elements * spared * self.register_area_per_buffer_area
        return int(self.buffer_bytes + gained) // self.word_bytes


@cache
def load_accelerator() -> Accelerator:
    """The shipped one, that of the published comparison."""
    told = _load("accelerator.json")
    return Accelerator(
        name=told["name"],
        source=told["source"],
        elements=told["elements"],
        register_bytes=told["register_bytes"],
        buffer_bytes=told["buffer_bytes"],
        word_bytes=told["word_bytes"],
        energy=EnergyRatios(**told["energy"]),
        register_area_per_buffer_area=told["register_area_per_buffer_area"],
        small_register_bytes=told["small_register_bytes"],
    )


def change_accelerator(
    given: Accelerator,
    *,
    elements: int | None = None,
    register_bytes: int | None = None,
    buffer_bytes: int | None = None,
    energy: Mapping[str, float] | None = None,
) -> Accelerator:
    """Another one; a buffer that is not named has as many bytes as all registers together.

    That is the published rule of sizes. UsageError for what cannot be.
    """
    elements = given.elements if elements is None else elements
    registers = given.register_bytes if register_bytes is None else register_bytes
    if not 1 <= elements <= MOST_ELEMENTS or not 0 <= registers <= MOST_BYTES:
        raise UsageError(
            f"an accelerator has 1 to {MOST_ELEMENTS:,} elements, "
            f"each with 0 to {MOST_BYTES:,} bytes of registers"
        )
    held = elements * registers if buffer_bytes is None else buffer_bytes
    if not given.word_bytes <= held <= MOST_ELEMENTS * MOST_BYTES:
        raise UsageError(f"a buffer of {held} bytes: at least one word, {given.word_bytes} bytes")
    ratios = given.energy
    for name, value in (energy or {}).items():
        if name not in EnergyRatios.__dataclass_fields__:
            known = ", ".join(EnergyRatios.__dataclass_fields__)
            raise UsageError(f"--energy {name}: no such level; known: {known}")
        if not 0 <= value < 1e9:
            raise UsageError(f"--energy {name}={value}: give a ratio of 0 or more")
        ratios = replace(ratios, **{name: value})
    if not ratios.mac:
        raise UsageError("--energy mac=0: a multiply-add is what the others are measured by")
    changed = (elements, registers, held, ratios) != (
        given.elements,
        given.register_bytes,
        given.buffer_bytes,
        given.energy,
    )
    return replace(
        given,
        name=f"{given.name}, changed" if changed else given.name,
        elements=elements,
        register_bytes=registers,
        buffer_bytes=held,
        energy=ratios,
    )


@cache
def load_published() -> Mapping[str, Any]:
    """Shapes and relations of the published comparison."""
    told: Mapping[str, Any] = _load("published.json")
    return told


def _load(name: str) -> Any:
    path = resources.files("trainload.estimate.dataflow").joinpath(name)
    return json.loads(path.read_text(encoding="utf-8"))
