"""Appending and reading lines that may be torn anywhere."""

import json
import os
import resource
import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from trainload.record import LineAppender, LineReader, read_tail
from trainload.record.lines import parse_line


def test_lines_come_back_as_they_went(tmp_path):
    appender = LineAppender(tmp_path / "x.jsonl")
    for value in ({"a": 1}, [1, None, 2.5], "text"):
        assert appender.append(value)
    appender.close()
    reader = LineReader(path=tmp_path / "x.jsonl")
    assert reader.read_rest() == [{"a": 1}, [1, None, 2.5], "text"]
    assert reader.damaged_lines == 0


def test_an_unfinished_line_waits_for_its_end(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"a":1}\n{"b"')
    reader = LineReader(path=path)
    assert reader.read_new() == [{"a": 1}]
    with path.open("ab") as file:
        file.write(b":2}\n")
    assert reader.read_new() == [{"b": 2}]
    assert reader.read_rest() == [] and reader.damaged_lines == 0


def test_a_torn_end_is_counted_and_does_not_swallow_the_next_line(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"a":1}\n[1,2,')
    LineAppender(path).append({"b": 2})
    reader = LineReader(path=path)
    assert reader.read_rest() == [{"a": 1}, {"b": 2}]
    assert reader.damaged_lines == 1


def test_a_full_disk_is_counted_not_raised(tmp_path):
    script = (
        "import resource, signal, sys\n"
        "from pathlib import Path\n"
        "from trainload.record import LineAppender\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "appender = LineAppender(Path(sys.argv[1]))\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "results = [appender.append({'text': 'x' * 40}) for _ in range(5)]\n"
        "print(results.count(True), appender.lost_lines, appender.last_error)\n"
    )
    path = tmp_path / "x.jsonl"
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True
    )
    kept, lost, *_error = done.stdout.split()
    assert (kept, lost) == ("1", "4")
    assert path.stat().st_size == 100
    assert LineReader(path=path).read_rest() == [{"text": "x" * 40}]
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 100


def test_the_tail_of_a_long_file(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text("".join(f"[{i}]\n" for i in range(50000)))
    tail = read_tail(path, 1000)
    assert tail[-1] == [49999] and len(tail) > 100 and tail[0][0] > 49000
    assert read_tail(tmp_path / "absent") == []


@given(st.binary(max_size=300))
def test_any_bytes_are_read_without_an_error(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("fuzz") / "x.jsonl"
    path.write_bytes(data)
    reader = LineReader(path=path)
    values = reader.read_rest()
    assert len(values) + reader.damaged_lines >= (1 if data.strip(b"\n") else 0)
    assert isinstance(read_tail(path), list)


@given(st.binary(max_size=60))
def test_a_line_is_a_value_or_damaged(line):
    value = parse_line(line)
    assert value is None or json.loads(line) == value


def test_the_descriptor_is_given_back(tmp_path):
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    appender = LineAppender(tmp_path / "x")
    appender.close()
    appender.close()
    after = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    assert after == before
