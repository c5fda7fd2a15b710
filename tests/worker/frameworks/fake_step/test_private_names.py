"""The table of torch's private names in the engine's README is complete; needs no torch."""

import ast
import re
from collections import defaultdict
from pathlib import Path

import trainload_worker.frameworks.torch

FOLDER = Path(trainload_worker.frameworks.torch.__file__).parent / "fake_step"
OURS = {"_calls", "_dispatch", "_entry", "_exit", "_freed", "_getframe", "_roots", "_slot_count"}
"""Private names of our own on other objects than `self`, and one of Python's."""
PRIVATE = re.compile(r"(?<![A-Za-z0-9_])_[A-Za-z]\w*")


def used_names() -> dict[str, set[str]]:
    """Private name -> files that use it: attributes, imports, and names given as text."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in sorted(FOLDER.glob("*.py")):
        for text in private_texts(ast.parse(path.read_text(encoding="utf-8"))):
            for name in PRIVATE.findall(text):
                if name not in OURS:
                    found[name].add(path.name)
    return found


def private_texts(tree: ast.Module) -> list[str]:
    """What may hold a private name of torch's; our own functions and variables are plain names."""
    documents = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            own = isinstance(node.value, ast.Name) and node.value.id in ("self", "watch")
            texts.append("" if own else node.attr)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("torch"):
            texts.extend([node.module or "", *(alias.name for alias in node.names)])
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            plain = id(node) not in documents and not re.search(r"[\s{]", node.value)
            texts.append(node.value if plain else "")
    return texts


def table_rows() -> list[tuple[set[str], set[str]]]:
    """Private names and files of each row of the table."""
    lines = (FOLDER / "README.md").read_text(encoding="utf-8").splitlines()
    first = lines.index("| name | where | what for | where it is missing |") + 2
    rows = []
    for line in lines[first:]:
        if not line.startswith("|"):
            break
        names, where = line.split("|")[1:3]
        rows.append((set(PRIVATE.findall(names)), set(re.findall(r"\w+(?=`)", where))))
    return rows


def test_every_private_name_stands_in_the_table_with_its_files() -> None:
    used = used_names()
    told: dict[str, set[str]] = defaultdict(set)
    for names, files in table_rows():
        for name in names:
            told[name] |= {f"{file}.py" for file in files}
    assert {name: sorted(files) for name, files in sorted(told.items())} == {
        name: sorted(files) for name, files in sorted(used.items())
    }


def test_every_file_is_in_the_flow() -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    files = {path.stem for path in FOLDER.glob("*.py")} - {"__init__"}
    assert [name for name in sorted(files) if f"| `{name}` |" not in text] == []
