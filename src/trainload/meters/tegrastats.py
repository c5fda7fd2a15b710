"""Jetson boards through NVIDIA's tegrastats: one process for the whole run, or a file of its lines.

Starts no process per sample and needs no root; what a line means is in `_tegrastats_line`.
"""

import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from trainload.errors import MeterError
from trainload.meters._slug import slug_of
from trainload.meters._tegrastats_line import TegrastatsReading, parse_tegrastats_line
from trainload.meters.meter import AbsentMeter, Meter, MeterContext, Quantity, Value

__all__ = [
    "TegrastatsMeter",
    "TegrastatsReading",
    "open_tegrastats_meter",
    "parse_tegrastats_line",
    "tegrastats_quantities",
    "tegrastats_values",
]

_NAME = "tegrastats"
_FIRST_LINE_S = 3.0
_BOARD_REASON = (
    "the board's input rail (VDD_IN, POM_5V_IN, VIN) where the line has one, else the sum of rails"
)


class _Lines(Protocol):
    """Where lines come from."""

    def next_line(self) -> str | None:
        """The newest line not given yet; None where there is none."""
        ...

    def close(self) -> None: ...


class _ProgramLines:
    """The pipe of a running tegrastats."""

    def __init__(self, program: str, interval_s: float) -> None:
        command = [program, "--interval", str(max(1, round(interval_s * 1000)))]
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert self._process.stdout is not None
        self._pipe = self._process.stdout
        self._fd = self._pipe.fileno()
        os.set_blocking(self._fd, False)
        self._rest = b""

    def first_line(self, timeout_s: float) -> str | None:
        """The first whole line; None where none comes in time."""
        end_s = time.monotonic() + timeout_s
        while (left_s := end_s - time.monotonic()) > 0:
            select.select([self._fd], [], [], left_s)
            line = self.next_line()
            if line is not None:
                return line
        return None

    def next_line(self) -> str | None:
        ended = False
        while True:
            try:
                chunk = os.read(self._fd, 65536)
            except BlockingIOError:
                break
            if not chunk:
                ended = True
                break
            self._rest += chunk
        whole, newline, self._rest = self._rest.rpartition(b"\n")
        if newline:
            return whole.rpartition(b"\n")[2].decode("utf-8", errors="replace")
        if ended:
            raise MeterError("tegrastats ended: start it by hand to see why")
        return None

    def close(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._pipe.close()


class _FileLines:
    """A recording, one line for each read."""

    def __init__(self, path: Path) -> None:
        text = path.read_text(encoding="utf-8", errors="replace")
        self._lines = iter([line for line in text.splitlines() if line.strip()])

    def next_line(self) -> str | None:
        return next(self._lines, None)

    def close(self) -> None:
        self._lines = iter([])


class TegrastatsMeter:
    """Gives the columns that the first line states."""

    name = _NAME

    def __init__(self, lines: _Lines, first: str, source: str, interval_s: float | None) -> None:
        self._lines = lines
        reading = parse_tegrastats_line(first)
        self._waiting: TegrastatsReading | None = reading
        self.period_s = interval_s or 0.0
        self.quantities = tuple(tegrastats_quantities(reading, source, interval_s))
        self._columns = [quantity.column for quantity in self.quantities]

    def read(self, t_s: float) -> list[Value]:  # noqa: ARG002 - a line states present values
        """The newest line's values; None throughout where no line came since the last read."""
        reading, self._waiting = self._waiting, None
        if reading is None:
            line = self._lines.next_line()
            if line is None:
                return [None] * len(self._columns)
            reading = parse_tegrastats_line(line)
        values = dict(tegrastats_values(reading))
        return [values.get(column) for column in self._columns]

    def close(self) -> None:
        """End the tegrastats process; harmless when called twice."""
        self._lines.close()


def tegrastats_values(reading: TegrastatsReading) -> Iterator[tuple[str, Value]]:
    """Column and value of everything a line states; the first of two equal names wins."""
    yield "tegra_ram_used_bytes", reading.ram_used_bytes
    if reading.swap_used_bytes is not None:
        yield "tegra_swap_used_bytes", reading.swap_used_bytes
    for core, load in enumerate(reading.cpu_load_fractions):
        yield f"tegra_cpu{core}_load_fraction", load
    for core, clock in enumerate(reading.cpu_clocks_hz):
        yield f"tegra_cpu{core}_clock_hz", clock
    yield "tegra_gpu_load_fraction", reading.gpu_load_fraction
    if reading.gpu_clock_hz is not None:
        yield "tegra_gpu_clock_hz", reading.gpu_clock_hz
    yield "tegra_emc_load_fraction", reading.emc_load_fraction
    if reading.emc_clock_hz is not None:
        yield "tegra_emc_clock_hz", reading.emc_clock_hz
    seen: set[str] = set()
    rails = [(f"tegra_rail_{slug_of(name)}_power_w", power) for name, power in reading.rails_w]
    temperatures = [
        (f"tegra_temp_{slug_of(name)}_celsius", value)
        for name, value in reading.temperatures_celsius
    ]
    for column, value in (*rails, *temperatures):
        if column not in seen:
            seen.add(column)
            yield column, value
    if reading.rails_w:
        yield "tegra_power_w", reading.board_power_w


def tegrastats_quantities(
    reading: TegrastatsReading, source: str, interval_s: float | None
) -> Iterator[Quantity]:
    """What the columns of a line are."""
    capacities: dict[str, float | None] = {
        "tegra_ram_used_bytes": float(reading.ram_total_bytes),
        "tegra_swap_used_bytes": float(reading.swap_total_bytes or 0) or None,
    }
    for column, _ in tegrastats_values(reading):
        board = column == "tegra_power_w"
        capacity = 1.0 if column.endswith("_fraction") else capacities.get(column)
        yield Quantity(
            column=column,
            provenance="derived" if board else "measured",
            source=source,
            refresh_s=interval_s,
            reason=_BOARD_REASON if board else None,
            capacity=capacity,
        )


def _open_lines(context: MeterContext) -> tuple[_Lines, str | None, str, float | None] | str:
    """Lines, the first of them, their source and interval; or why there are none."""
    path = context.tegrastats_path
    if path is not None and path.is_file() and not os.access(path, os.X_OK):
        recorded = _FileLines(path)
        return recorded, recorded.next_line(), str(path), None
    program = shutil.which(str(path)) if path is not None else shutil.which("tegrastats")
    if program is None:
        return f"{path} is neither program nor file" if path else "no tegrastats on PATH"
    live = _ProgramLines(program, context.interval_s)
    try:
        first = live.first_line(_FIRST_LINE_S + context.interval_s)
    except MeterError:
        first = None
    return live, first, program, context.interval_s


def open_tegrastats_meter(context: MeterContext) -> Meter:
    """A Jetson's own readings; absent where tegrastats is not there or says nothing."""
    source = str(context.tegrastats_path or "tegrastats")
    try:
        opened = _open_lines(context)
    except OSError as error:
        opened = f"{source} cannot be started or read: {error.strerror}"
    if isinstance(opened, str):
        return AbsentMeter(name=_NAME, reason=opened, source=source)
    lines, first, source, interval_s = opened
    reason = f"{source} gave no line"
    if first is not None:
        try:
            return TegrastatsMeter(lines, first, source, interval_s)
        except MeterError as error:
            reason = str(error)
    lines.close()
    return AbsentMeter(name=_NAME, reason=reason, source=source)
