"""What the run's own processes use, from /proc/<pid>; touches no process outside the tree."""

import os
import time
from pathlib import Path

from trainload.errors import MeterError
from trainload.meters._kept_file import KeptFile
from trainload.meters._process_stat import ProcessStat, parse_process_stat
from trainload.meters._tree_scan import TreeScan
from trainload.meters.meter import AT_EACH_READ, AbsentMeter, Meter, MeterContext, Quantity, Value

_NAME = "process_tree"
_COLUMNS = (
    "run_cpu_load_fraction",
    "run_cpu_s",
    "run_rss_bytes",
    "run_threads_count",
    "run_processes_count",
    "run_kernel_s",
    "run_page_faults_count",
    "run_read_bytes",
    "run_written_bytes",
    "run_pss_bytes",
)
_IO_PERIOD_S = 1.0
_PSS_PERIOD_S = 5.0
_PSS_COST_SHARE = 0.001
"""Reading PSS walks the page tables of the training itself: at most this share of a core."""


class _Member:
    """A process of the tree with its files kept open, so that a reused id is never read."""

    def __init__(self, folder: Path) -> None:
        self.smaps = folder / "smaps_rollup"
        self._stat = KeptFile(folder / "stat", 1024)
        self._io: KeptFile | None = None
        try:
            self._io = KeptFile(folder / "io", 512)
        except OSError:
            pass  # another user's process: its counters are not for us

    def read_stat(self) -> ProcessStat | None:
        try:
            return parse_process_stat(self._stat.read())
        except MeterError:
            return None

    def read_io(self) -> tuple[int, int] | None:
        """Bytes read from and written to storage; None where not permitted or gone."""
        if self._io is None:
            return None
        try:
            text = self._io.read()
        except MeterError:
            return None
        read, written = _find_int(text, b"\nread_bytes: "), _find_int(text, b"\nwrite_bytes: ")
        return None if read is None or written is None else (read, written)

    def read_pss_bytes(self) -> int | None:
        try:
            pss_kib = _find_int(self.smaps.read_bytes(), b"\nPss:")
        except OSError:
            return None
        return None if pss_kib is None else pss_kib * 1024

    def close(self) -> None:
        self._stat.close()
        if self._io is not None:
            self._io.close()


def _find_int(text: bytes, key: bytes) -> int | None:
    start = text.find(key)
    word = text[start + len(key) :].split(None, 1)[:1] if start >= 0 else []
    return int(word[0]) if word and word[0].isdigit() else None


