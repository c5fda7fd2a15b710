"""Folders of studies: a sound one, changes that a stranger could make to it, and every reading.

The runs in it are those of `mutation_bases`; now and then one of them is changed instead.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from chaos_parts.mutation_kinds import (
    KINDS,
    bytes_of,
    change_document,
    dump_deep,
    line,
    power_cut,
)
from trainload.api.loading import load, load_run_figures
from trainload.study.ledger import Ledger, judge_run
from trainload.study.status import read_status

NAME = "study"
"""Of the base; no run directory is called so."""
_PARTS = ("study.yaml", "cells.jsonl", "ledger.jsonl", "runs", "stop", "slurm", "report.html")
_TEXT = """name: widths
workload: {model: mlp, data: synthetic, epochs: 2}
factors:
  hidden_units: [8, 16]
repetitions: 2
retries: 1
"""
_STOPPING = "stopping: {metric: step_s, width: 0.1, minimum: 3, maximum: 5}\n"


def make_study(folder: Path, sealed: Path) -> None:
    """A study of two cells with two runs each, as its runner leaves it, in Slurm's hands too."""
    folder.mkdir()
    (folder / "study.yaml").write_text(_TEXT.replace("repetitions: 2\n", _STOPPING))
    ledger = Ledger(folder)
    cells = []
    for cell, units in (("a1", 8), ("b2", 16)):
        factors = {"hidden_units": units}
        title = f"hidden_units={units}"
        cells.append({"identity": cell, "factors": factors, "title": title, "seconds": 1.5})
        for repetition in range(2):
            run = folder / "runs" / f"{cell}-{repetition}"
            shutil.copytree(sealed, run)
            told = {"study": "widths", "cell": cell, "repetition": repetition, "factors": factors}
            document = json.loads((run / "run.json").read_text())
            (run / "run.json").write_text(json.dumps({**document, "study": told}))
            ledger.start(cell, repetition)
            entry = judge_run(load(run))
            assert entry is not None, "the base is sound"
            ledger.finish(entry)
            load_run_figures(run)
    ledger.start("b2", 2)
    ledger.close()
    (folder / "cells.jsonl").write_text("".join(json.dumps(one) + "\n" for one in cells))
    batch = folder / "slurm" / "trainload-widths-1"
    batch.mkdir(parents=True)
    (batch / "tasks.jsonl").write_text(
        json.dumps({"study": {"study": "widths", "cell": "b2", "repetition": 2}}) + "\n"
    )
    assert read_status(folder).runs == 4, "the base is sound"


def mutate_study(folder: Path, dice: random.Random, outside: Path) -> tuple[str, str]:
    """One change, now and then two; its kind, and what was done in words."""
    done = [_change(folder, dice, outside) for _ in range(1 + (dice.random() < 0.2))]
    return "study", " | ".join(done)


def _change(folder: Path, dice: random.Random, outside: Path) -> str:
    kinds: tuple[Callable[[Path, random.Random, Path], str], ...] = (
        _yaml, _yaml, line, line, line, bytes_of, power_cut, _link, _figures, _run, _tasks,
    )  # fmt: skip
    return dice.choice(kinds)(folder, dice, outside)


def _yaml(folder: Path, dice: random.Random, _: Path) -> str:
    path = folder / "study.yaml"
    if path.is_symlink() or not path.is_file():
        return "study.yaml is no file any more"
    try:
        document = yaml.safe_load(path.read_text())
        if dice.random() < 0.3:
            document["repetitions"] = dice.choice((0, -1, 10**9, 1e308, 2))
            document.pop("stopping", None)
        words = change_document(document, dice)
        path.write_text(yaml.safe_dump(document))
    except (yaml.YAMLError, UnicodeError, TypeError, RecursionError):
        path.write_text("a: " + "[" * dice.choice((40, 2000)) + "\n")
        words = "rubbish"
    return f"study.yaml: {words}"


def _link(folder: Path, dice: random.Random, outside: Path) -> str:
    name = dice.choice(_PARTS)
    path = folder / name
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    how = dice.choice(("secret", "zero", "pipe", "folder", "self", "huge line", "outside"))
    if how == "pipe":
        os.mkfifo(path)
    elif how == "folder":
        path.mkdir()
    elif how == "huge line":
        with path.open("wb") as file:
            file.truncate(64 << 20)
    else:
        targets = {"secret": outside / "secret.txt", "zero": Path("/dev/zero"), "self": path}
        path.symlink_to(targets.get(how, outside))
    return f"{name} is a {how}"


def _figures(folder: Path, dice: random.Random, _: Path) -> str:
    found = sorted(folder.glob("runs/*/summary.json"))
    if not found:
        return "no figures left"
    path = dice.choice(found)
    document = json.loads(path.read_text())
    words = "; ".join(change_document(document, dice) for _turn in range(dice.randint(1, 3)))
    path.write_text(dump_deep(document))
    return f"{path.parent.name}/summary.json: {words}"


def _run(folder: Path, dice: random.Random, outside: Path) -> str:
    found = sorted(path for path in folder.glob("runs/*") if path.is_dir())
    if not found:
        return "no run left"
    path = dice.choice(found)
    (path / "summary.json").unlink(missing_ok=True)
    kind = dice.choice(("leaf", "bytes", "cut", "link", "table"))
    return f"{path.name}: {KINDS[kind](path, dice, outside)}"


def _tasks(folder: Path, dice: random.Random, outside: Path) -> str:
    found = sorted(folder.glob("slurm/*/tasks.jsonl"))
    if not found or found[0].is_symlink() or not found[0].is_file():
        return "no batch left"
    return line(found[0].parent, dice, outside)


def study_reads(
    folder: Path, command: Callable[..., None], scratch: Path
) -> Iterator[tuple[str, Callable[[], None]]]:
    """Every way that we offer to read a study's folder; `command` runs one in this process."""
    tables = str(scratch / "csv")
    verbs: tuple[tuple[list[str], bool], ...] = (
        (["study", "status", str(folder), "--json"], True),
        (["study", "status", str(folder), "--all"], False),
        (["study", "watch", str(folder)], False),
        (["study", "stop", str(folder)], False),
        (["analyse", str(folder), "--json"], True),
        (["analyse", str(folder), "--csv", tables], False),
    )
    for words, is_json in verbs:
        name = " ".join(word for word in words if not word.startswith("/"))
        yield name, _call(command, words, is_json)


def _call(command: Callable[..., Any], words: list[str], is_json: bool) -> Callable[[], None]:
    return lambda: command(words, json_expected=is_json)
