"""`trainload subset` as a user meets it: the table, the files, wrong input, Ctrl-C."""

import json
import os
import pty
import random
import re
import signal
import subprocess
import sys

import pytest


def command(*arguments):
    return [sys.executable, "-m", "trainload", "subset", *map(str, arguments)]


def subset(*arguments, **options):
    return subprocess.run(
        command(*arguments), capture_output=True, text=True, timeout=120, **options
    )


def fill(folder, count=25, names=("cat", "dog", "fox")):
    chance = random.Random(5)
    for name in names:
        (folder / name).mkdir(parents=True)
        for number in range(count):
            with open(folder / name / f"{number}.jpg", "wb") as file:
                file.write(b"\xff\xd8\xff\xe0")
                file.truncate(chance.randrange(2000, 9000))
    return folder


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return fill(tmp_path_factory.mktemp("subset") / "photos")


def test_the_table_and_the_manifest(photos, tmp_path):
    out = tmp_path / "small set"
    done = subset(photos, "--out", out, "--classes", 2, "--per-class", 10)
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert "2 classes, 10 images each (8 to train, 2 to validate): 20 of 50" in done.stdout
    assert re.search(
        r"^zone +file size +images .*balance before +balance after$", done.stdout, re.M
    )
    assert re.search(r"^all +50 +20 +10 +0 bytes", done.stdout, re.M)
    assert "in the end" in done.stdout and done.stdout.endswith(f"manifest: {out}\n")
    rows = [json.loads(line) for line in (out / "manifest.jsonl").read_text().splitlines()]
    assert len(rows) == 20 and all((photos / row["path"]).is_file() for row in rows)
    assert list(rows[0]) == ["path", "class", "label", "zone", "bytes", "split", "draw"]
    assert sorted(p.name for p in out.iterdir()) == ["manifest.jsonl", "subset.json"]


def test_links_and_json(photos, tmp_path):
    out = tmp_path / "out"
    done = subset(photos, "--out", out, "--class", "fox", "--class", "cat", "--link", "--json")
    found = json.loads(done.stdout)
    kept = json.loads((out / "subset.json").read_text())
    assert {k: found[k] for k in kept} == kept and found["moved_aside"] is None
    assert [one["class"] for one in found["classes"]] == ["cat", "fox"]
    for split, share in (("train", "train_per_class"), ("val", "validation_per_class")):
        assert sorted(os.listdir(out / split)) == ["cat", "fox"]
        for name in ("cat", "fox"):
            links = list((out / split / name).iterdir())
            assert len(links) == found[share] and all(link.is_file() for link in links)
    relative = subset("photos", "--out", "../o", "--link", cwd=photos.parent)
    assert relative.returncode == 0
    assert all(p.is_file() for p in (photos.parent / "../o/train/dog").iterdir())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--per-class", "26"], r"\d+ images a class are possible with seed 0, not 26"),
        (["--per-class", "0"], "Invalid value for '--per-class'"),
        (["--classes", "4"], "holds 3 classes, not 4"),
        (["--class", "cta"], "did you mean 'cat'"),
        (["--class", "cat", "--classes", "1"], "give one of the two"),
        (["--validation-fraction", "1"], "give 0 or more and below 1"),
        (["--validation-fraction", "nan"], "give 0 or more and below 1"),
    ],
)
def test_wrong_input_is_one_line_and_leaves_nothing(photos, tmp_path, arguments, words):
    done = subset(photos, "--out", tmp_path / "out", *arguments)
    assert done.returncode == 2 and re.search(words, done.stderr), done.stderr
    assert len(done.stderr.splitlines()) == 1 and not list(tmp_path.iterdir())


def test_wrong_places(photos, tmp_path):
    assert "Missing option '--out'" in subset(photos).stderr
    assert "no such folder" in subset(tmp_path / "none", "--out", tmp_path / "out").stderr
    (tmp_path / "taken").write_text("precious")
    refused = subset(photos, "--out", tmp_path / "taken")
    assert refused.returncode == 2 and "or --force to move it aside" in refused.stderr
    done = subset(photos, "--out", tmp_path / "taken", "--force")
    assert done.returncode == 0 and "moved aside: " in done.stdout
    assert (tmp_path / "taken.old1").read_text() == "precious"


def test_skipped_files_and_names_that_a_terminal_would_obey(tmp_path):
    folder = fill(tmp_path / "photos", names=("a\033[31mred", "ünï côde"))
    (folder / "ünï côde" / "broken\033[2J.jpg").write_text("none")
    done = subset(folder, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "skipped: 1 no image by its first bytes" in done.stdout and "ünï côde" in done.stdout
    assert "\033" not in done.stdout


def test_ctrl_c_leaves_no_half_written_subset(tmp_path):
    folder = fill(tmp_path / "photos", count=1, names=("one",))
    # A slow disk: the writing waits until the interrupt arrives.
    slow = (
        "import time\n"
        "from trainload.workload.subset.choose import Subset\n"
        "rows = Subset.rows\n"
        "def slow(self):\n"
        "    for row in rows(self):\n"
        "        print('writing', flush=True)\n"
        "        yield row\n"
        "        time.sleep(60)\n"
        "Subset.rows = slow\n"
        "from trainload.cli import main\n"
        "main()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", slow, "subset", str(folder), "--out", str(tmp_path / "o"), "--link"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout.readline() == "writing\n"
    assert list(tmp_path.glob(".o.*.part"))
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and errors == "error: interrupted\n"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["photos"]


def test_progress_is_shown_on_a_terminal(photos, tmp_path):
    main, child = pty.openpty()
    done = subprocess.run(
        command(photos, "--out", tmp_path / "o"), stdout=subprocess.PIPE, stderr=child, timeout=60
    )
    os.close(child)
    shown = os.read(main, 10_000).decode()
    os.close(main)
    assert done.returncode == 0 and "64 files read" in shown and "writing" in shown
