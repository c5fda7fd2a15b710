"""One line of NVIDIA's tegrastats as typed values; reads no pipe and no file.

Known forms, from the TX1 to the Orin, differ in the processor list (`[2%@345,off]`,
`[2%,off]@345`, or without brackets as in published logs), in underscores that some logs have
lost (`EMCFREQ`), in clocks after the loads (`0%@1600`, `0%@[611,0]`, `@2133`) and in the rails
(`VDD_IN 3824/3824` or `VDD_IN 4018mW/4018mW`: now and on average).
"""

import re
from dataclasses import dataclass

from trainload.errors import MeterError

_N = "[0-9]{1,9}"
_UNIT_BYTES = {"k": 1024, "M": 1024**2, "G": 1024**3}
_RAM = re.compile(rf"\bRAM ({_N})/({_N})([kMG])B")
_SWAP = re.compile(rf"\bSWAP ({_N})/({_N})([kMG])B")
_CORE = rf"(?:off|{_N}%(?:@{_N})?)"
_CPU = re.compile(rf"\bCPU \[?({_CORE}(?:, ?{_CORE})*)\]?(?:@({_N}))?", re.IGNORECASE)
_EMC = re.compile(rf"\bEMC(?:_?FREQ)? (?:({_N})%)?(?:@({_N}))?")
_GPU = re.compile(rf"\bGR3D(?:_?FREQ)? (?:({_N})%)?(?:@\[?({_N}))?")
_TEMPERATURE = re.compile(r"\b([A-Za-z][A-Za-z0-9_.-]*)@(-?[0-9]{1,6}(?:\.[0-9]{1,6})?)C\b")
_RAIL = re.compile(rf"\b([A-Z][A-Z0-9_]*) ({_N})(?:mW)?/{_N}(?:mW)?(?![0-9A-Za-z/])")
_BOARD_INPUTS = ("VDDIN", "POM5VIN", "VIN")
"""Rails that carry the whole board, without underscores."""
_SENSOR_OFF_CELSIUS = -256.0
"""Written for a sensor whose part is powered down."""


@dataclass(frozen=True, kw_only=True)
class TegrastatsReading:
    """What one line states; None or an empty tuple where it does not."""

    ram_used_bytes: int
    ram_total_bytes: int
    swap_used_bytes: int | None
    swap_total_bytes: int | None
    cpu_load_fractions: tuple[float | None, ...]
    """By core; None for one that is off."""
    cpu_clocks_hz: tuple[float | None, ...]
    gpu_load_fraction: float | None
    gpu_clock_hz: float | None
    """Of the first graphics cluster."""
    emc_load_fraction: float | None
    emc_clock_hz: float | None
    rails_w: tuple[tuple[str, float], ...]
    """Present power by rail, in the line's order; unconnected ones (NC) are left out."""
    temperatures_celsius: tuple[tuple[str, float | None], ...]

    @property
    def sum_of_rails_w(self) -> float | None:
        """All rails added, as published studies do; counts twice what a board input carries."""
        return sum(power for _, power in self.rails_w) if self.rails_w else None

    @property
    def board_power_w(self) -> float | None:
        """The board's input rail where there is one, else the sum of rails."""
        for name, power in self.rails_w:
            if name.replace("_", "") in _BOARD_INPUTS:
                return power
        return self.sum_of_rails_w


def parse_tegrastats_line(line: str) -> TegrastatsReading:
    """The line's values in bytes, hertz, watts, degrees and fractions; MeterError if it is none."""
    ram = _RAM.search(line)
    if ram is None:
        raise MeterError(f"not a tegrastats line, it states no RAM: {line[:60]!r}")
    swap = _SWAP.search(line)
    cores = _CPU.search(line)
    loads, clocks = _parse_cores(cores) if cores else ((), ())
    emc, gpu = _EMC.search(line), _GPU.search(line)
    return TegrastatsReading(
        ram_used_bytes=int(ram[1]) * _UNIT_BYTES[ram[3]],
        ram_total_bytes=int(ram[2]) * _UNIT_BYTES[ram[3]],
        swap_used_bytes=int(swap[1]) * _UNIT_BYTES[swap[3]] if swap else None,
        swap_total_bytes=int(swap[2]) * _UNIT_BYTES[swap[3]] if swap else None,
        cpu_load_fractions=loads,
        cpu_clocks_hz=clocks,
        gpu_load_fraction=_fraction(gpu[1]) if gpu else None,
        gpu_clock_hz=_hertz(gpu[2]) if gpu else None,
        emc_load_fraction=_fraction(emc[1]) if emc else None,
        emc_clock_hz=_hertz(emc[2]) if emc else None,
        rails_w=tuple((m[1], int(m[2]) / 1000) for m in _RAIL.finditer(line) if m[1] != "NC"),
        temperatures_celsius=tuple((m[1], _celsius(m[2])) for m in _TEMPERATURE.finditer(line)),
    )


def _parse_cores(
    match: re.Match[str],
) -> tuple[tuple[float | None, ...], tuple[float | None, ...]]:
    loads: list[float | None] = []
    clocks: list[float | None] = []
    for core in match[1].split(","):
        load, _, clock = core.strip().partition("%")
        off = load.lower() == "off"
        loads.append(None if off else _fraction(load))
        # The TX1 states one clock for all cores, after the list.
        clocks.append(None if off else _hertz(clock.removeprefix("@") or match[2]))
    return tuple(loads), tuple(clocks)


def _fraction(percent: str | None) -> float | None:
    return int(percent) / 100 if percent else None


def _hertz(megahertz: str | None) -> float | None:
    return int(megahertz) * 1e6 if megahertz else None


def _celsius(text: str) -> float | None:
    value = float(text)
    return None if value <= _SENSOR_OFF_CELSIUS else value
