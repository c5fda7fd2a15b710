"""The XML configuration of per-layer profiling (study P, 2018) as the keys of a study file.

Element names are taken without regard to case, dashes and underscores, at any depth; what an
element does not mean here is refused with its line.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.parsers import expat

from trainload.errors import StudyError
from trainload.study.located import KeyPath, Located

_WHOLE = {
    "batchsize": "batch_size",
    "epochs": "epochs",
    "numepochs": "epochs",
    "iterations": "max_steps",
    "maxsteps": "max_steps",
    "seed": "seed",
}
_NUMBERS = {"learningrate": "learning_rate", "momentum": "momentum", "weightdecay": "weight_decay"}
_TEXTS = {
    "architecture": "model",
    "arch": "model",
    "model": "model",
    "network": "model",
    "optimizer": "optimizer",
    "framework": "framework",
    "setting": "setting",
}
_FLAGS = {"profiling": "layers", "profile": "layers", "checkpoint": "save"}
_MODELS = {"vgg11": "vgg11", "vgg16": "vgg16", "alexnet": "alexnet", "lenet": "lenet5"}
_IDLE = ("logging", "log", "outputdirectory", "outputdir", "traindirectory", "validationdirectory")
"""Elements without a counterpart: every run is logged, and has a folder of its own."""


def read_xml(text: str, place: str) -> Located:
    """The keys of a study file that the configuration means; StudyError names file and line."""
    values: dict[str, Any] = {}
    lines: dict[KeyPath, int] = {(): 1}
    data: dict[str, str] = {}
    for name, words, line in _leaves(text, place):
        key = _plain(name)
        if key in _IDLE:
            continue
        if key in ("repetitions", "repetition"):
            values["repetitions"] = _whole(words, name, place, line)
            lines[("repetitions",)] = line
            continue
        if key in ("name", "experiment"):
            values["name"], lines[("name",)] = words, line
            continue
        if key in ("datalocation", "datadirectory", "datadir", "dataset", "data"):
            data["here"], lines[("workload", "data")] = words, line
            continue
        if key in ("remotedatalocation", "remotelocation", "remotedata", "remote"):
            data["there"], lines[("workload", "data")] = words, line
            continue
        if key in ("class", "imagenetclass", "classname"):
            workload = values.setdefault("workload", {})
            workload["classes"] = workload.get("classes", 0) + 1
            lines.setdefault(("workload", "classes"), line)
            continue
        said = _workload_key(key, name, words, place, line)
        values.setdefault("workload", {})[said[0]] = said[1]
        lines[("workload", said[0])] = line
    workload = values.setdefault("workload", {})
    # What is not here yet is fetched from where it lives, once.
    word = data.get("here") if Path(data.get("here", "")).is_dir() else data.get("there")
    if word is not None or "here" in data:
        workload["data"] = f"folder:{word or data['here']}"
    values.setdefault("name", Path(place).stem)
    workload.setdefault("framework", "tensorflow")
    return Located(place=place, value=values, lines=lines)


def _workload_key(key: str, name: str, words: str, place: str, line: int) -> tuple[str, Any]:
    if key in _WHOLE:
        return _WHOLE[key], _whole(words, name, place, line)
    if key in ("classes", "imagenetclasses", "numclasses"):
        named = [one for one in words.replace(",", " ").split() if one]
        counted = len(named) == 1 and named[0].isdecimal()
        return "classes", int(named[0]) if counted else len(named)
    if key in ("topn", "top"):
        parts = words.replace(",", " ").split()
        return "top", [_whole(one, name, place, line) for one in parts]
    if key in _NUMBERS:
        try:
            return _NUMBERS[key], float(words)
        except ValueError:
            raise StudyError(f"{place}:{line}: {name}: {words!r} is no number") from None
    if key in _FLAGS:
        truths = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
        if words.lower() not in truths:
            raise StudyError(f"{place}:{line}: {name}: {words!r} is not true or false")
        return _FLAGS[key], truths[words.lower()]
    if key in ("gpus", "numgpus"):
        count = _whole(words, name, place, line)
        return "setting", "all" if count == 0 else f"all+gpu0-{count - 1}"
    if key in _TEXTS:
        text = words.lower() if _TEXTS[key] != "setting" else words
        return _TEXTS[key], _MODELS.get(_plain(text), text) if _TEXTS[key] == "model" else text
    raise StudyError(f"{place}:{line}: {name}: no such element in a training's configuration")


def _whole(words: str, name: str, place: str, line: int) -> int:
    if not words.isdecimal():
        raise StudyError(f"{place}:{line}: {name}: {words!r} is no whole number")
    return int(words)


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def _leaves(text: str, place: str) -> list[tuple[str, str, int]]:
    """Each element without children: name, words, line. Entities and DTDs are refused."""
    parser = expat.ParserCreate()
    found: list[tuple[str, str, int]] = []
    open_elements: list[tuple[str, int, list[str], list[bool]]] = []

    def begin(name: str, attributes: Mapping[str, str]) -> None:
        if open_elements:
            open_elements[-1][3].append(True)
        open_elements.append((name, parser.CurrentLineNumber, [], []))
        line = parser.CurrentLineNumber
        found.extend((key, one.strip(), line) for key, one in attributes.items())

    def end(_name: str) -> None:
        name, line, words, children = open_elements.pop()
        if not children and open_elements:
            found.append((name, "".join(words).strip(), line))

    def take(words: str) -> None:
        open_elements[-1][2].append(words)

    def refuse(*_anything: Any) -> None:
        raise StudyError(f"{place}:{parser.CurrentLineNumber}: a DTD has no place in it")

    parser.StartElementHandler = begin
    parser.EndElementHandler = end
    parser.CharacterDataHandler = take
    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        reason = expat.errors.messages[error.code]
        raise StudyError(f"{place}:{error.lineno}: no XML: {reason}") from None
    return found
