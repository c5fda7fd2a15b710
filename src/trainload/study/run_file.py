"""A run as a file: `trainload run FILE.yaml`, or study P's XML; complaints name the line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trainload.errors import StudyError
from trainload.study.file import check_workload, plain_workload
from trainload.study.keys import run_keywords
from trainload.study.located import Located, parse_yaml, read_text
from trainload.study.xml_file import read_xml

SUFFIXES = (".yaml", ".yml", ".xml")


def is_run_file(word: str) -> bool:
    """Whether the first word of `trainload run` means a file of this kind."""
    return word.endswith(SUFFIXES)


def load_run_file(path: str | Path) -> tuple[dict[str, Any], Located]:
    """What the file tells a run, and where; StudyError names file, line and key."""
    text, place = read_text(Path(path)), str(path)
    if place.endswith(".xml"):
        found = read_xml(text, place)
        if found.value.get("repetitions", 1) > 1:
            raise found.wrong(
                ("repetitions",), f"several runs are a study: trainload study run {place}"
            )
        lines = {at[1:]: line for at, line in found.lines.items() if at[:1] == ("workload",)}
        source = Located(place=place, value=found.value["workload"], lines={**lines, (): 1})
    else:
        source = parse_yaml(text, place)
        if {"factors", "workload"} & set(source.value):
            raise StudyError(f"{place} is a study: trainload study run {place}")
    values = plain_workload(source.value)
    check_workload(values, source, (), set())
    return values, source


def run_file_keywords(path: str | Path) -> dict[str, Any]:
    """What `trainload.run` is told by the file, `what` among it."""
    return run_keywords(load_run_file(path)[0])
