"""Devices by the names that drivers and systems give them; reads no device."""

import re

from trainload.errors import UnknownHardware
from trainload.hardware.catalogue import Device, find_device

_MAKERS = ("nvidia", "geforce", "tesla", "quadro")
_WORDS_OF_CPUS = ("cpu", "processor", "with", "radeon", "graphics")
_AROUND_A_CPU = r"\bcpu\b|\b\d+-cores?\b|\bprocessor\b|^\d+th gen\b|@.*| with radeon.*"
"""What systems write around the name that its maker gives a processor."""


def match_device(name: str) -> Device | None:
    """The catalogue's entry for a device as its driver names it; None where it has none."""
    words = [word for word in name.replace("-", " ").split() if word.lower() not in _MAKERS]
    for text in (name, " ".join(words), "-".join(words).lower()):
        if "/" in text or text.endswith(".json"):
            continue  # a name that looks like a file is no reason to open one
        try:
            return find_device(text)
        except UnknownHardware:
            continue
    return None


def device_key(name: str) -> str:
    """The catalogue's key of a device, or one made of its name: `Intel(R) Xeon(R) CPU @ 2.20GHz`
    is intel-xeon-2.20ghz."""
    plain = re.sub(r"\((r|tm|c)\)", " ", name, flags=re.IGNORECASE)
    bare = re.sub(_AROUND_A_CPU, " ", plain, flags=re.IGNORECASE)
    found = match_device(name) or match_device(" ".join(bare.split()))
    if found is not None:
        return found.name
    words = re.sub(r"[^a-z0-9+.]+", " ", plain.lower()).split()
    kept = [word for word in words if word not in _WORDS_OF_CPUS]
    return "-".join(kept).strip("-.+")[:80] or "unnamed-device"
