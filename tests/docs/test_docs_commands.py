"""Every command of the tutorial, the how-tos and the README is run, or says why it is not.

`make test-docs` runs them, those marked slow too: it sets TRAINLOAD_DOCS=all.
"""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from doc_blocks import Block, blocks_of, first_unprinted, words_of
from trainload.cli.app import app

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
RUN = [
    ROOT / "README.md",
    DOCS / "tutorial.md",
    *sorted(DOCS.glob("howto/*.md")),
    *sorted(DOCS.glob("explain/*.md")),
]
WRITTEN = [ROOT / "README.md", *sorted(DOCS.glob("**/*.md"))]
ALL = os.environ.get("TRAINLOAD_DOCS") == "all"


@pytest.fixture
def clone(tmp_path):
    """A folder like the top of a clone: the examples, the kept runs and `trainload` on the path."""
    for name in ("examples", "docs/measurements/runs"):
        shutil.copytree(ROOT / name, tmp_path / name)
    (tmp_path / "src").symlink_to(ROOT / "src")
    bin_ = tmp_path / ".bin"
    bin_.mkdir()
    for name, words in (("trainload", "-m trainload"), ("python", "")):
        (bin_ / name).write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {words} "$@"\n')
        (bin_ / name).chmod(0o755)
    return tmp_path


@pytest.mark.long
@pytest.mark.framework("torch")
@pytest.mark.timeout(1200)  # a page of many commands, on cores that others may use too
@pytest.mark.parametrize("page", RUN, ids=lambda page: page.stem)
def test_what_a_page_says_can_be_done(page, clone):
    pytest.importorskip("torch")
    environment = {
        **os.environ,
        "PATH": f"{clone / '.bin'}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "200",
        "OMP_WAIT_POLICY": "passive",  # threads that spin slow each other on busy cores
        "TRAINLOAD_ESTIMATES": str(clone / "estimates"),
    }
    for block in blocks_of(page):
        if block.file is not None:
            (clone / block.file).parent.mkdir(parents=True, exist_ok=True)
            (clone / block.file).write_text(block.text)
        if block.mark == "not run" or (block.mark == "slow" and not ALL):
            continue
        _run(page, block, clone, environment)


def _run(page: Path, block: Block, folder: Path, environment: dict[str, str]) -> None:
    for number, command in enumerate(block.commands, 1):
        done = subprocess.run(
            ["bash", "-c", command.words],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=1000,
        )
        wanted = block.status if number == len(block.commands) else 0
        told = f"{page.name}:{block.line}: {command.words}\n{done.stdout}\n{done.stderr}"
        assert done.returncode == wanted, told
        missing = first_unprinted(command.shown, done.stdout + done.stderr, varies=block.varies)
        assert missing is None, f"not printed: {missing}\n{told}"


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.stem)
def test_a_block_is_run_or_says_why_not(page):
    found = [block for block in blocks_of(page) if block.file is None]
    assert all(block.commands for block in found)
    assert all(len(block.reason) > 8 for block in found if block.mark is not None)
    if page.parent.name == "howto" or page.stem == "tutorial":
        assert found, "a page that tells what to do shows a command"


def test_the_site_begins_as_the_readme_does():
    pages = [(ROOT / "README.md").read_text(), (DOCS / "index.md").read_text()]
    first, second = (page[: page.index("anybody can open.")] for page in pages)
    assert first == second


def options_of(words):
    """The options that a line of `trainload` uses, and those that its verb has."""
    command = typer.main.get_command(app)
    rest = shlex.split(words.replace("…", ""))[1:]
    while rest and rest[0] in getattr(command, "commands", {}):
        command = command.commands[rest.pop(0)]
    assert not getattr(command, "commands", {}), f"no such verb: {words}"
    if "--" in rest:
        rest = rest[: rest.index("--")]
    known = {option for param in command.params for option in (*param.opts, *param.secondary_opts)}
    used = {word.split("=")[0] for word in rest if word.startswith("--") and " " not in word}
    return used, known | {"--help"}


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_verbs_and_options_that_are_written_exist(page):
    for line, words in words_of(page):
        used, known = options_of(words)
        assert used <= known, f"{page.name}:{line}: {used - known} in: {words}"


def test_lines_that_are_shown_are_looked_for_in_order(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "```console\n$ echo one \\\n  two\none …\n$ false\n```\n\n"
        "<!-- not run: needs a board -->\n```console\n$ board\n```\n"
        '```python title="a.py"\n1\n```\n'
    )
    first, second, third = blocks_of(page)
    assert [command.words for command in first.commands] == ["echo one \\\n  two", "false"]
    assert first.commands[0].shown == ("one …",) and first.mark is None
    assert (second.mark, second.reason) == ("not run", "needs a board")
    assert (third.file, third.text) == ("a.py", "1\n")
    assert first_unprinted(("one …", "three"), "zero\none  two\n three") is None
    assert first_unprinted(("three", "one …"), "one two\nthree") == "one …"
    assert first_unprinted(("1,024.5 s",), "3 s") == "1,024.5 s"
    assert first_unprinted(("1,024.5 s",), "3 s", varies=True) is None
    page.write_text("<!-- slow: six runs; exits 1 -->\n```console\n$ x\n```\n")
    (block,) = blocks_of(page)
    assert (block.mark, block.reason, block.status) == ("slow", "six runs", 1)
    page.write_text("<!-- maybe -->\n```console\n$ x\n```\n")
    with pytest.raises(ValueError, match="no such mark"):
        list(blocks_of(page))
