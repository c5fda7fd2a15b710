"""`%load_ext trainload`: the cell magic `%%trainload`, which records a cell as a run and shows it.

    %%trainload my-model --out runs
    train(model)

Reads nothing of the cell but which framework it names; what it prints and raises is its own.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from trainload.api.loading import load
from trainload.errors import TrainloadError, UsageError
from trainload.integrations.watch import watch

if TYPE_CHECKING:
    from trainload.api.loading import Run

MAGIC = "trainload"


class _Words(argparse.ArgumentParser):
    """Says what is wrong by an error of ours instead of ending the notebook."""

    def error(self, message: str) -> NoReturn:
        usage = " ".join(self.format_usage().split()).removeprefix("usage: ")
        raise UsageError(f"%%trainload: {message}; write: {usage}")


def _parser() -> _Words:
    words = _Words(prog="%%trainload", add_help=False)
    words.add_argument("name", nargs="?", default="cell", help="what the run is called")
    words.add_argument("--out", default="runs", help="folder of runs")
    words.add_argument("--framework", default=None, help="torch, tensorflow or jax")
    words.add_argument("--no-layers", action="store_true", help="trace no layers")
    words.add_argument("--as", dest="variable", default="run", help="variable of the run")
    return words


def load_ipython_extension(shell: Any) -> None:
    """Registers the cell magic in a running IPython."""

    def record_cell(line: str, cell: str) -> Run | None:
        return _record(shell, line, cell)

    shell.register_magic_function(record_cell, magic_kind="cell", magic_name=MAGIC)


def unload_ipython_extension(shell: Any) -> None:
    """Takes the cell magic away."""
    shell.magics_manager.magics["cell"].pop(MAGIC, None)


def _record(shell: Any, line: str, cell: str) -> Run | None:
    """Runs the cell under a watch and keeps the run in a variable; the run, which shows itself.

    What is wrong with the line, or keeps a recording from starting, is one line of text and the
    cell is not run.
    """
    try:
        told = _parser().parse_args(shlex.split(line))
        if not told.variable.isidentifier():
            raise UsageError(f"%%trainload: --as {told.variable}: no name of a variable")
        framework = told.framework or _named_framework(cell)
        watched = watch(told.name, out=told.out, layers=not told.no_layers, framework=framework)
        watched.__enter__()
    except (TrainloadError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return None
    outcome = shell.run_cell(cell)
    raised = outcome.error_before_exec or outcome.error_in_exec
    watched.__exit__(None if raised is None else type(raised), raised, None)
    run = load(watched.path)
    shell.user_ns[told.variable] = run
    return None if raised is not None else run


def _named_framework(cell: str) -> str | None:
    """The framework that the cell itself imports; None leaves it to what is imported already."""
    for module, framework in (
        ("torch", "torch"),
        ("keras", "tensorflow"),
        ("tensorflow", "tensorflow"),
        ("jax", "jax"),
    ):
        if any(line.split()[:2] in (["import", module], ["from", module]) for line in _lines(cell)):
            return framework
    return None


def _lines(cell: str) -> list[str]:
    return [line.replace(",", " ").replace(".", " ") for line in cell.splitlines()]
