"""Power rails and temperatures that boards expose through hwmon; writes no setting.

INA monitors on Jetson boards are read here, by hwmon on newer kernels and by the older iio path.
Power and energy are one meter, temperatures another: those change slowly and cost as much.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trainload.errors import MeterError
from trainload.meters._kept_file import KeptFile, load_int, load_line
from trainload.meters._slug import SlugMaker
from trainload.meters.meter import AbsentMeter, Meter, MeterContext, Quantity, Value


@dataclass(frozen=True, kw_only=True)
class _Sensor:
    """A value to be read: the product of its files times a scale."""

    label: str
    suffix: str
    paths: tuple[Path, ...]
    scale: float
    refresh_s: float | None = None
    reason: str | None = None
    capacity: float | None = None


class HwmonMeter:
    """Reads the files of its sensors through kept descriptors."""

    def __init__(
        self,
        name: str,
        period_s: float,
        opened: list[tuple[_Sensor, list[KeptFile]]],
        quantities: tuple[Quantity, ...],
    ) -> None:
        self.name = name
        self.period_s = period_s
        self._opened = [(files, sensor.scale) for sensor, files in opened]
        self.quantities = quantities

    def read(self, t_s: float) -> list[Value]:  # noqa: ARG002 - instantaneous values and counters
        """One value for each sensor; None where a chip does not answer this time."""
        values: list[Value] = []
        for files, scale in self._opened:
            try:
                value = scale
                for file in files:
                    value *= file.read_int()
                values.append(value)
            except MeterError:
                values.append(None)
        return values

    def close(self) -> None:
        """Give the descriptors back."""
        for files, _ in self._opened:
            for file in files:
                file.close()


def open_hwmon_meter(context: MeterContext) -> Meter:
    """All power rails and energy counters; absent where the board exposes none."""
    sensors = [s for chip in _chips(context.sys_root) for s in _power_sensors(chip)]
    sensors += _iio_sensors(context.sys_root)
    return _open("hwmon", 0.0, "rail_", sensors, context.sys_root, "no power rail")


def open_hwmon_temperature_meter(context: MeterContext) -> Meter:
    """All temperatures; absent where the board exposes none."""
    sensors = [s for chip in _chips(context.sys_root) for s in _temperature_sensors(chip)]
    return _open("hwmon_temperature", 1.0, "temp_", sensors, context.sys_root, "no temperature")


def _open(
    name: str, period_s: float, prefix: str, sensors: list[_Sensor], sys_root: Path, missing: str
) -> Meter:
    folder = sys_root / "class" / "hwmon"
    if not sensors:
        return AbsentMeter(name=name, reason=f"{missing} under {folder}", source=f"{folder}/hwmon*")
    makers: dict[str, SlugMaker] = {}
    opened: list[tuple[_Sensor, list[KeptFile]]] = []
    quantities: list[Quantity] = []
    for sensor in sensors:
        slug = makers.setdefault(sensor.suffix, SlugMaker()).make(sensor.label)
        reason, unavailable = sensor.reason, False
        files: list[KeptFile] = []
        try:
            for path in sensor.paths:
                files.append(KeptFile(path, 64))  # noqa: PERF401 - those before a failure are closed
            opened.append((sensor, files))
        except OSError as error:
            for file in files:
                file.close()
            reason, unavailable = f"{error.filename}: {error.strerror}", True
        quantities.append(
            Quantity(
                column=f"{prefix}{slug}{sensor.suffix}",
                provenance="unavailable"
                if unavailable
                else ("measured" if len(sensor.paths) == 1 else "derived"),
                source=" × ".join(str(path) for path in sensor.paths),
                refresh_s=sensor.refresh_s,
                reason=reason,
                capacity=sensor.capacity,
                cumulative=sensor.suffix == "_energy_j",
            )
        )
    return HwmonMeter(name, period_s, opened, tuple(quantities))


@dataclass(frozen=True, kw_only=True)
class _Chip:
    folder: Path
    name: str
    refresh_s: float | None

    def numbers(self, kind: str, ending: str) -> list[int]:
        """Channel numbers that have the file `<kind><N>_<ending>`."""
        found = []
        for path in self.folder.glob(f"{kind}[0-9]*_{ending}"):
            number = path.name.removeprefix(kind).removesuffix(f"_{ending}")
            if number.isdigit() and load_int(self.folder / f"{kind}{number}_enable") != 0:
                found.append(int(number))
        return sorted(found)

    def label(self, kind: str, number: int) -> str:
        """The channel's own label, or the chip's name with the channel."""
        return load_line(self.folder / f"{kind}{number}_label") or f"{self.name}_{kind}{number}"


def _chips(sys_root: Path) -> Iterator[_Chip]:
    def order(folder: Path) -> tuple[int, str]:
        number = folder.name.removeprefix("hwmon")
        return (int(number) if number.isdigit() else 0, folder.name)

    for folder in sorted((sys_root / "class" / "hwmon").glob("hwmon*"), key=order):
        update_ms = load_int(folder / "update_interval")
        yield _Chip(
            folder=folder,
            name=load_line(folder / "name") or folder.name,
            refresh_s=update_ms / 1000 if update_ms else None,
        )


def _power_sensors(chip: _Chip) -> Iterator[_Sensor]:
    inputs = chip.numbers("power", "input")
    averages = [n for n in chip.numbers("power", "average") if n not in inputs]
    for ending, numbers in (("input", inputs), ("average", averages)):
        for number in numbers:
            cap_uw = load_int(chip.folder / f"power{number}_cap")
            yield _Sensor(
                label=chip.label("power", number),
                suffix="_power_w",
                paths=(chip.folder / f"power{number}_{ending}",),
                scale=1e-6,
                refresh_s=chip.refresh_s,
                reason="averaged by the chip" if ending == "average" else None,
                capacity=cap_uw / 1e6 if cap_uw else None,
            )
    if not inputs and not averages:
        yield from _volt_ampere_sensors(chip)
    for number in chip.numbers("energy", "input"):
        yield _Sensor(
            label=chip.label("energy", number),
            suffix="_energy_j",
            paths=(chip.folder / f"energy{number}_input",),
            scale=1e-6,
            refresh_s=chip.refresh_s,
        )


def _volt_ampere_sensors(chip: _Chip) -> Iterator[_Sensor]:
    """Rails that state volts and amperes of one channel, as the INA3221 does."""
    currents = chip.numbers("curr", "input")
    for number in chip.numbers("in", "input"):
        volt_label = load_line(chip.folder / f"in{number}_label")
        ampere_label = load_line(chip.folder / f"curr{number}_label")
        # Elsewhere than on INA chips, equal numbers do not mean the same rail.
        same_rail = chip.name.startswith("ina") or (volt_label and volt_label == ampere_label)
        if number in currents and same_rail:
            yield _Sensor(
                label=chip.label("in", number),
                suffix="_power_w",
                paths=(chip.folder / f"in{number}_input", chip.folder / f"curr{number}_input"),
                scale=1e-6,
                refresh_s=chip.refresh_s,
                reason="voltage times current, read one after the other",
            )


def _temperature_sensors(chip: _Chip) -> Iterator[_Sensor]:
    for number in chip.numbers("temp", "input"):
        label = load_line(chip.folder / f"temp{number}_label")
        yield _Sensor(
            label=f"{chip.name}_{label}" if label else chip.label("temp", number),
            suffix="_celsius",
            paths=(chip.folder / f"temp{number}_input",),
            scale=1e-3,
            refresh_s=chip.refresh_s,
        )


def _iio_sensors(sys_root: Path) -> Iterator[_Sensor]:
    """Rails of Jetson kernels before 5.x (TX1 to Xavier): milliwatts under iio."""
    driver = sys_root / "bus" / "i2c" / "drivers" / "ina3221x"
    for path in sorted(driver.glob("*/iio:device*/in_power[0-9]*_input")):
        number = path.name.removeprefix("in_power").removesuffix("_input")
        label = load_line(path.parent / f"rail_name_{number}")
        yield _Sensor(
            label=label or f"{path.parent.name}_power{number}",
            suffix="_power_w",
            paths=(path,),
            scale=1e-3,
        )
