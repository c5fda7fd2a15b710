"""Mutated run directories read in every way we offer: nothing may escape, hang, leak or swell.

python bench/chaos_parts/mutations.py --minutes 20 --seed 1
python bench/chaos_parts/mutations.py --seed 1 --case 4711    # one again, with its story
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "src")]

from chaos_parts.tally import PEAK_LIMIT_MB, Tally, render_table  # noqa: E402

os.environ.setdefault("POLARS_MAX_THREADS", "1")
SILENT_S = 300.0
"""A reader that says nothing for so long hangs where no signal reaches it."""
FEWEST_MINUTES = 0.05


def run(minutes: float, seed: int, count: int | None = None, *, workers: int = 2) -> Tally:
    """Read mutated directories for so long, at most `count`; the same seed gives the same."""
    tally = Tally(part="mutations")
    kinds: Counter[str] = Counter()
    with _home() as home:
        until = time.monotonic() + 60 * max(minutes, FEWEST_MINUTES)
        readers = [_Reader(home, seed, at, workers, until, count) for at in range(workers)]
        while any(not reader.done for reader in readers):
            for reader in readers:
                reader.hear(tally, kinds)
    told = ", ".join(f"{kind} {count:,}" for kind, count in sorted(kinds.items()))
    print(f"mutations: seed {seed}, {tally.trials:,} directories ({told})", flush=True)
    return tally


@contextlib.contextmanager
def _home() -> Iterator[Path]:
    """A folder with the bases, in which the tables that are known from now on are kept too."""
    from chaos_parts.mutation_bases import make_bases

    kept = os.environ.get("XDG_CACHE_HOME")
    with tempfile.TemporaryDirectory(dir=_fast_folder(), prefix="trainload-mutations-") as folder:
        os.environ["XDG_CACHE_HOME"] = str(Path(folder, "cache"))
        try:
            make_bases(Path(folder, "bases"))
            yield Path(folder)
        finally:
            os.environ.pop("XDG_CACHE_HOME")
            if kept is not None:
                os.environ["XDG_CACHE_HOME"] = kept


class _Reader:
    """One process that reads; started again where a directory brought it down."""

    def __init__(
        self, home: Path, seed: int, first: int, stride: int, until: float, cases: int | None
    ) -> None:
        self.done = False
        self._home, self._seed, self._stride = home, seed, stride
        self._until, self._cases = until, cases
        self._current, self._heard = first, time.monotonic()
        self._start(first)

    def _start(self, first: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe(duplex=False)
        arguments = (theirs, self._home, self._seed, first, self._stride, self._until, self._cases)
        self._process = context.Process(target=_read_cases, args=arguments)
        self._process.start()
        theirs.close()
        self._heard = time.monotonic()

    def hear(self, tally: Tally, kinds: Counter[str]) -> None:
        """Take what it says; begin again behind a directory that brought it down."""
        if self.done:
            return
        try:
            while self._pipe.poll(0.05):
                self._take(self._pipe.recv(), tally, kinds)
                if self.done:
                    self._process.join()
                    return
        except EOFError:
            self._process.join()
            status = self._process.exitcode
            kind = "library_aborts" if status == -signal.SIGABRT else "tracebacks"
            self._fall(kind, f"the process ended with {status}", tally)
            return
        if time.monotonic() - self._heard > SILENT_S:
            self._process.kill()
            self._process.join()
            self._fall("hangs", f"no word for {SILENT_S:g} s", tally)

    def _take(self, said: Any, tally: Tally, kinds: Counter[str]) -> None:
        self._heard = time.monotonic()
        if said is None:
            self.done = True
        elif isinstance(said, int):
            self._current = said
        else:
            case, kind, words, defects, peak_mb = said
            tally.trials += 1
            kinds[kind] += 1
            tally.see_peak(peak_mb)
            if peak_mb > PEAK_LIMIT_MB:
                tally.complaints.append(f"{peak_mb:.0f} MB: {self._name(case)}: {words}")
            for defect, told in defects:
                _complain(tally, defect, f"{self._name(case)}: {told} [{words[:300]}]")

    def _fall(self, defect: str, told: str, tally: Tally) -> None:
        tally.trials += 1
        _complain(tally, defect, f"{self._name(self._current)}: {told}")
        self._start(self._current + self._stride)

    def _name(self, case: int) -> str:
        return f"--seed {self._seed} --case {case}"


def _complain(tally: Tally, defect: str, words: str) -> None:
    """Count it, and tell it at once: a long run need not be waited for."""
    tally.complain(defect, words)
    print(f"{defect}: {words}", file=sys.stderr, flush=True)


def _read_cases(
    pipe: Connection,
    home: Path,
    seed: int,
    first: int,
    stride: int,
    until: float,
    cases: int | None,
) -> None:
    from chaos_parts.mutation_reads import forget_peak, peak_mb

    case = first
    terminal = _own_terminal(home / f"terminal-{first}-{os.getpid()}")
    while time.monotonic() < until and (cases is None or case < cases):
        pipe.send(case)
        forget_peak()
        kind, words, defects = read_case(home, seed, case)
        if said := terminal():
            defects.append(("library_aborts", f"on the terminal: {said}"))
        pipe.send((case, kind, words, defects, peak_mb()))
        case += stride
    pipe.send(None)


def _own_terminal(path: Path) -> Callable[[], str]:
    """Standard error of this process into a file; what was written there since the last call.

    Our commands' own words go another way: what comes here is a library's, from below Python.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(descriptor, 2)
    seen = 0

    def fresh() -> str:
        nonlocal seen
        said = os.pread(descriptor, 2000, seen)
        seen = os.fstat(descriptor).st_size
        return said.decode("utf-8", "replace")[:300]

    return fresh