class ProcessTreeMeter:
    """Sums over the process tree below one root."""

    name = _NAME
    period_s = 0.0

    def __init__(self, proc_root: Path, root_pid: int, core_count: int) -> None:
        self._proc_root = proc_root
        self._core_count = core_count
        self._tick_s = 1 / os.sysconf("SC_CLK_TCK")
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")
        root = _Member(proc_root / str(root_pid))
        self._members = {root_pid: root}
        self._io_reason = None if root.read_io() is not None else "not permitted, or not kept here"
        self._pss_reason = _probe_pss(root)
        self._scan = TreeScan(proc_root, root_pid)
        self._cpu_ticks = self._kernel_ticks = self._page_faults = 0
        self._last: tuple[float, int] | None = None
        self._io_bytes = (0, 0)
        self._io_due_s: float | None = None
        self._pss_due_s: float | None = None
        self.quantities = self._state_quantities(f"{proc_root}/{root_pid}")

    def read(self, t_s: float) -> list[Value]:
        """Sums over the members alive now; None where none is left to ask.

        Storage bytes come once a second and PSS more seldom, None in between.
        """
        if self._scan.due(t_s):
            self._adopt(self._scan.scan(set(self._members)))
        ticks = kernel = faults = pages = threads = alive = 0
        ended = []
        for pid, member in self._members.items():
            stat = member.read_stat()
            if stat is None:
                ended.append(pid)
                continue
            ticks += stat.cpu_ticks
            kernel += stat.kernel_ticks
            faults += stat.page_faults
            if not stat.zombie:
                alive += 1
                pages += stat.rss_pages
                threads += stat.threads
        for pid in ended:
            self._members.pop(pid).close()
        # Between a child's end and its reaping the sum lacks its time: hold the highest.
        self._cpu_ticks = max(self._cpu_ticks, ticks)
        self._kernel_ticks = max(self._kernel_ticks, kernel)
        self._page_faults = max(self._page_faults, faults)
        values: list[Value] = [
            self._load_fraction(t_s) if alive else None,
            self._cpu_ticks * self._tick_s,
            pages * self._page_bytes if alive else None,
            threads if alive else None,
            alive,
            self._kernel_ticks * self._tick_s,
            self._page_faults,
        ]
        if self._io_reason is None:
            values += self._read_io(t_s)
        if self._pss_reason is None:
            values.append(self._read_pss(t_s))
        return values

    def close(self) -> None:
        """Give all descriptors back."""
        self._scan.close()
        for member in self._members.values():
            member.close()
        self._members.clear()

    def _adopt(self, pids: set[int]) -> None:
        for pid in pids:
            try:
                self._members[pid] = _Member(self._proc_root / str(pid))
            except OSError:
                continue  # ended between the scan and now

    def _load_fraction(self, t_s: float) -> float | None:
        last, self._last = self._last, (t_s, self._cpu_ticks)
        if last is None or t_s <= last[0]:
            return None
        busy_s = (self._cpu_ticks - last[1]) * self._tick_s
        return min(1.0, busy_s / (t_s - last[0]) / self._core_count)

    def _read_io(self, t_s: float) -> list[Value]:
        if self._io_due_s is not None and t_s < self._io_due_s:
            return [None, None]
        self._io_due_s = t_s + _IO_PERIOD_S
        counts = [member.read_io() for member in self._members.values()]
        known = [count for count in counts if count is not None]
        # The kernel adds a reaped child's bytes to its parent; hold the highest in between.
        self._io_bytes = (
            max(self._io_bytes[0], sum(count[0] for count in known)),
            max(self._io_bytes[1], sum(count[1] for count in known)),
        )
        return [*self._io_bytes]

    def _read_pss(self, t_s: float) -> int | None:
        if self._pss_due_s is not None and t_s < self._pss_due_s:
            return None
        start_s = time.perf_counter()
        parts = [member.read_pss_bytes() for member in self._members.values()]
        cost_s = time.perf_counter() - start_s
        self._pss_due_s = t_s + max(_PSS_PERIOD_S, cost_s / _PSS_COST_SHARE)
        known = [part for part in parts if part is not None]
        return sum(known) if known else None

    def _state_quantities(self, folder: str) -> tuple[Quantity, ...]:
        def state(column: str, reason: str | None = None, **more: object) -> Quantity:
            known: dict[str, object] = {
                "column": column,
                "provenance": "measured",
                "source": f"{folder}/stat and its descendants'",
                "reason": reason,
            }
            return Quantity(**{**known, **more})  # type: ignore[arg-type]

        load = (
            f"processor time since the last read over {self._core_count} cores the run may use; "
            "a process is found up to 1 s after its start, its time until then counted in that read"
        )
        cpu = "own and reaped children's user and system time; never falls when a child ends"
        kernel = "the part of run_cpu_s that the system took for the run"
        faults = "pages that the system first had to give or map; without those read from a disk"
        rss = "sum of resident sets: pages shared by several processes are counted in each"
        stat: list[Quantity] = [
            state(_COLUMNS[0], load, provenance="derived", refresh_s=self._tick_s, capacity=1.0),
            state(_COLUMNS[1], cpu, cumulative=True, refresh_s=self._tick_s),
            state(_COLUMNS[2], rss, refresh_s=AT_EACH_READ),
            state(_COLUMNS[3], refresh_s=AT_EACH_READ),
            state(
                _COLUMNS[4],
                "members that run or sleep; ended ones are not counted",
                refresh_s=AT_EACH_READ,
            ),
            state(_COLUMNS[5], kernel, cumulative=True, refresh_s=self._tick_s),
            state(_COLUMNS[6], faults, cumulative=True, refresh_s=AT_EACH_READ),
        ]
        io_state = "measured" if self._io_reason is None else "unavailable"
        io_reason = self._io_reason or "storage only: what the page cache answered is not in it"
        pss_state = "measured" if self._pss_reason is None else "unavailable"
        pss_reason = self._pss_reason or (
            "each shared page divided among its users; read at most every 5 s, more seldom where "
            "that would cost over 0.1 % of a core"
        )
        io = {"source": f"{folder}/io", "provenance": io_state, "cumulative": True}
        pss = {"source": f"{folder}/smaps_rollup", "provenance": pss_state}
        return (
            *stat,
            state(_COLUMNS[7], io_reason, refresh_s=_IO_PERIOD_S, **io),
            state(_COLUMNS[8], io_reason, refresh_s=_IO_PERIOD_S, **io),
            state(_COLUMNS[9], pss_reason, refresh_s=_PSS_PERIOD_S, **pss),
        )


def _probe_pss(member: _Member) -> str | None:
    """Why PSS cannot be read; None where it can."""
    try:
        with member.smaps.open("rb"):
            return None
    except OSError as error:
        return f"{member.smaps}: {error.strerror}"


def open_process_tree_meter(context: MeterContext) -> Meter:
    """The run's own use; absent without a run, or where its process cannot be read."""
    source = f"{context.proc_root}/<pid>/stat"
    if context.target_pid is None:
        return AbsentMeter(name=_NAME, reason="no run to watch", source=source, columns=_COLUMNS)
    core_count = len(context.cores) if context.cores else os.cpu_count() or 1
    try:
        return ProcessTreeMeter(context.proc_root, context.target_pid, core_count)
    except OSError as error:
        reason = f"process {context.target_pid} cannot be read: {error.strerror}"
    return AbsentMeter(name=_NAME, reason=reason, source=source, columns=_COLUMNS)
