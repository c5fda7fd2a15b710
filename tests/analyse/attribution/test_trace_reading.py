import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kineto import HEADER, Trace, cpu_step

from trainload.analyse.attribution import collect_trace, open_trace
from trainload.analyse.attribution._values import nanoseconds
from trainload.analyse.attribution.events import Window
from trainload.analyse.attribution.header import parse_header
from trainload.errors import TraceError


def small_trace(steps: int = 3) -> Trace:
    trace, at = Trace(), 0
    trace.mark(-1, 0)
    for step in range(steps):
        at = cpu_step(trace, at, step, 3 * step)
    return trace


def host_counts(path: Path) -> list[int]:
    with open_trace(path) as reader:
        return [len(window.host) for window in reader.windows()]


@pytest.mark.parametrize("packed", [False, True])
def test_a_trace_is_unpacked_by_its_bytes_not_by_its_name(tmp_path: Path, packed: bool) -> None:
    text = small_trace().text().encode()
    path = tmp_path / ("trace.json" if packed else "trace.json.gz")
    path.write_bytes(gzip.compress(text) if packed else text)
    assert host_counts(path) == [1 + 3 * 17]


def test_a_gzip_file_of_several_members_is_read_on(tmp_path: Path) -> None:
    text = small_trace().text().encode()
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(text[:1000]) + gzip.compress(text[1000:]))
    assert host_counts(path) == [1 + 3 * 17]


@pytest.mark.parametrize("form", ["{e}", '{{"traceEvents": {e}, "a": [1, {{}}], "b": 2}}',
                                  '{{"b": 2, "a": {{"c": [1]}}, "traceEvents": {e}}}'])  # fmt: skip
def test_events_may_stand_anywhere(tmp_path: Path, form: str) -> None:
    path = tmp_path / "trace.json"
    path.write_text(form.format(e=json.dumps(small_trace().events)))
    with open_trace(path) as reader:
        (window,) = reader.windows()
        assert len(window.host) == 1 + 3 * 17
        assert reader.scalars == ({} if form == "{e}" else {"b": 2})
        assert reader.notes == []


def test_header_and_windows_of_our_own_trace(tmp_path: Path) -> None:
    trace = small_trace(1)
    marker = {"ph": "M", "name": "trainload.window", "ts": 0, "pid": 0, "tid": 0}
    again = trace.events
    trace.events = [
        {**marker, "args": {"index": 3}}, *again, {**marker, "args": {"index": 4}}, *again, *again
    ]  # fmt: skip
    path = trace.save(tmp_path / "trace.json", HEADER)
    with open_trace(path) as reader:
        assert reader.header == HEADER
        found = [(window.index, len(window.host)) for window in reader.windows()]
    assert found == [(3, 18), (4, 36)]


def test_an_event_across_two_pieces_of_the_file_is_whole(tmp_path: Path) -> None:
    trace = small_trace(600)
    path = trace.save(tmp_path / "trace.json")
    assert path.stat().st_size > 1 << 20
    assert host_counts(path) == [1 + 600 * 17]


@given(whole=st.integers(0, 2 * 10**15), thousandths=st.integers(0, 999))
def test_nanoseconds_are_exact(whole: int, thousandths: int) -> None:
    assert nanoseconds(f"{whole}.{thousandths:03d}") == 1000 * whole + thousandths
    assert nanoseconds(whole) == 1000 * whole


def test_a_truncated_trace_keeps_its_whole_events(tmp_path: Path) -> None:
    text = small_trace(4).text().encode()
    plain, packed = tmp_path / "plain.json", tmp_path / "packed.json.gz"
    plain.write_bytes(text[: int(len(text) * 0.7)])
    whole = gzip.compress(text)
    packed.write_bytes(whole[: int(len(whole) * 0.9)])
    for path in (plain, packed):
        layers = collect_trace(path)
        (note,) = [note for note in layers.notes if note.startswith("truncated: ")]
        assert 17 < int(note.split()[1]) < 1 + 4 * 17
        assert layers.parts["forward"] > 0


