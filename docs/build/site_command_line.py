"""The reference of the command line, from the verbs' own help: nothing is written twice."""

import re
from typing import Any

import typer

from trainload.cli.app import app

HEAD = """# Command line

Made from `trainload VERB --help`. Exit status: 0 well, 1 the run ended otherwise or a condition
that was asked for holds, 2 wrong usage, 130 interrupted. A mistake is one line on standard error.

| verb | does |
|---|---|
"""
ADDRESS = "reference"


def command_pages() -> dict[str, str]:
    """Pages by their address: an index of all verbs, and one for each."""
    root = typer.main.get_command(app)
    pages, rows = {}, []
    for name, command in root.commands.items():  # type: ignore[attr-defined]
        if command.hidden:
            continue
        rows.append(f"| [`{name}`](cli-{name}.md) | {_cell(command.get_short_help_str(200))} |")
        pages[f"{ADDRESS}/cli-{name}.md"] = _page(command, f"trainload {name}")
    return {f"{ADDRESS}/index.md": HEAD + "\n".join(rows) + "\n", **pages}


def _page(command: Any, path: str, level: int = 1) -> str:
    """One verb, and below it those that it has."""
    context = command.make_context(path, [], resilient_parsing=True)
    usage = " ".join(command.get_usage(context).removeprefix("Usage: ").split())
    parts = [f"{'#' * level} {path}", _prose(command.help or ""), f"```text\n{usage}\n```"]
    records = {"argument": [], "option": []}
    for param in command.get_params(context):
        record = param.get_help_record(context)
        if record is not None:
            records[param.param_type_name].append(record)
    for kind, rows in records.items():
        if rows:
            head = f"| {kind} | meaning |\n|---|---|\n"
            cells = (f"| `{_cell(name)}` | {_cell(text)} |" for name, text in rows)
            parts.append(head + "\n".join(cells))
    if command.epilog:
        parts.append(_examples(command.epilog))
    for name, inner in getattr(command, "commands", {}).items():
        parts.append(_page(inner, f"{path} {name}", level + 1))
    return "\n\n".join(part for part in parts if part) + "\n"


def _prose(text: str) -> str:
    return re.sub(r"(?<!\n)\n(?!\n)", " ", text.replace("\b\n", "").strip())


def _examples(epilog: str) -> str:
    """Indented lines as one block, the others as prose."""
    words = epilog.replace("\b\n", "").strip()
    one = re.match(r"Example: (.+)$", words)
    if one:
        return f"Example:\n\n```text\n{one[1]}\n```"
    return re.sub(
        r"(?:^ {2}.*\n?)+",
        lambda block: "\n```text\n" + re.sub("(?m)^  ", "", block[0]).rstrip() + "\n```\n",
        words,
        flags=re.MULTILINE,
    )


def _cell(text: str) -> str:
    """Text for one cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")
