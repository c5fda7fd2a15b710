"""The worker's source: old enough a syntax, and few enough doors."""

import ast
import builtins
import sys
from collections.abc import Iterator
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


def annotations_of(tree: ast.Module) -> Iterator[ast.expr]:
    """Every annotation that Python 3.8 evaluates when the file is loaded."""
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign | ast.arg) and node.annotation is not None:
            yield node.annotation
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns is not None:
            yield node.returns


def fields_of(tree: ast.Module) -> Iterator[ast.expr]:
    """Annotations of the classes' fields, which the checker evaluates however they are written."""
    for node in ast.walk(tree):
        for statement in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(statement, ast.AnnAssign):
                yield statement.annotation


def is_too_new(annotation: ast.expr) -> bool:
    """Whether it holds `X | None` or `list[int]`, which are errors to Python 3.8."""
    return any(
        (isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr))
        or (
            isinstance(node, ast.Subscript)
            and isinstance(node.value, ast.Name)
            and hasattr(builtins, node.value.id)
        )
        for node in ast.walk(annotation)
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_annotations_are_left_alone_or_spelt_for_python_3_8(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    evaluated = list(fields_of(tree)) if path.parent.name == "protocol" else []
    if "from __future__ import annotations" not in text:
        evaluated += annotations_of(tree)
    assert not [ast.unparse(one) for one in evaluated if is_too_new(one)]


def test_the_look_at_annotations_sees_what_is_too_new() -> None:
    function = "def f(a: int | None, b: 'X | None') -> list[int]: ..."
    tree = ast.parse(f"{function}\nclass C:\n    x: set[int]")
    found = {ast.unparse(one) for one in annotations_of(tree) if is_too_new(one)}
    assert found == {"int | None", "list[int]", "set[int]"}
    assert [is_too_new(one) for one in fields_of(tree)] == [True]
