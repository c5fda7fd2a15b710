"""`trainload env`: the frameworks' own environments."""

from dataclasses import asdict
from pathlib import Path

import typer

from trainload.cli.completing import complete_framework
from trainload.cli.printing import FRAMEWORK_NAMES, json_text

EPILOG = """\b
Examples:
  trainload env list
  trainload env create jax
  trainload env use torch /opt/torch/bin/python
  trainload env remove jax"""

env_app = typer.Typer(
    help="List, make and remove the frameworks' own environments.",
    rich_markup_mode=None,
    add_completion=False,
    no_args_is_help=True,
)

_NAME = typer.Argument(
    help=f"{FRAMEWORK_NAMES}.", metavar="NAME", autocompletion=complete_framework
)
_PATH = typer.Option(
    None, "--path", help="Folder of environments; default TRAINLOAD_ENVS or the user's data folder."
)
_JSON = typer.Option(False, "--json", help="Print as JSON.")


@env_app.command("list", epilog="Example: trainload env list --json")
def list_verb(path: Path | None = _PATH, as_json: bool = _JSON) -> None:
    """List every framework: its version, its interpreter, and what is wrong with it."""
    from trainload.columns import render_columns
    from trainload.run import environments_folder, list_environments

    found = list_environments(path)
    if as_json:
        document = {
            "folder": str(path or environments_folder()),
            "environments": [asdict(environment) for environment in found],
        }
        typer.echo(json_text(document))
        return
    rows = [
        (one.framework, "ready" if one.state == "here" else one.state, one.version or "",
         one.python or f"trainload env create {one.framework}")
        for one in found
    ]  # fmt: skip
    typer.echo(render_columns(("framework", "state", "version", "interpreter"), rows, set()))
    for one in found:
        if one.problem is not None and one.python is not None:
            typer.echo(one.problem)


@env_app.command("create", epilog="Example: trainload env create mxnet --python python3.11")
def create_verb(
    name: str = _NAME,
    path: Path | None = _PATH,
    python: str | None = typer.Option(
        None, help="Interpreter to make it from; default one of a version that suits."
    ),
    force: bool = typer.Option(False, help="Build it again though it is in order."),
    quiet: bool = typer.Option(False, "--quiet", "-q", help="No progress."),
    as_json: bool = _JSON,
) -> None:
    """Make a framework's environment from the requirements pinned by this version.

    One that is in order is kept. A new one replaces the old when it is complete and its framework
    can be imported.
    """
    from trainload.cli.progress import ProgressLine
    from trainload.run import create_environment

    with ProgressLine(quiet=quiet or as_json) as line:
        made = create_environment(
            name, folder=path, python=python, force=force, show=lambda text: line(f"{text}\n")
        )
    typer.echo(json_text(asdict(made)) if as_json else _ready(made))


@env_app.command("use", epilog="Example: trainload env use jax ~/venvs/jax/bin/python")
def use_verb(
    name: str = _NAME,
    python: str = typer.Argument(help="Interpreter that has the framework.", metavar="PYTHON"),
    path: Path | None = _PATH,
    as_json: bool = _JSON,
) -> None:
    """Use an interpreter that was there before; it is checked first and never changed."""
    from trainload.run import use_interpreter

    chosen = use_interpreter(name, python, path)
    typer.echo(json_text(asdict(chosen)) if as_json else _ready(chosen))


@env_app.command("remove", epilog="Example: trainload env remove jax")
def remove_verb(name: str = _NAME, path: Path | None = _PATH) -> None:
    """Delete an environment made here, or forget an interpreter named with `use`."""
    from trainload.run import remove_environment

    typer.echo(f"{name}: {remove_environment(name, path)}")


def _ready(environment: object) -> str:
    framework, version = (getattr(environment, name) for name in ("framework", "version"))
    return f"{framework} {version}: {getattr(environment, 'python', None)}"
