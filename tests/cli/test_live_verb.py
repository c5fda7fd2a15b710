"""`trainload live` and `run --live` on a terminal of their own: keys, a killed viewer, the page."""

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
import urllib.request
from pathlib import Path

import psutil
import pytest

from trainload.record import load_facts, load_manifest, open_run

pytestmark = pytest.mark.alone

FAKE = ("--framework", "fake", "--set", "frames_fraction=0.01", "--batch-size", "16")
SLOW = ("--fake", '{"step_s": 0.005}', "--no-check-overhead")


def command(*words):
    return [sys.executable, "-m", "trainload", *words]


class Terminal:
    """A process on a terminal of its own; what it shows is read all the time."""

    def __init__(self, *words, cwd):
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 45, 140, 0, 0))
        self.process = subprocess.Popen(
            command(*words),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=cwd,
            env={**os.environ, "TERM": "xterm-256color", "PYTHONUNBUFFERED": "1"},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # Ctrl-C is a signal there
        )
        self._modes = termios.tcgetattr(theirs)
        self._theirs = theirs
        self._shown = bytearray()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        while True:
            try:
                data = os.read(self._ours, 65536)
            except OSError:
                return
            self._shown += data

    @property
    def shown(self):
        return self._shown.decode("utf-8", "replace")

    def wait_for(self, pattern, timeout_s=90):
        until_s = time.monotonic() + timeout_s
        while time.monotonic() < until_s:
            if re.search(pattern, self.shown):
                return
            assert self.process.poll() is None, self.shown[-2000:]
            time.sleep(0.1)
        raise AssertionError(f"{pattern} never came: {self.shown[-2000:]!r}")

    def press(self, keys):
        os.write(self._ours, keys.encode())

    def end(self, timeout_s=90):
        status = self.process.wait(timeout_s)
        time.sleep(0.2)
        modes = termios.tcgetattr(self._theirs)
        assert modes[3] & (termios.ECHO | termios.ICANON) == self._modes[3] & (
            termios.ECHO | termios.ICANON
        )
        return status


@pytest.fixture
def terminal(tmp_path):
    pytest.importorskip("textual", reason="textual is not installed")
    opened = []

    def start(*words):
        opened.append(Terminal(*words, cwd=tmp_path))
        return opened[-1]

    yield start
    for one in opened:
        if one.process.poll() is None:
            os.killpg(one.process.pid, signal.SIGKILL)
            one.process.wait()
        os.close(one._ours)
        os.close(one._theirs)


def only_run(folder):
    (path,) = Path(folder).iterdir()
    return path


def test_keys_of_the_screen_mark_and_end_a_run(terminal, tmp_path):
    one = terminal("run", "mlp", *FAKE, *SLOW, "--epochs", "4000", "--live", "--out", "runs")
    one.wait_for("Throughput")
    one.wait_for("steps.*[0-9]/s")
    one.press("m")
    one.wait_for("what of this moment")
    one.press("eye\r")
    one.wait_for("mark at")
    one.press("e")
    one.wait_for("press y")
    one.press("y")
    assert one.end() == 1
    manifest = load_manifest(only_run(tmp_path / "runs"))
    assert (manifest.outcome, manifest.outcome_reason) == (
        "interrupted",
        "asked to end by a viewer",
    )
    assert [mark.words for mark in manifest.marks] == ["eye"]
    assert "outcome: interrupted" in one.shown


def test_a_killed_viewer_leaves_the_training_alone(terminal, tmp_path):
    one = terminal("run", "mlp", *FAKE, *SLOW, "--epochs", "4000", "--live", "--out", "runs")
    one.wait_for("Throughput")
    viewers = [p for p in psutil.Process(one.process.pid).children() if "live" in p.cmdline()]
    assert len(viewers) == 1
    viewers[0].kill()
    one.wait_for(r"epoch \d+/4000")  # the usual line is back
    before = load_facts(only_run(tmp_path / "runs"), 0.0)[0].steps
    time.sleep(2)
    one.press("\x03")  # and so is the usual Ctrl-C
    assert one.end() == 1
    run = open_run(only_run(tmp_path / "runs"))
    assert (run.manifest.outcome, run.manifest.outcome_reason) == ("interrupted", "Ctrl-C")
    assert run.steps.height > before + 50


def test_another_terminal_sees_the_run_and_leaves_it_alone(terminal, tmp_path):
    run = subprocess.Popen(
        command("run", "mlp", *FAKE, *SLOW, "--epochs", "4000", "-q", "--out", "runs"),
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
    )
    try:
        until_s = time.monotonic() + 90
        while not list((tmp_path / "runs").glob("*/events.jsonl")):
            assert time.monotonic() < until_s and run.poll() is None
            time.sleep(0.1)
        one = terminal("live", str(only_run(tmp_path / "runs")))
        one.wait_for("running")
        one.press("\x03")
        assert one.end() == 0
        assert run.poll() is None
        run.send_signal(signal.SIGINT)
        assert run.wait(90) == 1
    finally:
        if run.poll() is None:
            run.kill()
    again = terminal("live", str(only_run(tmp_path / "runs")))
    again.wait_for("interrupted")
    again.press("q")
    assert again.end() == 0


def test_a_run_can_serve_its_page(tmp_path):
    run = subprocess.Popen(
        command("run", "mlp", *FAKE, *SLOW, "--epochs", "4000", "--port", "0", "--out", "runs"),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        for line in run.stderr:
            if found := re.search(r"live page: (http://127\.0\.0\.1:\d+/)", line):
                break
        address = found.group(1)
        with urllib.request.urlopen(address + "data.json", timeout=10) as answer:
            document = json.load(answer)
        assert document["running"] and document["charts"]
        run.send_signal(signal.SIGINT)
        out, _ = run.communicate(timeout=90)
    finally:
        if run.poll() is None:
            run.kill()
    assert run.returncode == 1 and "outcome: interrupted: Ctrl-C" in out


@pytest.mark.parametrize("words", [("live", "."), ("run", "mlp", "--live")])
def test_without_a_terminal_the_next_act_is_named(words, tmp_path):
    pytest.importorskip("textual", reason="textual is not installed")
    done = subprocess.run(command(*words), capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "needs a terminal" in done.stderr and "--serve" in done.stderr


def test_without_textual_the_command_that_mends_it_is_named(tmp_path):
    code = (
        "import sys, importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'textual' else find(name, *a)\n"
        "from trainload.cli.app import run_app; sys.exit(run_app(['live', '.']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 2 and "pip install 'trainload[live]'" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [(("live", "none", "--serve"), "no such run"), (("live", ".", "--serve"), "no run directory")],
)
def test_what_is_no_run_is_one_line(words, said, tmp_path):
    done = subprocess.run(command(*words), capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2 and said in done.stderr and done.stderr.count("\n") == 1
