"""`trainload validate`: the scores of a saved model."""

from pathlib import Path

import typer

from trainload.cli.defaults import defaults_of
from trainload.cli.printing import FRAMEWORK_NAMES

EPILOG = """\b
Examples:
  trainload validate runs/resnet18-20261115-120000-a1b2c3 --top 1,5
  trainload validate runs/lenet5-20261115-120000-a1b2c3/checkpoint-2.safetensors --framework jax
  trainload validate RUN --data mnist:/data/other-digits --json"""


def validate_verb(
    context: typer.Context,
    run: Path = typer.Argument(help="A run directory that has a checkpoint, or a checkpoint file."),
    data: str | None = typer.Option(
        None, metavar="WORD", help="Other data than the run's own, as trainload run takes it."
    ),
    cache: Path | None = typer.Option(
        None, help="Folder of decoded images; default the user's cache."
    ),
    top: str | None = typer.Option(
        None, metavar="N,N…", help="Top-n accuracies to count, such as 1,5."
    ),
    setting: str | None = typer.Option(
        None, help="Cores and accelerators, such as cpu0-3+gpu0; default all cores and gpu0."
    ),
    threads: int | None = typer.Option(None, help="Threads of the framework; default the cores."),
    out: Path = typer.Option(Path("runs"), help="Folder in which the run directory is made."),
    timeout: float | None = typer.Option(None, help="Seconds after which the run is ended."),
    framework: str | None = typer.Option(None, help=f"{FRAMEWORK_NAMES}; default that of the run."),
    python: str | None = typer.Option(
        None, help="Interpreter that has the framework; default its environment."
    ),
    quiet: bool = typer.Option(False, "--quiet", "-q", help="No progress line."),
    as_json: bool = typer.Option(False, "--json", help="Print the result as JSON."),
) -> int:
    """Score a saved model on the validation rows, and train nothing.

    Leaves a run of its own, whose record says what was scored. Rows are the run's own validation
    rows; with --data those of that data, divided by the run's seed.

    Exit status: 0 completed, 1 the run ended otherwise (the outcome is printed), 2 usage.
    """
    from trainload.api.running import validate
    from trainload.cli.progress import ProgressLine
    from trainload.cli.run import parse_top, print_result
    from trainload.run import show_as_text

    silent = quiet or as_json
    with ProgressLine(quiet=silent) as line:
        done = validate(
            run,
            data=data,
            cache=cache,
            top=() if top is None else parse_top(top),
            framework=framework,
            setting=setting,
            threads=threads,
            out=out,
            timeout_s=timeout,
            python=python,
            show=None if silent else show_as_text(line),
        )
    currency = defaults_of(context).currency
    return print_result(done, python, as_json=as_json, currency=currency)
