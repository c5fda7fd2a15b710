"""Clusters of unlike cores on boards that have them (big.LITTLE), by name; reads sysfs alone."""

from collections.abc import Mapping
from pathlib import Path

_PARTS: Mapping[tuple[int, int], str] = {
    (0x41, 0xD03): "a53",
    (0x41, 0xD04): "a35",
    (0x41, 0xD05): "a55",
    (0x41, 0xD07): "a57",
    (0x41, 0xD08): "a72",
    (0x41, 0xD09): "a73",
    (0x41, 0xD0A): "a75",
    (0x41, 0xD0B): "a76",
    (0x41, 0xD41): "a78",
    (0x41, 0xD42): "a78ae",
    (0x41, 0xD44): "x1",
    (0x4E, 0x003): "denver2",
    (0x4E, 0x004): "carmel",
}
"""Implementer and part number of MIDR_EL1 (Arm's list of implementers; NVIDIA is 0x4E)."""


def read_clusters(sys_root: Path = Path("/sys")) -> dict[str, tuple[int, ...]]:
    """Cores by the name of their cluster; empty where all cores are alike.

    `little` and `big` are the least and the most capable cores as the kernel rates them; the names
    of the cores themselves are known on 64-bit Arm.
    """
    folder = sys_root / "devices" / "system" / "cpu"
    cores = sorted(
        int(path.name[3:]) for path in folder.glob("cpu[0-9]*") if path.name[3:].isdecimal()
    )
    found: dict[str, list[int]] = {}
    capacities = {core: _read_number(folder / f"cpu{core}" / "cpu_capacity") for core in cores}
    rated = {core: value for core, value in capacities.items() if value is not None}
    if len(set(rated.values())) > 1:
        found["little"] = [c for c, value in rated.items() if value == min(rated.values())]
        found["big"] = [c for c, value in rated.items() if value == max(rated.values())]
    kinds: dict[str, list[int]] = {}
    for core in cores:
        register = folder / f"cpu{core}" / "regs" / "identification" / "midr_el1"
        midr = _read_number(register)
        name = None if midr is None else _PARTS.get((midr >> 24 & 0xFF, midr >> 4 & 0xFFF))
        if name is not None:
            kinds.setdefault(name, []).append(core)
    if len(kinds) > 1:
        found.update(kinds)
    return {name: tuple(numbers) for name, numbers in found.items()}


def _read_number(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii").strip(), 0)
    except (OSError, ValueError):
        return None
