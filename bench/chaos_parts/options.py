"""Fuzzed command lines, each in this very process up to where a run would begin: no traceback.

Words are drawn from the command's own options and from what breaks parsers. What would start a
training, fetch data or build an environment is stopped at its door.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

import trainload.api.calibrating as calibrating
import trainload.api.measuring as measuring
import trainload.run.asking as asking
import trainload.run.driver as driver
from chaos_parts.tally import Tally
from trainload.cli.app import app, run_app
from trainload.errors import TrainloadError

VALUES = (
    "", " ", "0", "-1", "1", "2", "1e400", "-1e400", "nan", "inf", "9" * 30, "1" * 4500, "0x10",
    "1_000", "٣", "é", "caf\udce9", "\x00", "a\nb", "\x1b[2J", "\u202e", "x" * 3000, "/", ".", "..",
    "/dev/null", "/proc/self/mem", "no/such/file", "~", "~nobody-here/x", "{}", "[]", "null", "{",
    "a=b", "=", "=x", "x=", "a=b=c", "cpu0", "cpu0-", "cpu9999", "cpu0-1+gpu7", "cpu-1", "gpu", "+",
    "cpu0,cpu0", "1,5", "1,,5", ",", "0,0", "mlp", "resnet18", "lstm_lm", "nope", "train.py", "a/b",
    "synthetic", "keypoints", "csv:", "csv:x", "npy:", "folder:", "mnist:/", "s3:", ":",
    "torch", "jax", "fake", "adam", "sgd", "float32", "bf16", "fp16", "end", "never", "cache",
    "hidden_units=0", "hidden_units=-5", "hidden_units=1e9", "classes=nan", "rows=", "activation=x",
    "image_height=99999999", "dropout=2", "seed_data=-1", "True", "--", "-", "---", "-h", "-q",
)  # fmt: skip
"""Values of options and words on their own."""


_WRITES = ("--out", "--html", "--csv")
"""Options that name what a command is to write."""


class WouldRun(TrainloadError):
    """A training would begin here."""


def run(minutes: float, seed: int, count: int | None = None) -> Tally:
    """Command lines by chance while there is time, at most `count`."""
    return fuzz(seed, count=count, until_s=time.monotonic() + 60 * minutes)


def fuzz(seed: int, *, count: int | None = None, until_s: float = float("inf")) -> Tally:
    """So many command lines, or as many as there is time for."""
    tally = Tally(part="options")
    draw, commands = random.Random(seed), dict(_commands())
    # Two folders deep: what `..` means is empty too.
    with tempfile.TemporaryDirectory() as outer, _nothing_runs(_folder_in(outer)) as folder:
        before = _listing(folder)
        while time.monotonic() < until_s and (count is None or tally.trials < count):
            words = _draw_words(draw, commands)
            tally.trials += 1
            began_s = time.monotonic()
            status, said = _call(words)
            # Reading every run on a disk may take a while.
            if time.monotonic() - began_s > (180.0 if "/" in words else 20.0):
                tally.complain("hangs", f"{words!r:.300}")
            if status == 0 and any(word.partition("=")[0] in _WRITES for word in words):
                before = _listing(folder)  # what was asked for
            if said is not None:
                tally.complain("tracebacks", f"{said} from {words!r:.300}")
            elif status not in (0, 1, 2):
                tally.complain("tracebacks", f"{words!r}: status {status}")
        if _listing(folder) != before:
            tally.complain("touched_outside", f"{_listing(folder) - before}")
    # The peak of this process: what was read, drawn and refused in it.
    tally.see_peak(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    return tally


def _call(words: list[str]) -> tuple[int | None, str | None]:
    """The exit status, and what was raised where that is no line for the user."""
    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = run_app(words)
    except SystemExit as end:
        return (end.code if isinstance(end.code, int) else 1), None
    except BaseException as error:  # noqa: BLE001 - each is counted
        place = traceback.extract_tb(error.__traceback__)[-1]
        return None, f"{type(error).__name__}: {error!s:.200} ({place.filename}:{place.lineno})"
    return status, None


def _draw_words(draw: random.Random, commands: dict[str, list[str]]) -> list[str]:
    name = draw.choice(list(commands))
    words = name.split()
    for _ in range(draw.randrange(6)):
        if draw.random() < 0.65:
            option = draw.choice(commands[name])
            value = draw.choice(VALUES)
            words += [f"{option}={value}"] if draw.random() < 0.3 else [option, value]
        else:
            words.append(draw.choice(VALUES))
    if draw.random() < 0.05:
        draw.shuffle(words)
    return words


def _commands() -> Iterator[tuple[str, list[str]]]:
    """Every verb with the names of its options."""
    group: Any = typer.main.get_command(app)
    for name, command in group.commands.items():
        inner = getattr(command, "commands", None)
        for below, one in (inner or {"": command}).items():
            options = [option for parameter in one.params for option in parameter.opts]
            yield f"{name} {below}".strip(), [o for o in options if o.startswith("-")] or ["--help"]


def _folder_in(outer: str) -> Path:
    folder = Path(outer, "a", "b")
    folder.mkdir(parents=True)
    return folder


@contextlib.contextmanager
def _nothing_runs(folder: Path) -> Iterator[Path]:
    """Within, a run ends at the driver's door, and this is a folder with nothing in it."""
    here, opened, started = Path.cwd(), driver.open_recording, subprocess.Popen
    ready, calibrate = asking.ready_interpreter, calibrating.calibrate_device
    measure = measuring.measure_machine

    def refuse(*_words: Any, **_more: Any) -> Any:
        raise WouldRun("here a training would begin")

    driver.open_recording = refuse
    # They would look for a second whether others compute.
    calibrating.calibrate_device = measuring.measure_machine = refuse
    subprocess.Popen = refuse  # type: ignore[assignment,misc]
    asking.ready_interpreter = lambda *_words: sys.executable
    # Built once: typer would build the whole command anew for every line.
    build, command = typer.main.get_command, typer.main.get_command(app)
    typer.main.get_command = lambda _app: command
    os.chdir(folder)
    # Nobody's real cache, data or environments are touched; what is kept there is not counted.
    homes = ("XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "HOME", "TRAINLOAD_ENVS")
    kept = {name: os.environ.get(name) for name in homes}
    home = folder.parent.parent / "home"
    home.mkdir()
    os.environ.update(dict.fromkeys(kept, str(home)))
    limit = sys.get_int_max_str_digits()
    try:
        yield folder
    finally:
        sys.set_int_max_str_digits(limit)
        driver.open_recording = opened
        subprocess.Popen = started  # type: ignore[misc]
        asking.ready_interpreter, calibrating.calibrate_device = ready, calibrate
        measuring.measure_machine = measure
        typer.main.get_command = build
        os.chdir(here)
        for name, value in kept.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _listing(folder: Path) -> set[str]:
    return {str(path) for path in folder.rglob("*")}
