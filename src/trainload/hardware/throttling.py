"""Why an NVIDIA GPU's clocks are below what was asked, by NVML's bits; reads no device."""

from collections.abc import Mapping

THROTTLE_REASONS: Mapping[int, str] = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}
"""Bits of NVML's clocks-event reasons (nvml.h) that mean slower than asked; idle is none."""

SLOWED_BITS = 0x08 | 0x20 | 0x40 | 0x80
"""Throttling that cooling or supply would end; at its power cap a device merely works."""
