"""The one line of progress, on a terminal and elsewhere."""

import io

import pytest

from trainload.cli import progress
from trainload.cli.progress import ProgressLine


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def shown(monkeypatch, stream):
    monkeypatch.setattr(progress.sys, "stderr", stream)
    return stream


def test_a_terminal_has_one_line_that_is_written_over_and_left_empty(monkeypatch):
    monkeypatch.setenv("COLUMNS", "11")
    stream = shown(monkeypatch, Terminal())
    with ProgressLine() as line:
        line("one")
        line("longer than that")
        line("warning: stays\n")
    assert stream.getvalue() == ("\rone\033[K\rlonger th…\033[K\r\033[Kwarning: stays\n\r\033[K")


def test_elsewhere_a_line_every_ten_seconds(monkeypatch, clock):
    stream = shown(monkeypatch, io.StringIO())
    with ProgressLine() as line:
        for clock[0] in (101.0, 109.0, 110.0, 115.0, 121.0):
            line(f"at {clock[0]:g}")
        line("kept\n")
    assert stream.getvalue() == "at 110\nat 121\nkept\n"


def test_a_quiet_one_shows_nothing(monkeypatch):
    stream = shown(monkeypatch, Terminal())
    with ProgressLine(quiet=True) as line:
        line("one")
        line("kept\n")
    assert stream.getvalue() == ""


def test_a_script_has_the_terminal_while_it_prints(monkeypatch, clock):
    out, err = Terminal(), shown(monkeypatch, Terminal())
    monkeypatch.setattr(progress.sys, "stdout", out)
    with ProgressLine() as line:
        line("ours")
        line.write("stdout", b"epoch 1\n")
        clock[0] += 5
        line("held back")
        clock[0] += 6
        line("back")
        line.write("stdout", b"\rbar 10 %")
        clock[0] += 60
        line("held back: the bar's line is open")
    assert err.getvalue() == "\rours\033[K\r\033[K\rback\033[K\r\033[K"
    assert out.getvalue() == "epoch 1\n\rbar 10 %\n"
