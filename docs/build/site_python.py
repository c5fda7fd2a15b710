"""The reference of the Python surface, from signatures and docstrings of `trainload.__all__`."""

import ast
import dataclasses
import inspect
import textwrap
from itertools import pairwise
from typing import Any

import trainload

HEAD = """# Python

Made from the docstrings of what `import trainload` offers. Importing it loads no framework and
opens no device. Every ending of a run is an outcome, never an exception; what cannot be started
raises one of [`trainload.errors`](#trainloaderrors), with one line.
"""


def python_page() -> dict[str, str]:
    """The page by its address."""
    names = [name for name in trainload.__all__ if not name.startswith("_")]
    parts = [HEAD, *(_entry(name, getattr(trainload, name)) for name in names)]
    return {"reference/python.md": "\n\n".join(parts) + "\n"}


def _entry(name: str, value: Any) -> str:
    head = f"## trainload.{name}"
    if inspect.isclass(value):
        return "\n\n".join((head, _doc(value), *_members(value)))
    function = getattr(value, "_function", value)  # a room that can be called, or a function
    if inspect.ismodule(value) and function is value:
        return f"{head}\n\n```text\n{inspect.getdoc(value)}\n```"
    return f"{head}\n\n{_signature(name, function)}\n\n{_doc(function)}"


def _members(kind: type) -> list[str]:
    """Fields, properties and methods that are its own or its parents' in trainload."""
    notes = _field_notes(kind)
    rows = []
    if dataclasses.is_dataclass(kind):
        rows = [
            f"| `{field.name}` | {notes.get(field.name, '')} |"
            for field in dataclasses.fields(kind)
            if not field.name.startswith("_")
        ]
    methods = []
    for name, member in inspect.getmembers(kind):
        if name.startswith("_") or not _ours(kind, name):
            continue
        if inspect.isfunction(member):
            methods.append(f"{_signature(f'{kind.__name__}.{name}', member)}\n\n{_doc(member)}")
        elif isinstance(member, property) or hasattr(member, "func"):
            rows.append(f"| `{name}` | {_first(member)} |")
    table = ["| has | meaning |\n|---|---|\n" + "\n".join(rows)] if rows else []
    return [*table, *methods]


def _ours(kind: type, name: str) -> bool:
    owner = next((base for base in kind.__mro__ if name in vars(base)), object)
    return owner.__module__.startswith("trainload")


def _field_notes(kind: type) -> dict[str, str]:
    """What stands as a string behind a field, as the house writes its fields."""
    notes: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if not base.__module__.startswith("trainload"):
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0].body  # type: ignore[attr-defined]
        for field, after in pairwise(body):
            if isinstance(field, ast.AnnAssign) and isinstance(after, ast.Expr):
                words = getattr(after.value, "value", None)
                if isinstance(words, str):
                    notes[field.target.id] = " ".join(words.split())  # type: ignore[union-attr]
    return notes


def _signature(name: str, function: Any) -> str:
    """One parameter a line, as the source has it."""
    found = inspect.signature(function)
    lines, starred = [], False
    for parameter in found.parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            lines.append("*")
        starred = starred or parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        lines.append(str(parameter).replace("'", ""))
    answer = found.return_annotation
    said = (
        ""
        if answer is found.empty
        else f" -> {answer if isinstance(answer, str) else answer.__name__}"
    )
    inner = "".join(f"    {line},\n" for line in lines)
    return f"```python\n{name}({chr(10) + inner if inner else ''}){said.replace(chr(39), '')}\n```"


def _doc(value: Any) -> str:
    return inspect.getdoc(value) or ""


def _first(member: Any) -> str:
    return " ".join((inspect.getdoc(getattr(member, "func", member)) or "").split()).replace(
        "|", "\\|"
    )
