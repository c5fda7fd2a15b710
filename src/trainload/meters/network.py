"""Bytes received and sent over the network, from /proc/net/dev; the loopback does not count."""

from pathlib import Path

from trainload.errors import MeterError
from trainload.meters._kept_file import KeptFile, render_os_error
from trainload.meters.meter import AT_EACH_READ, AbsentMeter, Meter, MeterContext, Quantity, Value

_NAME = "network"
_COLUMNS = ("net_received_bytes", "net_sent_bytes")


def parse_net_dev(text: bytes) -> dict[bytes, tuple[int, int]]:
    """Bytes received and sent, by interface, of a /proc/net/dev text."""
    found: dict[bytes, tuple[int, int]] = {}
    for line in text.split(b"\n"):
        name, colon, counts = line.partition(b":")
        if colon:
            fields = counts.split(None, 9)
            if len(fields) >= 9:
                found[name.strip()] = (int(fields[0]), int(fields[8]))
    return found


class NetworkMeter:
    """Reads /proc/net/dev through one kept descriptor.

    Interfaces with hardware behind them count alone where there are any: bridges and tunnels
    carry the same bytes a second time. Without any, as in a container, all but `lo` count.
    """

    name = _NAME
    period_s = 1.0

    def __init__(self, path: Path, class_folder: Path) -> None:
        self._file = KeptFile(path, 65536)
        try:
            counts = parse_net_dev(self._file.read_whole())
        except (MeterError, ValueError) as error:
            self._file.close()
            raise MeterError(f"{path} is not in the form of proc(5)") from error
        names = [name for name in counts if name != b"lo"]
        hardware = [n for n in names if (class_folder / n.decode() / "device").exists()]
        chosen = hardware or names
        self._last = {name: counts[name] for name in chosen}
        reason = "summed over " + (b", ".join(chosen).decode() or "no interface but the loopback")
        self.quantities = tuple(
            Quantity(
                column=column,
                provenance="measured" if chosen else "unavailable",
                source=str(path),
                reason=reason,
                refresh_s=AT_EACH_READ,
                cumulative=True,
            )
            for column in _COLUMNS
        )

    def read(self, t_s: float) -> list[Value]:  # noqa: ARG002 - plain counters
        """Bytes received and sent since the interfaces came up."""
        if not self._last:
            return []
        try:
            now = parse_net_dev(self._file.read_whole())
        except ValueError as error:
            raise MeterError(f"{self._file.path} is not in the form of proc(5)") from error
        for name in self._last:
            if name in now:  # one that went down keeps its last counts
                self._last[name] = now[name]
        return [
            sum(counts[0] for counts in self._last.values()),
            sum(counts[1] for counts in self._last.values()),
        ]

    def close(self) -> None:
        """Give the descriptor back."""
        self._file.close()


def open_network_meter(context: MeterContext) -> Meter:
    """Bytes over all interfaces; absent where the kernel shows no interface table."""
    path = context.proc_root / "net" / "dev"
    try:
        return NetworkMeter(path, context.sys_root / "class" / "net")
    except OSError as error:
        reason = render_os_error(error)
    except MeterError as error:
        reason = str(error)
    return AbsentMeter(name=_NAME, reason=reason, source=str(path), columns=_COLUMNS)