def read_case(
    home: Path, seed: int, case: int, *, only: str = "*"
) -> tuple[str, str, list[tuple[str, str]]]:
    """Make one mutated directory and read it: the mutation's kind, its words, and defects.

    `only` is a pattern of the bases to begin from.
    """
    from chaos_parts.mutation_bases import OLD_S
    from chaos_parts.mutation_kinds import mutate
    from chaos_parts.mutation_reads import SECRET, read_all
    from chaos_parts.study_folders import NAME as STUDY_BASE
    from chaos_parts.study_folders import mutate_study

    dice = random.Random(f"{seed}:{case}")
    bases = sorted((home / "bases").glob(only))
    base = dice.choice(bases)
    place = home / f"case-{case}"
    shutil.rmtree(place, ignore_errors=True)
    (place / "outside").mkdir(parents=True)
    (place / "outside" / "secret.txt").write_text(f"{SECRET}\n" * 3)
    shutil.copytree(base, place / "run")
    study = base.name == STUDY_BASE
    change = mutate_study if study else mutate
    kind, words = change(place / "run", dice, place / "outside")
    for path in _all_files(place / "run"):
        os.utime(path, (OLD_S, OLD_S), follow_symlinks=False)
    good = place / "good"
    shutil.copytree(home / "bases" / "sealed", good)
    defects = read_all(place / "run", place / "outside", good, None if study else case)
    shutil.rmtree(place)
    return kind, f"{base.name}: {words}", defects


def _all_files(folder: Path) -> Iterator[Path]:
    yield from folder.iterdir()


def _fast_folder() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _replay(seed: int, case: int) -> Tally:
    tally = Tally(part="mutations", trials=1)
    with _home() as home:
        kind, words, defects = read_case(home, seed, case)
    print(f"{kind}: {words}")
    for defect, told in defects:
        tally.complain(defect, told)
    return tally


def main() -> int:
    """Read for a while, or one case again; 1 where anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, help="at most so many directories")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--case", type=int, help="this one alone")
    asked = parser.parse_args()
    if asked.case is not None:
        tally = _replay(asked.seed, asked.case)
    else:
        tally = run(asked.minutes, asked.seed, asked.cases, workers=asked.workers)
    print(render_table([tally]))
    return int(tally.broken)


if __name__ == "__main__":
    sys.exit(main())
