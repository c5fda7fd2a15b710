"""Registries hold one line for each file: none is forgotten, none names what is not there."""

import re
from importlib import import_module
from pathlib import Path

import trainload
from trainload.cli.app import app
from trainload.meters import METERS
from trainload.report.run.sections import _SECTIONS, _find
from trainload.workload import MODELS

ROOT = Path(trainload.__file__).parent


def files(folder, holding):
    found = (ROOT / folder).glob("*.py")
    return {path.stem for path in found if re.search(holding, path.read_text(), re.MULTILINE)}


def test_every_verb_is_a_command():
    commands = {command.name for command in app.registered_commands}
    groups = {group.name for group in app.registered_groups}
    assert commands | groups == {stem.rstrip("_") for stem in files("cli", r"^EPILOG = ")}


def test_every_opener_is_a_meter():
    openers = [
        name
        for file in files("meters", r"^def open_\w+_meter\(")
        for name in re.findall(
            r"^def open_(\w+)_meter\(", (ROOT / f"meters/{file}.py").read_text(), re.M
        )
    ]
    assert sorted(openers) == sorted(METERS)


def test_every_file_of_the_zoo_is_listed():
    written = files("workload/zoo", r"^MODELS = \{")
    stated = [import_module(f"trainload.workload.zoo.{file}").MODELS for file in written]
    assert sorted(MODELS) == sorted(name for models in stated for name in models)
    families = [model.family for model in MODELS.values()]
    assert families == sorted(families)


def test_every_section_of_a_run_is_drawn_once():
    assert len(set(_SECTIONS)) == len(_SECTIONS) and all(map(callable, map(_find, _SECTIONS)))
