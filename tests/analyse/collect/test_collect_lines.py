"""Files told apart by content, and lines out of anything, in bounded memory."""

import gzip
import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainload.analyse.collect import LogLines, recognise
from trainload.analyse.collect.lines import MOST_LINE_CHARACTERS
from trainload.errors import RecordError, TrainloadError, UsageError


def texts(path):
    return [line.text for line in LogLines(path)]


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b'{\n "schemaVersion": 1,\n "traceEvents": []}', "trace"),
        (b'{"trainload": {"format": 1}, "x": 1}', "trace"),
        (b'  [{"ph": "X", "name": "a"}]', "trace"),
        (b'{"step": 1, "loss": 0.5}\n', "log"),
        (b"{'loss': 0.5}\n", "log"),
        (b"plain words\n", "log"),
        ("Epoch 1/3\n".encode("utf-16"), "log"),
        (b"caf\xe9 step 3\n", "log"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_the_kind_is_known_by_content(content, kind, packed, tmp_path):
    path = tmp_path / "file.bin"
    path.write_bytes(gzip.compress(content) if packed else content)
    assert recognise(path) == kind


def test_what_is_neither_is_refused(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"")
    with pytest.raises(UsageError, match="is empty"):
        recognise(path)
    path.write_bytes(bytes(range(256)) * 4)
    with pytest.raises(UsageError, match="is binary"):
        recognise(path)
    path.write_bytes(b"\x1f\x8b no gzip at all")
    with pytest.raises(UsageError, match="no readable gzip"):
        recognise(path)
    with pytest.raises(RecordError, match="No such file"):
        recognise(tmp_path / "none")
    with pytest.raises(UsageError, match="is a folder"):
        recognise(tmp_path)


def test_redraws_colours_and_odd_encodings(tmp_path):
    path = tmp_path / "a.log"
    path.write_bytes(b"one\r\n\x1b[31mtwo\x1b[0m\rthree\r\n\n\xff caf\xe9 4\nlast")
    lines = list(LogLines(path))
    assert [(line.number, line.text) for line in lines] == [
        (1, "one"), (2, "two"), (2, "three"), (4, "� caf� 4"), (5, "last"),
    ]  # fmt: skip
    path.write_text("Epoch 1/3\nüber\n", encoding="utf-16")
    assert texts(path) == ["Epoch 1/3", "über"]


def test_a_cut_packed_log_is_read_as_far_as_it_goes(tmp_path):
    path = tmp_path / "a.log.gz"
    whole = gzip.compress("".join(f"step {i * i}\n" for i in range(20_000)).encode())
    path.write_bytes(whole[: len(whole) // 2])
    lines = LogLines(path)
    assert sum(1 for _ in lines) > 1000
    assert lines.notes == ["the packed file is cut short; what is left of it was read"]
    path.write_bytes(whole[:-9000] + b"\x00" * 9000)
    assert sum(1 for _ in lines) > 1000 and len(lines.notes) == 1


def test_a_log_without_line_ends_needs_little_memory(tmp_path):
    path = tmp_path / "a.log"
    with path.open("wb") as file:
        file.write(b"first\n")
        for _ in range(64):
            file.write(b"x" * 2**20)
        file.write(b"\nlast\n")
    lines = LogLines(path)
    tracemalloc.start()
    found = [(line.number, len(line.text)) for line in lines]
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == [(1, 5), (2, MOST_LINE_CHARACTERS), (3, 4)]
    assert peak_bytes < 8 * 2**20
    assert lines.notes == ["lines over 4,096 characters: 1; only their beginnings were read"]


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.binary(max_size=400), st.booleans())
def test_any_bytes_are_a_log_or_a_typed_error(tmp_path, content, packed):
    path = tmp_path / "a"
    path.write_bytes(gzip.compress(content) if packed else content)
    try:
        recognise(path)
        assert all(line.text.strip() for line in LogLines(path))
    except TrainloadError as error:
        assert str(path) in str(error)


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(st.text(alphabet="ab \u00e9\u6f22", max_size=9), max_size=30),
    st.sampled_from(["\n", "\r\n"]),
)
def test_lines_are_those_written(tmp_path, lines, end):
    path = tmp_path / "a"
    path.write_bytes("".join(line + end for line in lines).encode())
    expected = [(i, line) for i, line in enumerate(lines, 1) if line.strip()]
    assert [(line.number, line.text) for line in LogLines(path)] == expected
