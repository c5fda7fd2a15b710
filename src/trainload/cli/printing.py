"""Printing of what the report room renders."""

from typing import Any


def print_rendered(rendered: Any) -> None:
    """Print a rich renderable on standard output; not folded where that is no terminal."""
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=160)
    console.print(rendered)
