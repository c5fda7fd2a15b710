"""Reading one mutated run directory in every way that we offer, under a watch.

Runs our commands in this process; what escapes them, hangs or leaks is told in words.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import re
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from chaos_parts.study_folders import study_reads
from trainload.api.loading import load, load_all
from trainload.cli.app import run_app
from trainload.cli.printing import json_text
from trainload.cli.show import Parts, print_first_screen, print_parts, run_json
from trainload.errors import TrainloadError
from trainload.record import seal_run

SECRET = "PRIVATE-KEY-7f3a"
LIMIT_S = 10.0
_STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]")
PAGE_EVERY = 20
"""A page is slow to make, and so is each command: only every so many directories get them."""
Defect = tuple[str, str]
"""Which count of the tally it belongs to, and words."""


Snapshot = dict[str, tuple[int, int, bytes]]


class Hang(BaseException):
    """A read took longer than `LIMIT_S`, what it waited for a core left out."""


def read_all(run: Path, outside: Path, good: Path, case: int | None) -> list[Defect]:
    """Every defect that reading this directory shows; without a case it is a study's folder."""
    before = snapshot(outside)
    reads: list[tuple[str, Callable[[], None]]] = []
    if case is None:
        reads += study_reads(run, _command, run.parent)
        return _defects(reads, outside, before)
    if any(run.glob("*.jsonl")):
        reads.append(("unsealed", lambda: _look(run, seal=False)))
    reads += [("seal", lambda: _seal(run)), ("show and load", lambda: _look(run, seal=True))]
    if case % PAGE_EVERY == 0:
        page, tables = run.parent / "page.html", str(run.parent / "csv")
        both = [str(good), str(run)]
        reads += [
            ("show --json", lambda: _command(["show", str(run), "--json"], json_expected=True)),
            ("show", lambda: _command(["show", str(run)])),
            ("seal", lambda: _command(["seal", str(run), "--json"], json_expected=True)),
            ("report", lambda: _report(both, page)),
            ("report --json", lambda: _command(["report", *both, "--json"], json_expected=True)),
            ("report --csv", lambda: _command(["report", str(run), "--csv", tables])),
            ("report --trace", lambda: _trace(run)),
            ("load_all", lambda: _table(run)),
            ("scorecard", lambda: _command(["scorecard", str(run)])),
        ]
    return _defects(reads, outside, before)


def _defects(
    reads: list[tuple[str, Callable[[], None]]], outside: Path, before: Snapshot
) -> list[Defect]:
    found: list[Defect] = []
    for name, read in reads:
        try:
            with _watched():
                read()
        except Hang:
            found.append(("hangs", f"{name}: over {LIMIT_S:g} s"))
        except InvalidJson as error:
            found.append(("invalid_json", f"{name}: {error}"))
        except Leak as error:
            found.append(("touched_outside", f"{name}: {error}"))
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            found.append(("tracebacks", f"{name}: {_told(error)}"))
    if snapshot(outside) != before:
        found.append(("touched_outside", "a file outside was made, changed or removed"))
    return found


class InvalidJson(Exception):
    """What was printed as JSON is none."""


class Leak(Exception):
    """What stands in a file outside came out."""


def snapshot(folder: Path) -> Snapshot:
    """Every file under a folder as it is."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        data = path.read_bytes() if path.is_file() else b""
        found[str(path)] = (status.st_ino, status.st_mtime_ns, data)
    return found


def _look(path: Path, *, seal: bool) -> None:
    """All that `load`, `show` and `show --json` do, on one object: a run is summed up once."""
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            run = load(path, seal=seal)
            told = run._repr_html_() + run.worker_log_tail() + repr(run)
            assert run.steps.columns[0] == "step" and run.epochs.width and run.samples.width
            for rank in range(min(run.manifest.processes or 1, 3)):
                assert run.steps_of(rank).height >= 0
            assert len(run.before) >= 0
            status = print_first_screen(run)
            for parts in (Parts(everything=True), Parts(loads=True, layers=True, energy=True)):
                print_parts(run, parts, top=15, rank=0)
            text = json_text(run_json(run)[0])
            if status == 0:
                assert run.layers.width
    except TrainloadError as error:
        told, text = str(error), "null"
        assert "\n" not in told, "one line"
    _check_json(text)
    _check_leak(told + text + out.getvalue())


def _seal(path: Path) -> None:
    try:
        seal_run(path)
    except TrainloadError as error:
        assert "\n" not in str(error), "one line"


def _command(words: list[str], *, json_expected: bool = False) -> None:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = run_app(words)
    told = err.getvalue()
    assert status in (0, 1, 2), f"status {status}"
    assert all(row.startswith("error: ") for row in told.splitlines()), told[:200]
    assert (status == 2) == bool(told), f"status {status} with {told[:100]!r}"
    if json_expected and (out.getvalue() or status == 0):
        _check_json(out.getvalue())
    steering = _STEERING.search(told if json_expected else told + out.getvalue())
    assert steering is None, f"a terminal would be steered by {steering[0]!r}"
    _check_leak(out.getvalue() + told)


def _report(runs: list[str], page: Path) -> None:
    _command(["report", *runs, "--html", str(page)])
    text = page.read_text()
    assert text.endswith("</html>\n"), "the page is whole, whatever the other run is"
    assert "<script>alert(1)" not in text and "</script>alert" not in text
    _check_leak(text)


def _trace(run: Path) -> None:
    out = run.parent / "out.json.gz"
    _command(["report", str(run), "--trace", str(out)])
    if out.exists():
        _check_leak(out.read_bytes().decode("latin-1"))


def _table(run: Path) -> None:
    table = load_all([run]).table()
    assert table.height == 1


def _check_json(text: str) -> None:
    try:
        json.loads(text, parse_constant=_refuse)
        text.encode()
    except ValueError as error:
        raise InvalidJson(str(error)) from error


def _check_leak(text: str) -> None:
    if SECRET in text:
        raise Leak("the content of a file outside is shown")


def _refuse(name: str) -> Any:
    raise ValueError(f"bare {name}")


def _told(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if "/src/trainload" in f.filename] or frames
    at = f"{Path(ours[-1].filename).name}:{ours[-1].lineno} {ours[-1].name}" if ours else "?"
    return f"{type(error).__name__} at {at}: {str(error)[:150]!r}"


@contextlib.contextmanager
def _watched() -> Iterator[None]:
    begun_s, waited_s = time.monotonic(), _waited_s()

    def look(*_: object) -> None:
        """On a machine that others keep busy, time spent waiting for a core is no hang."""
        if time.monotonic() - begun_s - (_waited_s() - waited_s) > LIMIT_S:
            raise Hang

    before = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S, LIMIT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _waited_s() -> float:
    """Seconds that threads of this process and of those it started stood without a core."""
    waited_ns = 0
    started: list[str] = []
    for path in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):  # a thread may have ended meanwhile
            started += path.read_text().split()
    threads = (Path(f"/proc/{one}/task").glob("*/schedstat") for one in ("self", *started))
    for path in itertools.chain.from_iterable(threads):
        with contextlib.suppress(OSError):
            waited_ns += int(path.read_text().split()[1])
    return waited_ns * 1e-9


def peak_mb() -> float:
    """The most memory that this process held since `forget_peak`."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        for row in file:
            if row.startswith("VmHWM:"):
                return int(row.split()[1]) / 1024
    return 0.0


def forget_peak() -> None:
    """Begin a new count; the kernel may refuse, and the count is then of the whole life."""
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")
