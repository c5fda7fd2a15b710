"""Following a run: what is new at each look, in bounded pieces, whatever stands in the files."""

import json
import os

import pytest

from trainload.errors import RecordError
from trainload.record import Manifest, create_run_directory, follow, is_held
from trainload.record.follow import RunFollower
from trainload.record.layout import EVENTS, MANIFEST, SAMPLES
from trainload_worker.protocol.events import Marked

HEAD = ["tick", "t_s", "read_s", "sampler_cpu_s"]


def line(value):
    return json.dumps(value) + "\n"


def mark(words):
    return line({"kind": "mark", "t_s": 1.0, "words": words})


@pytest.fixture
def held(tmp_path):
    """A run that this process holds."""
    run = create_run_directory(tmp_path, "m", Manifest())
    yield run
    run.lock.free()


def words(look):
    return [event.words for event in look.events if isinstance(event, Marked)]


def test_each_look_has_what_came_since_the_last(held):
    follower = RunFollower(held.path)
    assert words(follower.look()) == []
    with (held.path / EVENTS).open("a") as file:
        file.write(mark("one") + mark("two") + '{"kind":"mark","t_')
        file.flush()
        assert words(follower.look()) == ["one", "two"]
        assert words(follower.look()) == []
        file.write('s":2.0,"words":"three"}\n')
    assert words(follower.look()) == ["three"]
    assert follower.damaged_lines == 0


def test_a_long_file_is_read_in_pieces(held, monkeypatch):
    monkeypatch.setattr(follow, "PIECE_BYTES", 1000)
    (held.path / EVENTS).write_text("".join(mark(str(n)) for n in range(100)))
    follower, seen, looks = RunFollower(held.path), [], 0
    while True:
        look = follower.look()
        looks += 1
        assert len(look.events) <= 1000 // len(mark("1"))
        seen += words(look)
        if not look.more:
            break
    assert seen == [str(n) for n in range(100)] and looks > 4


def test_a_line_without_an_end_is_passed_over_once(held, monkeypatch):
    monkeypatch.setattr(follow, "PIECE_BYTES", 1000)
    path = held.path / EVENTS
    path.write_text(mark("before") + "x" * 5000)
    follower = RunFollower(held.path)
    seen = [word for _ in range(8) for word in words(follower.look())]
    assert seen == ["before"] and not follower.look().more
    with path.open("a") as file:
        file.write("y\n" + mark("after"))
    assert words(follower.look()) == ["after"]
    assert follower.damaged_lines == 1


def test_lines_that_hold_nothing_are_counted_and_passed_over(held):
    (held.path / EVENTS).write_bytes(
        b'NaN\n\xff\xfe\n{"kind":1}\n{"kind":"steps","epoch":0}\n' + mark("good").encode()
    )
    (held.path / SAMPLES).write_text(
        line({"columns": [*HEAD, "a_w"]})
        + line([0, 1.0, 0, 0, 5])
        + "[1,NaN,0,0,5]\n"
        + line([2, None, 0, 0, 5])
        + line([3, 1.0, 0, 0])
        + line([4, 1.0, 0, 0, "five"])
        + line([5, 2.0, 0, 0, 1e300])
        + line({"columns": "no"})
        + line({"columns": [*HEAD, "b_w"]})
        + line([6, 3.0, 0, 0, 7])
    )
    follower = RunFollower(held.path)
    look = follower.look()
    assert words(look) == ["good"]
    assert [(part.columns[-1], part.rows) for part in look.samples] == [
        ("a_w", [[0, 1.0, 0, 0, 5], [5, 2.0, 0, 0, None]]),
        ("b_w", [[6, 3.0, 0, 0, 7]]),
    ]
    assert follower.damaged_lines == 8


def test_a_pipe_or_link_in_the_place_of_lines_is_a_note(held, tmp_path):
    os.mkfifo(held.path / EVENTS)
    (tmp_path / "elsewhere").write_text(mark("no"))
    os.symlink(tmp_path / "elsewhere", held.path / SAMPLES)
    follower = RunFollower(held.path)
    look = follower.look()
    assert look.events == () and look.samples == ()
    assert len(look.notes) == 2 and "no plain file" in look.notes[0] and "link" in look.notes[1]
    assert follower.look().notes == look.notes


def test_a_run_stands_as_its_lock_and_outcome_say(held):
    follower = RunFollower(held.path)
    assert is_held(held.path) and follower.look().standing == "running"
    held.lock.free()
    assert follower.look().standing == "abandoned"
    (held.path / EVENTS).write_text(mark("a last word"))
    assert follower.look().standing == "running"  # it spoke a moment ago
    document = json.loads((held.path / MANIFEST).read_text())
    (held.path / "new").write_text(json.dumps({**document, "outcome": "completed"}))
    (held.path / "new").rename(held.path / MANIFEST)
    assert follower.look().standing == "ended"


def test_a_manifest_that_becomes_unreadable_is_a_note(held):
    follower = RunFollower(held.path)
    (held.path / MANIFEST).write_text("{")
    assert "damaged" in follower.look().notes[0]


def test_what_is_no_run_is_an_error(tmp_path):
    with pytest.raises(RecordError):
        RunFollower(tmp_path)
