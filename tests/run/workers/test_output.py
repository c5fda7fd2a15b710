"""A script's words: handed on as they come, as to a terminal where there is one, and kept."""

import os
import subprocess
import sys
import time

import pytest

from trainload.run.workers.output import ScriptOutput

SCRIPT = """
import os, sys, time
print(sys.stdout.isatty(), sys.stderr.isatty(), os.isatty(1) and os.get_terminal_size(1).columns)
for percent in (10, 50, 100):
    sys.stderr.write(f"\\rtraining {percent} %")
    sys.stderr.flush()
sys.stderr.write("\\n")
print("done")
"""


class Place:
    """Collects what it is told."""

    def __init__(self, *, terminals=(), one=False, broken=False):
        self.terminals, self.one, self.broken = terminals, one, broken
        self.told = {"stdout": b"", "stderr": b""}

    def is_terminal(self, stream):
        return stream in self.terminals

    def is_one_place(self):
        return self.one

    def size(self):
        return 77, 33

    def write(self, stream, data):
        if self.broken:
            raise BrokenPipeError("gone")
        self.told[stream] += data


def run(place, tmp_path, text=SCRIPT):
    output = ScriptOutput(place, tmp_path / "log")
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", text],
        stdout=output.stdout,
        stderr=output.stderr,
        start_new_session=True,
    )
    output.begin()
    assert process.wait() == 0
    output.finish()
    return output, (tmp_path / "log").read_bytes()


BAR = b"\rtraining 10 %\rtraining 50 %\rtraining 100 %\n"


def test_pipes_stay_pipes_and_streams_stay_apart(tmp_path):
    place = Place()
    _, log = run(place, tmp_path)
    assert place.told == {"stdout": b"False False False\ndone\n", "stderr": BAR}
    assert sorted(log) == sorted(place.told["stdout"] + BAR)


def test_a_terminal_is_a_terminal_of_the_same_size_and_keeps_its_order(tmp_path):
    place = Place(terminals=("stdout", "stderr"), one=True)
    _, log = run(place, tmp_path)
    assert place.told == {"stdout": b"True True 77\n" + BAR + b"done\n", "stderr": b""}
    assert log == place.told["stdout"]


def test_one_of_two_may_be_a_terminal(tmp_path):
    place = Place(terminals=("stderr",))
    run(place, tmp_path)
    assert place.told == {"stdout": b"False True False\ndone\n", "stderr": BAR}


@pytest.mark.parametrize("terminals", [(), ("stdout", "stderr")])
def test_much_is_passed_whole(tmp_path, terminals):
    place = Place(terminals=terminals, one=True)
    begin_s = time.monotonic()
    _, log = run(place, tmp_path, "for n in range(50_000): print(n)")
    assert log == b"".join(b"%d\n" % n for n in range(50_000)) == place.told["stdout"]
    assert time.monotonic() - begin_s < 60


def test_a_reader_that_is_gone_is_told_and_the_log_is_whole(tmp_path):
    output, log = run(Place(broken=True, one=True), tmp_path)
    assert log.endswith(b"done\n") and "could not be shown any more" in output.problem


@pytest.mark.alone
def test_a_child_that_stays_does_not_hold_the_end_up(tmp_path):
    text = "import subprocess, sys; print('x'); subprocess.Popen(['sleep', '4'])"
    begin_s = time.monotonic()
    _, log = run(Place(one=True), tmp_path, text)
    assert log == b"x\n" and time.monotonic() - begin_s < 4


def test_no_descriptor_is_left(tmp_path):
    before = len(os.listdir("/proc/self/fd"))
    run(Place(terminals=("stdout",)), tmp_path)
    ScriptOutput(Place(), tmp_path / "log").abandon()
    assert len(os.listdir("/proc/self/fd")) == before


WINDOWS_WORDS = (
    "[W1118 05:33:45.14 CPUAllocator.cpp:245] Memory block of unknown size was allocated "
    "before the profiling started, profiler results will not include the deallocation event\n"
)


@pytest.mark.parametrize("mark", ["", "[rank 1] ", "[rank0]:", "[rank 1] [rank1]:"])
def test_what_torch_says_of_a_window_is_not_the_script_s(tmp_path, mark):
    place = Place()
    told = f"before\n{mark}{WINDOWS_WORDS}after CPUAllocator"
    _, log = run(place, tmp_path, f"import sys\nsys.stderr.write({told!r})\n")
    assert log == place.told["stderr"] == b"before\nafter CPUAllocator"


@pytest.mark.parametrize("cut", [4, 9, 30, 60, 120])
def test_words_that_come_in_two_parts_are_left_out_and_others_come_whole(tmp_path, cut):
    others = "[W1118 05:33:45.14 socket.cpp:767] The client socket has failed"
    words = f"[rank0]:{WINDOWS_WORDS}"
    parts = ["before\n" + words[: 8 + cut], words[8 + cut :] + others[:cut], others[cut:]]
    text = f"import sys, time\nfor part in {parts!r}:\n    print(part, end=''); time.sleep(0.2)\n"
    place = Place()
    _, log = run(place, tmp_path, text)
    assert log == place.told["stdout"] == b"before\n" + others.encode()
