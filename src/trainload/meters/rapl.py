"""Energy of processor packages and their parts from RAPL's powercap files; sets no power cap."""

from pathlib import Path

from trainload.errors import MeterError
from trainload.meters._kept_file import KeptFile, load_int, load_line
from trainload.meters._slug import SlugMaker
from trainload.meters.meter import AbsentMeter, Meter, MeterContext, Quantity, Value

_NAME = "rapl"
_REFRESH_S = 0.001
"""Intel SDM vol. 3B, 16.10.1: the status registers are updated about once a millisecond."""
_MEND = "sudo chmod a+r /sys/class/powercap/intel-rapl:*/energy_uj"


class _Zone:
    """One counter, unwrapped: it starts again at zero after `max_energy_range_uj`."""

    def __init__(self, file: KeptFile, range_uj: int | None) -> None:
        self._file = file
        self._range_uj = range_uj
        self._raw_uj = self._total_uj = file.read_int()
        self._last: tuple[float, int] | None = None

    def read(self, t_s: float) -> tuple[Value, Value]:
        """Joules since the counter's start, and watts since the last read."""
        try:
            raw_uj = self._file.read_int()
        except MeterError:
            return None, None
        step_uj = raw_uj - self._raw_uj
        if step_uj < 0:
            if self._range_uj is None:
                self._raw_uj, self._last = raw_uj, None
                return None, None
            step_uj += self._range_uj
        self._raw_uj = raw_uj
        self._total_uj += step_uj
        last, self._last = self._last, (t_s, self._total_uj)
        power_w: Value = None
        if last is not None and t_s > last[0]:
            power_w = (self._total_uj - last[1]) / 1e6 / (t_s - last[0])
        return self._total_uj / 1e6, power_w

    def close(self) -> None:
        self._file.close()


class RaplMeter:
    """Reads every zone's counter through kept descriptors."""

    name = _NAME
    period_s = 0.0

    def __init__(self, zones: list[_Zone], quantities: tuple[Quantity, ...]) -> None:
        self._zones = zones
        self.quantities = quantities

    def read(self, t_s: float) -> list[Value]:
        """Joules and watts of each readable zone; watts are None at the first read."""
        return [value for zone in self._zones for value in zone.read(t_s)]

    def close(self) -> None:
        """Give the descriptors back."""
        for zone in self._zones:
            zone.close()


def reason_unreadable(error: OSError | MeterError, path: Path) -> str:
    """Why a zone cannot be read, with the command that mends a missing permission."""
    if isinstance(error, PermissionError):
        return f"{path}: permission denied; mend with `{_MEND}`"
    return f"{path}: {error.strerror}" if isinstance(error, OSError) else str(error)


def _zone_label(folder: Path) -> str:
    """`package-0`, and `package-0_core` for a part of it."""
    name = load_line(folder / "name") or folder.name
    parent, _, _ = folder.name.rpartition(":")
    if parent.count(":") == 0:
        return name
    return f"{load_line(folder.parent / parent / 'name') or parent}_{name}"


def _zone_quantities(slug: str, source: Path, reason: str | None) -> tuple[Quantity, Quantity]:
    """Energy and power of a zone; a reason makes both unavailable."""
    energy = Quantity(
        column=f"rapl_{slug}_energy_j",
        provenance="unavailable" if reason else "measured",
        source=str(source),
        refresh_s=_REFRESH_S,
        reason=reason or "wrap-around added back by max_energy_range_uj",
        cumulative=True,
    )
    power = Quantity(
        column=f"rapl_{slug}_power_w",
        provenance="unavailable" if reason else "derived",
        source=str(source),
        refresh_s=_REFRESH_S,
        reason=reason or "energy since the last read over its time",
    )
    return energy, power


def open_rapl_meter(context: MeterContext) -> Meter:
    """All RAPL zones and subzones; absent where the kernel shows none.

    `intel-rapl-mmio` is left out: it shows the same counters as `intel-rapl` by another door.
    """
    folder = context.sys_root / "class" / "powercap"
    slugs = SlugMaker()
    zones: list[_Zone] = []
    quantities: list[Quantity] = []
    for zone in sorted(folder.glob("intel-rapl:*")):
        path = zone / "energy_uj"
        slug = slugs.make(_zone_label(zone))
        reason = None
        try:
            file = KeptFile(path, 64)
            try:
                zones.append(_Zone(file, load_int(zone / "max_energy_range_uj") or None))
            except MeterError:
                file.close()
                raise
        except (OSError, MeterError) as error:
            reason = reason_unreadable(error, path)
        quantities += _zone_quantities(slug, path, reason)
    if quantities:
        return RaplMeter(zones, tuple(quantities))
    return AbsentMeter(
        name=_NAME,
        reason=f"no RAPL zone under {folder}: another processor, a virtual machine, or the "
        "intel_rapl kernel module is not loaded",
        source=f"{folder}/intel-rapl:*/energy_uj",
    )
