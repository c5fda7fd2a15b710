"""The worker's source: old enough a syntax, and few enough doors."""

import ast
import sys
from pathlib import Path

import pytest

import trainload_worker

ROOT = Path(trainload_worker.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
FRAMEWORK_ROOMS = {
    "frameworks/tensorflow": {"tensorflow", "keras", "numpy"},
    "frameworks/jax": {"jax", "flax", "optax", "numpy"},
    "frameworks/mxnet": {"mxnet", "numpy"},
    "frameworks/arrays": {"numpy"},
    "frameworks/torch": {"torch"},
    "training/initial_weights.py": {"numpy"},
    "data/image_folder.py": {"PIL"},  # inside a function: only image folders need it
}
"""Which libraries a folder or file may import; those that a framework is made whole by."""


def own_rooms(path: Path) -> set[str]:
    """What a file may import beside the standard library and the worker itself."""
    place = path.relative_to(ROOT).as_posix()
    found = [rooms for where, rooms in FRAMEWORK_ROOMS.items() if place.startswith(where)]
    return set().union(*found)


def imported_rooms(tree: ast.Module) -> set[str]:
    rooms = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            rooms.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            rooms.add((node.module or "").split(".")[0])
    return rooms


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_the_syntax_is_that_of_python_3_8(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 8))
    assert ast.get_docstring(tree), "a module says its duty in its first line"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_only_the_standard_library_and_the_file_s_framework_are_imported(path: Path) -> None:
    rooms = imported_rooms(ast.parse(path.read_text(encoding="utf-8")))
    allowed = {"trainload_worker"} | own_rooms(path)
    assert rooms - allowed <= set(sys.stdlib_module_names)


def test_annotations_are_never_evaluated() -> None:
    """`X | None` and `list[int]` are errors to Python 3.8 unless left unevaluated."""
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        if "|" in text or "[" in text:
            simple = path.name in ("__init__.py", "errors.py")
            assert simple or "from __future__ import annotations" in text, path.name
