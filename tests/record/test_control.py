"""Commands to a running run: taken once, from this user alone, and only of the exact form."""

import json
import os

import pytest

from trainload.errors import RecordError
from trainload.record.control import (
    LARGEST_BYTES,
    Command,
    remove_commands,
    send_command,
    take_commands,
    withdraw_command,
)

NAME = "control-" + "0a" * 16 + ".json"
GOOD = {"verb": "mark", "run_id": "r1", "t_s": 1.5, "words": "here"}


def test_a_command_is_taken_once_and_its_file_is_the_answer(tmp_path):
    first = send_command(tmp_path, Command(verb="mark", run_id="r1", t_s=2.0, words="late"))
    send_command(tmp_path, Command(verb="mark", run_id="r1", t_s=1.0, words="early"))
    assert first.stat().st_mode & 0o777 == 0o600
    assert [one.words for one in take_commands(tmp_path, "r1")] == ["early", "late"]
    assert not list(tmp_path.iterdir()) and take_commands(tmp_path, "r1") == []
    assert withdraw_command(first) is False


def test_a_command_can_be_taken_back(tmp_path):
    path = send_command(tmp_path, Command(verb="end", run_id="r1"))
    assert withdraw_command(path) is True
    assert take_commands(tmp_path, "r1") == []


def test_a_command_for_another_run_means_nothing(tmp_path):
    send_command(tmp_path, Command(verb="end", run_id="r2"))
    assert take_commands(tmp_path, "r1") == []


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"[" * 3000,
        json.dumps({**GOOD, "verb": "remove"}).encode(),
        json.dumps({**GOOD, "path": "/etc/passwd"}).encode(),
        json.dumps({**GOOD, "t_s": "now"}).encode(),
        json.dumps({**GOOD, "words": "x" * 201}).encode(),
        json.dumps({**GOOD, "words": "x" * LARGEST_BYTES}).encode(),
        b'{"verb":"mark","run_id":"r1","t_s":NaN}',
    ],
)
def test_what_is_not_of_the_form_is_not_obeyed(tmp_path, text):
    (tmp_path / NAME).write_bytes(text)
    assert take_commands(tmp_path, "r1") == []


def test_links_pipes_and_folders_are_not_opened(tmp_path):
    outside = tmp_path / "outside.json"
    outside.write_text(json.dumps(GOOD))
    run = tmp_path / "run"
    run.mkdir()
    os.symlink(outside, run / NAME)
    os.mkfifo(run / NAME.replace("0a0a", "0b0b", 1))
    os.link(outside, run / NAME.replace("0a0a", "0c0c", 1))
    (run / NAME.replace("0a0a", "0d0d", 1)).mkdir()
    (run / "control-short.json").write_text(json.dumps(GOOD))
    assert take_commands(run, "r1") == []
    assert outside.exists()
    remove_commands(run)
    assert sorted(p.name for p in run.iterdir()) == [
        NAME.replace("0a0a", "0d0d", 1),
        "control-short.json",
    ]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_file_of_another_user_is_not_obeyed(tmp_path):
    path = send_command(tmp_path, Command(verb="end", run_id="r1"))
    os.chown(path, 12345, 12345)
    assert take_commands(tmp_path, "r1") == [] and path.exists()


def test_a_folder_that_is_not_there_is_an_error_to_who_sends_alone(tmp_path):
    assert take_commands(tmp_path / "gone", "r1") == []
    with pytest.raises(RecordError, match="cannot command"):
        send_command(tmp_path / "gone", Command(verb="end", run_id="r1"))
