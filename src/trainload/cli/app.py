"""The verbs put together, and the one place where errors become a line and an exit status."""

import errno
import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module

import typer

from trainload._version import __version__
from trainload.cli.defaults import Defaults, defaults_of, load_defaults
from trainload.cli.printing import complain, use_plain
from trainload.errors import Terminated, TrainloadError

app = typer.Typer(
    name="trainload",
    help="What a neural-network training costs, where the cost goes, which choice is best.",
    # Plain help: the rich one takes longer to import than the help takes to read.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""\b
Examples:
  trainload run mlp --epochs 3            train a small network and see what it costs
  trainload run train.py -- --epochs 3    your own script, unchanged
  trainload show runs/mlp-…               what a run cost, where it went, what to do next
  trainload doctor                        what works here, and what mends the rest
  trainload VERB --help                   every option of a verb, with examples

\b
Files:
  runs/                       run directories; --out chooses another folder
  ~/.config/trainload.toml    your own defaults (docs/habits.md)

\b
Environment:
  TRAINLOAD_CONFIG    another file of defaults; empty for none
  TRAINLOAD_ENVS      folder of the frameworks' environments
  TRAINLOAD_PLAIN     1: plain lines for screen readers, as --plain
  TRAINLOAD_PRICES, TRAINLOAD_CARBON    folders of your own prices and places
  NO_COLOR, COLUMNS   as other programs take them

\b
Exit status: 0 well, 1 the run ended otherwise, 2 wrong usage.""",
)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Print the version and exit."),
    plain: bool = typer.Option(
        False, "--plain", help="Lines without bars, boxes and colours, for screen readers."
    ),
) -> None:
    if plain or defaults_of(context).plain:
        use_plain(True)
    if version:
        typer.echo(f"trainload {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


_COMPLETING = "_TRAINLOAD_COMPLETE"
"""Set by the shell that wants words completed."""
_WITHOUT_DEFAULTS = {"--help", "-h", "--version", "--install-completion", "--show-completion"}
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
    "book",
    "reproduce",
    "export",
    "collect",
    "import_",
    "models",
    "subset",
    "env",
    "estimate",
    "predict",
    "recommend",
    "dataflow",
    "scorecard",
    "devices",
    "calibrate",
    "detect",
    "doctor",
)
"""In the order of the help. NAME is `NAME_verb` of the file NAME, or `NAME_app` if it has verbs.

A keyword of Python has an underscore behind it as a file, and none as a verb."""

_LONGEST_SHORT_HELP = 62


def _short_help(text: str) -> str:
    """The first clause of a verb's help, whole: cut by its width it would say less."""
    line = " ".join(text.partition("\n\n")[0].split())
    clause = re.split(r"(?<=\?)|[:;.] |\.$", line)[0]
    if len(clause) <= _LONGEST_SHORT_HELP:
        return clause
    return clause[:_LONGEST_SHORT_HELP].rpartition(", ")[0] or clause


for _stem in _VERBS:
    _file, _name = import_module(f"trainload.cli.{_stem}"), _stem.rstrip("_")
    if hasattr(_file, f"{_name}_app"):
        _group = getattr(_file, f"{_name}_app")
        _short = _short_help(_group.info.help)
        app.add_typer(_group, name=_name, epilog=_file.EPILOG, short_help=_short)
    else:
        _verb = getattr(_file, f"{_name}_verb")
        app.command(_name, epilog=_file.EPILOG, short_help=_short_help(_verb.__doc__))(_verb)


def _drop_output() -> None:
    """What is still held would fail again when Python ends, with a status of its own."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _start(arguments: list[str]) -> object:
    """Run the command with the user's defaults; help and doctor do without them."""
    ours = arguments[: arguments.index("--")] if "--" in arguments else arguments
    without = _WITHOUT_DEFAULTS & set(ours) or "doctor" in ours[:2] or _COMPLETING in os.environ
    told = Defaults() if without else load_defaults(app)
    return app(args=arguments, standalone_mode=False, obj=told, default_map=dict(told.options))


def run_app(arguments: Sequence[str]) -> int:
    """Run one command; its exit status: 0 well, 1 the run ended otherwise, 2 usage."""
    if any("\0" in word for word in arguments):
        return complain("a word of the command holds a NUL character; leave it out")
    use_plain(False)
    try:
        status = _start(list(arguments))
    except TrainloadError as error:
        return complain(error)
    except KeyboardInterrupt:
        complain("interrupted")
        return 130
    except Terminated as signal_name:
        complain(f"ended by {signal_name}")
        return 143
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
