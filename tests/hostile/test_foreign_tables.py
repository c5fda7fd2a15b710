"""Tables that bring down the library that reads them: tried elsewhere first, named in one line.

`aborts.parquet` is a table of steps with a few bits flipped; polars 2.1 aborts its process over it.
"""

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from trainload.api.loading import load
from trainload.cli.app import run_app
from trainload.errors import RecordError
from trainload.record import known, seal_run, trial
from trainload.record.sound import read_table

GOLDEN = Path(__file__).parents[1] / "golden"
ABORTS = Path(__file__).with_name("aborts.parquet")
STAND_IN = """
import os, sys, time
source = os.fdopen(0, "rb", buffering=0)
while head := source.read(8):
    data = source.read(int.from_bytes(head, "big"))
    if data == b"abort":
        print("thread panicked at 'no memory'", file=sys.stderr, flush=True)
        os.abort()
    if data == b"hang":
        time.sleep(60)
    print('"is damaged: odd"' if data == b"odd" else "null", flush=True)
"""


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    return Path(shutil.copytree(GOLDEN / "format-1-sealed", tmp_path / "run"))


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A trial that does as the table says."""
    program = tmp_path / "stand_in.py"
    program.write_text(STAND_IN)
    trial._end()
    monkeypatch.setattr(trial, "_PROGRAM", program)
    yield
    trial._end()


def trials(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of the tables that are tried from now on."""
    seen: list[int] = []
    find = trial.find_trouble

    def note(data: bytes) -> str | None:
        seen.append(len(data))
        return find(data)

    monkeypatch.setattr(trial, "find_trouble", note)
    return seen


def test_a_table_that_aborts_its_reader_is_one_line(sealed: Path, tmp_path: Path) -> None:
    bad = Path(shutil.copytree(sealed, tmp_path / "bad"))
    shutil.copy(ABORTS, bad / "steps.parquet")
    page = tmp_path / "page.html"
    for words in (["show", str(bad)], ["report", str(sealed), str(bad), "--html", str(page)]):
        done = subprocess.run(
            [sys.executable, "-m", "trainload", *words], capture_output=True, text=True, check=False
        )
        assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
        assert "bad/steps.parquet is damaged: it brings down" in done.stderr
        assert "SIGABRT" in done.stderr and "backtrace" not in done.stderr
    assert 'id="run-1"' in page.read_text()


def test_no_panic_reaches_the_terminal(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    dice = random.Random(5)
    whole = (GOLDEN / "format-1-sealed" / "steps.parquet").read_bytes()
    refused = 0
    for number in range(60):
        data = bytearray(whole)
        for _ in range(3):
            data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        path = tmp_path / f"{number}.parquet"
        path.write_bytes(data)
        try:
            assert read_table(path).width
        except RecordError as error:
            refused += 1
            assert "\n" not in str(error)
    assert refused > 10
    assert capfd.readouterr().err == ""


@pytest.mark.usefixtures("stand_in")
def test_only_the_table_that_killed_the_trial_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert trial.find_trouble(b"fine") is None
    told = trial.find_trouble(b"abort")
    assert told is not None and "SIGABRT: thread panicked at 'no memory'" in told
    assert trial.find_trouble(b"fine") is None
    assert trial.find_trouble(b"odd") == "is damaged: odd"
    monkeypatch.setattr(trial, "LIMIT_S", 0.5)
    told = trial.find_trouble(b"hang")
    assert told is not None and "SIGKILL" in told


@pytest.mark.usefixtures("stand_in")
def test_a_trial_that_ended_by_itself_blames_no_table() -> None:
    assert trial.find_trouble(b"fine") is None
    assert trial._running is not None
    trial._running._process.kill()
    assert trial.find_trouble(b"fine") is None


@pytest.mark.usefixtures("stand_in")
def test_a_forked_process_has_a_trial_of_its_own() -> None:
    assert trial.find_trouble(b"fine") is None
    child = os.fork()
    if child == 0:
        try:
            ours = trial._running is None and trial.find_trouble(b"odd") == "is damaged: odd"
            trial._end()
            os._exit(0 if ours else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert trial.find_trouble(b"fine") is None


def test_a_trial_that_does_not_start_is_one_line(
    sealed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial._end()
    monkeypatch.setattr(trial, "_PROGRAM", tmp_path / "none.py")
    with pytest.raises(RecordError, match="does not start") as caught:
        read_table(sealed / "steps.parquet")
    assert "\n" not in str(caught.value)


def test_what_was_sealed_here_or_tried_before_is_not_tried(
    sealed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = trials(monkeypatch)
    own = Path(shutil.copytree(GOLDEN / "format-1-lines", tmp_path / "own"))
    seal_run(own)
    assert load(own).steps.height and seen == []
    for _ in range(2):
        run = load(sealed)
        assert run.steps.height and run.samples.height and run.epochs.height
        assert len(seen) == 3
    with (sealed / "steps.parquet").open("ab") as file:
        file.write(b"PAR1")
    with pytest.raises(RecordError):
        read_table(sealed / "steps.parquet")
    assert len(seen) == 4, "another content is another table"


def test_without_a_cache_each_reading_is_tried(
    sealed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    seen = trials(monkeypatch)
    for count in (1, 2):
        assert read_table(sealed / "steps.parquet").height == 26
        assert len(seen) == count


def test_the_list_of_known_tables_is_bounded_and_the_users_own(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known, "MOST_KEPT", 10)
    digests = [known.digest_of(bytes([n])) for n in range(25)]
    for digest in digests:
        known.remember(digest)
        assert known.is_known(digest)
    path = cache / "sound-tables"
    assert path.stat().st_size < 2 * 11 * 66 and path.stat().st_mode & 0o777 in (0o600, 0o644)
    assert not known.is_known(digests[0])
    path.write_bytes(path.read_bytes() + b"\nabc")  # torn by a crash
    known.remember(digests[3])
    assert known.is_known(digests[3]) and known.is_known(digests[24])
    path.chmod(0o666)
    os.utime(path, (1, 1))
    assert not known.is_known(digests[24]), "anybody could have written it"
    path.unlink()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(digests[0] + b"\n")
    path.symlink_to(elsewhere)
    known.remember(digests[1])
    assert not known.is_known(digests[0]) and elsewhere.stat().st_size == 65


def test_a_trial_has_no_more_memory_than_a_table_of_its_size_may_take() -> None:
    program = (
        "from trainload.record.parquet import _limit\n_limit(3000, 64 << 20)\nbytearray(600 << 20)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.returncode == 1 and b"MemoryError" in done.stderr


def test_the_verbs_say_nothing_of_a_trial(sealed: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run_app(["show", str(sealed)]) == 0
    assert capfd.readouterr().err == ""
