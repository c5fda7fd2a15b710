"""Clock of each core as the kernel states it, from cpufreq or else cpuinfo; sets no clock."""

from pathlib import Path

from trainload.errors import MeterError
from trainload.meters._kept_file import KeptFile, load_int
from trainload.meters.meter import AbsentMeter, Meter, MeterContext, Quantity, Value

_NAME = "host_clock"
_CPUINFO_REASON = "as the kernel states it; under a hypervisor often the constant nominal clock"


class CpufreqMeter:
    """Reads every core's scaling_cur_freq."""

    name = _NAME
    # On current x86 kernels a read may wake the core to look at its counters.
    period_s = 1.0

    def __init__(self, files: dict[int, Path]) -> None:
        self._files: list[KeptFile] = []
        try:
            for path in files.values():
                self._files.append(KeptFile(path))
        except OSError:
            self.close()
            raise
        self.quantities = tuple(
            Quantity(
                column=f"host_cpu{core}_clock_hz",
                provenance="measured",
                source=str(path),
                capacity=_cpufreq_max_hz(path.parent),
            )
            for core, path in files.items()
        )

    def read(self, t_s: float) -> list[Value]:  # noqa: ARG002 - an instantaneous value
        """Hertz per core; None for a core that is offline now."""
        values: list[Value] = []
        for file in self._files:
            try:
                values.append(file.read_int() * 1000)
            except MeterError:
                values.append(None)
        return values

    def close(self) -> None:
        """Give the descriptors back."""
        for file in self._files:
            file.close()


def _cpufreq_max_hz(folder: Path) -> float | None:
    max_khz = load_int(folder / "cpuinfo_max_freq")
    return max_khz * 1000.0 if max_khz else None


def parse_cpuinfo_clocks(text: bytes) -> dict[int, float]:
    """Hertz by core of a /proc/cpuinfo text; empty where it states no clock."""
    clocks: dict[int, float] = {}
    core: int | None = None
    for line in text.split(b"\n"):
        if line.startswith(b"processor"):
            number = line.partition(b":")[2].strip()
            core = int(number) if number.isdigit() else None
        elif core is not None and line.startswith(b"cpu MHz"):
            try:
                clocks[core] = float(line.partition(b":")[2]) * 1e6
            except ValueError:
                continue
    return clocks


class CpuinfoMeter:
    """Reads `cpu MHz` of /proc/cpuinfo."""

    name = _NAME
    period_s = 1.0

    def __init__(self, path: Path, cores: list[int]) -> None:
        self._file = KeptFile(path, size_bytes=65536)
        self._cores = cores
        self.quantities = tuple(
            Quantity(
                column=f"host_cpu{core}_clock_hz",
                provenance="derived",
                source=str(path),
                reason=_CPUINFO_REASON,
            )
            for core in cores
        )

    def read(self, t_s: float) -> list[Value]:  # noqa: ARG002 - an instantaneous value
        """Hertz per core; None for a core that is offline now."""
        clocks = parse_cpuinfo_clocks(self._file.read_whole())
        return [clocks.get(core) for core in self._cores]

    def close(self) -> None:
        """Give the descriptor back."""
        self._file.close()


def open_host_clock_meter(context: MeterContext) -> Meter:
    """The cores' clocks in hertz; absent where the kernel states none."""
    folder = context.sys_root / "devices" / "system" / "cpu"
    files: dict[int, Path] = {}
    for path in folder.glob("cpu[0-9]*/cpufreq/scaling_cur_freq"):
        number = path.parent.parent.name.removeprefix("cpu")
        if number.isdigit() and load_int(path) is not None:
            files[int(number)] = path
    if files:
        try:
            return CpufreqMeter(dict(sorted(files.items())))
        except OSError:
            pass  # cpuinfo may still answer
    cpuinfo = context.proc_root / "cpuinfo"
    try:
        cores = sorted(parse_cpuinfo_clocks(cpuinfo.read_bytes()))
        if cores:
            return CpuinfoMeter(cpuinfo, cores)
    except OSError:
        pass  # absent, as said below
    return AbsentMeter(
        name=_NAME,
        reason="neither cpufreq nor cpuinfo states a clock here",
        source=f"{folder}/cpu*/cpufreq/scaling_cur_freq, {cpuinfo}",
        columns=("host_cpu0_clock_hz",),
    )
