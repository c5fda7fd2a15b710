"""Folders of studies from elsewhere: a bad part is one line; nothing hangs or is followed."""

import json
import os
import shutil
from pathlib import Path

import pytest

from chaos_parts.mutation_bases import make_bases
from chaos_parts.mutations import read_case
from trainload.cli.app import run_app
from trainload.errors import RecordError
from trainload.study.folder import STOP, ask_to_stop
from trainload.study.ledger import Ledger

PARTS = ("study.yaml", "cells.jsonl", "ledger.jsonl", "slurm/trainload-widths-1/tasks.jsonl")
HOSTILE = "\x1b]0;owned\x07<b>\u202etitle"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bases")
    make_bases(folder / "bases")
    return folder


@pytest.fixture
def study(home: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(home / "bases" / "study", tmp_path / "widths"))


def verbs(folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, tuple[int, str, str]]:
    """Status, output and complaint of every verb that reads a study's folder."""
    found = {}
    for name in ("study status --json", "study watch", "analyse --json"):
        words = name.split()
        at = len([word for word in words if not word.startswith("-")])
        status = run_app([*words[:at], str(folder), *words[at:]])
        found[name] = (status, *capsys.readouterr())
    return found


def test_the_folder_is_read_as_it_is(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = verbs(study, capsys)
    assert all(status == 0 and not err for status, _, err in told.values())
    assert json.loads(told["study status --json"][1])["runs"] == 4
    assert len(json.loads(told["analyse --json"][1])["runs"]) == 4


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("how", ["pipe", "link", "zero", "folder", "huge", "deep", "types"])
def test_a_part_that_is_none_is_one_line(
    study: Path, part: str, how: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = study / part
    kept = path.read_bytes()
    path.unlink()
    if how == "pipe":
        os.mkfifo(path)
    elif how == "link":
        (tmp_path / "kept").write_bytes(kept)
        path.symlink_to(tmp_path / "kept")
    elif how == "zero":
        path.symlink_to("/dev/zero")
    elif how == "folder":
        path.mkdir()
    elif how == "huge":
        with path.open("wb") as file:
            file.truncate(2 << 30)
    elif how == "deep":
        path.write_text('{"name": ' * 3000 + "1\n")
    else:
        path.write_text('[1, null, "x", 1e400, NaN]\n')
    for status, out, err in verbs(study, capsys).values():
        assert status in (0, 2) and err.count("\n") == (status == 2)
        assert status == 0 or not out


def test_words_of_a_stranger_do_not_steer_the_terminal(
    study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [json.loads(line) for line in (study / "cells.jsonl").read_text().splitlines()]
    for line in lines:
        line.update(title=HOSTILE, factors={HOSTILE: HOSTILE})
    (study / "cells.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for name in ("study status", "study watch", "analyse"):
        assert run_app([*name.split(), str(study)]) == 0
        out = capsys.readouterr().out
        assert "\x1b" not in out and "\x07" not in out and "\u202e" not in out
    assert run_app(["show", f"no/{HOSTILE}"]) == 2
    assert "\\x1b]0;owned\\x07" in capsys.readouterr().err


def test_nothing_is_written_through_a_link(study: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("mine\n")
    (study / "ledger.jsonl").unlink()
    (study / "ledger.jsonl").symlink_to(outside)
    with pytest.raises(RecordError, match="cannot write into"):
        Ledger(study)
    (study / STOP).symlink_to(tmp_path / "new")
    with pytest.raises(RecordError, match="cannot write"):
        ask_to_stop(study)
    assert outside.read_text() == "mine\n" and not (tmp_path / "new").exists()


def test_runs_elsewhere_are_not_analysed(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (study / "runs").rename(tmp_path / "runs")
    (study / "runs").symlink_to(tmp_path / "runs")
    assert run_app(["analyse", str(study)]) == 2
    assert "runs is a link" in capsys.readouterr().err


def test_mutated_studies_are_read_or_refused_in_one_line(home: Path) -> None:
    tried = 0
    for case in range(12):
        kind, words, defects = read_case(home, 11, case, only="study")
        tried += kind == "study"
        assert defects == [], f"{words}: {defects}"
    assert tried == 12