def test_damaged_events_are_left_out_and_counted(tmp_path: Path) -> None:
    trace = small_trace()
    for change in ({"ts": "soon"}, {"dur": None}, {"name": 7}, {"args": 3}, {"ts": 1e300}):
        trace.events.append({**trace.events[3], **change})
    trace.events += [7, None, "x"]  # type: ignore[list-item]
    layers = collect_trace(trace.save(tmp_path / "trace.json"))
    assert any("8 damaged events" in note for note in layers.notes)
    assert layers.step_s == 1e-6


BROWSER = [{"ph": "X", "cat": "v8", "name": "GC", "pid": 1, "tid": 1, "ts": 1, "dur": 2}] * 5


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"\x1f\x8b", "breaks off"),
        (b"hello", "not JSON"),
        (b"{", "before its first event"),
        (b'{"a": 1}', "no trace of torch"),
        (b"[]", "no trace of torch"),
        (b"[" * 5000, "no trace of torch"),
        (json.dumps({"traceEvents": BROWSER}).encode(), "no trace of torch"),
        (json.dumps(BROWSER).encode(), "no trace of torch"),
        (b'{"traceEvents": 5}', "no trace of torch"),
    ],
)
def test_what_is_no_trace_is_told_in_one_line(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(TraceError) as caught:
        collect_trace(path)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_folder_or_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="folder"):
        open_trace(tmp_path)
    with pytest.raises(TraceError, match="cannot read"):
        open_trace(tmp_path / "nothing.json")


@given(data=st.binary(max_size=300), head=st.sampled_from([b"", b"\x1f\x8b\x08", b"{", b"["]))
def test_random_bytes_raise_only_the_trace_error(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, head: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "random"
    for content in (head + data, gzip.compress(head + data)):
        path.write_bytes(content)
        with pytest.raises(TraceError):
            collect_trace(path)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
FIELDS = st.sampled_from(["ph", "cat", "name", "pid", "tid", "ts", "dur", "args"])


@given(
    changes=st.lists(st.tuples(st.integers(0, 51), FIELDS, VALUES), max_size=8),
    header=st.dictionaries(st.sampled_from(list(HEADER)), VALUES) | st.just(HEADER),
)
def test_events_of_any_form_give_sums_or_the_trace_error(
    tmp_path_factory: pytest.TempPathFactory,
    changes: list[tuple[int, str, object]],
    header: dict[str, object],
) -> None:
    trace = small_trace()
    for at, name, value in changes:
        trace.events[at] = {**trace.events[at], name: value}
    path = trace.save(tmp_path_factory.getbasetemp() / "changed.json", header)
    try:
        layers = collect_trace(path)
    except TraceError:
        return
    assert sum(layers.parts.values()) == pytest.approx(layers.step_s)


@pytest.mark.parametrize("ts", ['"inf"', "1e400", '"-1e999"'])
def test_a_time_beyond_all_numbers_is_a_damaged_event(tmp_path: Path, ts: str) -> None:
    whole = small_trace().text()
    odd = f'{{"ph": "X", "cat": "cpu_op", "name": "a", "ts": {ts}, "dur": 1, "pid": 1, "tid": 1}}'
    path = tmp_path / "odd.json"
    assert whole.count('"traceEvents": [') == 1
    path.write_text(whole.replace('"traceEvents": [', f'"traceEvents": [{odd}, '))
    with open_trace(path) as reader:
        assert [window.damaged for window in reader.windows()] == [1]


def test_halves_of_characters_become_printable() -> None:
    window = Window(0)
    event = {"ph": "X", "cat": "cpu_op", "name": "a\ud800", "ts": 1, "dur": 1, "pid": 1, "tid": 1}
    window.add(event)
    assert window.names == ["a?"]
    module = {"root": "\udfff", "layer": "\ud800", "class": "C", "parameters": 1}
    (found,) = parse_header({"modules": [module]}).modules
    assert (found["root"], found["layer"]) == ("?", "?")
