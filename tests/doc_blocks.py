"""The commands of a Markdown page: what is run in which order, and why a block is not.

A block fenced as `console` holds commands behind `$ ` and, below each, lines that it prints; in
these `…` stands for anything. A comment before the block says
otherwise; between several words stands a semicolon:

    <!-- not run: why -->    never run by a test
    <!-- slow: why -->       run by `make test-docs` alone
    <!-- exits 1 -->         the status of its last command
    <!-- figures vary -->    of what is printed, numbers may be others

A block with title="NAME" is a file, written before what follows.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_FENCE = re.compile(
    r"(?:^<!-- *(?P<comment>[^\n]*?) *-->\n+)?"
    r"^```(?P<kind>\w*)(?P<rest>[^\n]*)\n(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_MARK = re.compile(r"(not run|slow): (\S.*)|exits (\d+)|(figures vary)")


@dataclass(frozen=True, kw_only=True)
class Command:
    """One command, and the lines that it is said to print."""

    words: str
    shown: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Block:
    """Commands that stand together, or a file where there are none."""

    line: int
    commands: tuple[Command, ...] = ()
    file: str | None = None
    text: str = ""
    mark: str | None = None
    """`not run` or `slow`; None where it is simply run."""
    reason: str | None = None
    status: int = 0
    varies: bool = False
    """Whether numbers that are printed may be others."""


def blocks_of(page: Path) -> Iterator[Block]:
    """The console blocks and files of a page in their order; ValueError where a mark is unknown."""
    text = page.read_text(encoding="utf-8")
    for found in _FENCE.finditer(text):
        line = text.count("\n", 0, found.start("kind")) + 1
        title = re.search(r'title="([^"]+)"', found["rest"])
        if title:
            yield Block(line=line, file=title[1], text=found["body"])
        elif found["kind"] == "console":
            said = _said(found["comment"] or "", f"{page.name}:{line}")
            yield Block(line=line, commands=tuple(_commands(found["body"])), **said)


def _said(comment: str, place: str) -> dict[str, Any]:
    """What a comment says of its block."""
    said: dict[str, Any] = {}
    for words in filter(None, map(str.strip, comment.split(";"))):
        mark = _MARK.fullmatch(words)
        if mark is None:
            raise ValueError(f"{place}: no such mark: {words}")
        if mark[1]:
            said |= {"mark": mark[1], "reason": mark[2]}
        elif mark[3]:
            said["status"] = int(mark[3])
        else:
            said["varies"] = True
    return said


def _commands(body: str) -> Iterator[Command]:
    words: list[str] = []
    shown: list[str] = []
    open_ = False
    for line in body.splitlines():
        if line.startswith("$ ") or open_:
            if not open_ and words:
                yield Command(words="\n".join(words), shown=tuple(shown))
                words, shown = [], []
            words.append(line if open_ else line[2:])
            open_ = line.endswith("\\")
        elif line.strip():
            shown.append(line)
    if words:
        yield Command(words="\n".join(words), shown=tuple(shown))


def first_unprinted(shown: tuple[str, ...], printed: str, *, varies: bool = False) -> str | None:
    """The first of the shown lines that was not printed, in this order; None where all were.

    Blanks at the ends and their number inside do not count; `varies` takes any number for another.
    """
    lines = iter([" ".join(line.split()) for line in printed.splitlines()])
    for wanted in shown:
        form = ".*".join(re.escape(part) for part in " ".join(wanted.split()).split("…"))
        if varies:
            form = re.sub(r"\d[\d,]*(\\\.\d+)?", r"[\\d,.]+", form)
        if not any(re.fullmatch(form, line) for line in lines):
            return wanted
    return None


def words_of(page: Path) -> Iterator[tuple[int, str]]:
    """Every `trainload …` of a page with its line: indented, fenced as console, sh or text."""
    text = re.sub(r"\\\n\s*", " ", page.read_text(encoding="utf-8"))
    for number, line in enumerate(text.splitlines(), 1):
        found = re.match(r"^(?: {4,}|\$ )(trainload [a-z].*)$", line)
        if found:
            yield number, re.split(r" +# |\s+\||\s+>|;|&&|&", found[1])[0]
