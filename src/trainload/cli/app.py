"""The verbs put together, and the one place where errors become a line and an exit status."""

import errno
import os
import sys
from collections.abc import Sequence
from importlib import import_module

import typer

from trainload._version import __version__
from trainload.cli.printing import complain
from trainload.errors import TrainloadError

app = typer.Typer(
    name="trainload",
    help="What a neural-network training costs, where the cost goes, which choice is best.",
    # Plain help: the rich one takes longer to import than the help takes to read.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with: trainload run mlp --epochs 3",
)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Print the version and exit."),
) -> None:
    if version:
        typer.echo(f"trainload {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


_VERBS = (
    "run",
    "live",
    "study",
    "validate",
    "ls",
    "show",
    "seal",
    "report",
    "analyse",
    "compare",
    "history",
    "rank",
    "reproduce",
    "export",
    "collect",
    "import_",
    "models",
    "subset",
    "env",
    "estimate",
    "predict",
    "scorecard",
    "devices",
    "calibrate",
    "detect",
)
"""In the order of the help. NAME is `NAME_verb` of the file NAME, or `NAME_app` if it has verbs.

A keyword of Python has an underscore behind it as a file, and none as a verb."""

for _stem in _VERBS:
    _file, _name = import_module(f"trainload.cli.{_stem}"), _stem.rstrip("_")
    if hasattr(_file, f"{_name}_app"):
        app.add_typer(getattr(_file, f"{_name}_app"), name=_name, epilog=_file.EPILOG)
    else:
        app.command(_name, epilog=_file.EPILOG)(getattr(_file, f"{_name}_verb"))


def _drop_output() -> None:
    """What is still held would fail again when Python ends, with a status of its own."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def run_app(arguments: Sequence[str]) -> int:
    """Run one command; its exit status: 0 well, 1 the run ended otherwise, 2 usage."""
    if any("\0" in word for word in arguments):
        return complain("a word of the command holds a NUL character; leave it out")
    try:
        status = app(args=list(arguments), standalone_mode=False)
    except TrainloadError as error:
        return complain(error)
    except KeyboardInterrupt:
        complain("interrupted")
        return 130
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output has gone, as in `trainload show R | head`
        return 1
    except OSError as error:
        if error.errno in (errno.ENAMETOOLONG, errno.ELOOP):
            return complain(f"{error.filename!s:.80}…: {error.strerror}")
        if error.errno not in (errno.ENOSPC, errno.EIO, errno.EBADF, errno.EFBIG, errno.EDQUOT):
            raise
        # Ours are written elsewhere and say so: what is left is the stream that we print to.
        _drop_output()
        return complain(f"what is printed here cannot be written: {error.strerror}")
    except Exception as error:
        # typer brings its own copy of click or uses the installed one: known by their shape.
        status = getattr(error, "exit_code", None)
        if status is None:
            raise
        message = getattr(error, "format_message", lambda: "")()
        if not message:
            # typer ends so on Ctrl-C, before and after a run; within one it is an outcome.
            if status == 130:
                complain("interrupted")
            return int(status)
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else "trainload"
        return complain(f"{message.rstrip('.')}; see {command} --help")
    if status == 130:  # some versions of typer give Ctrl-C back as a status instead
        complain("interrupted")
    return status if isinstance(status, int) else 0
