"""`trainload validate`: the scores of a saved model."""

from pathlib import Path

import typer

EPILOG = """\b
Examples:
  trainload validate runs/resnet18-20261115-120000-a1b2c3 --top 1,5
  trainload validate runs/lenet5-20261115-120000-a1b2c3/checkpoint-2.safetensors --framework jax
  trainload validate RUN --data mnist:/data/other-digits --json"""


def validate_verb(
    run: Path = typer.Argument(help="A run directory that has a checkpoint, or a checkpoint file."),
    data: str | None = typer.Option(
        None, metavar="WORD", help="Other data than the run's own, as trainload run takes it."
    ),
    cache: Path | None = typer.Option(None, help="Folder of decoded images, for --data."),
    top: str | None = typer.Option(
        None, metavar="N,N…", help="Top-n accuracies to count, such as 1,5."
    ),
    setting: str | None = typer.Option(
        None, help="Cores and accelerators, such as cpu0-3+gpu0; default all cores and gpu0."
    ),
    threads: int | None = typer.Option(None, help="Threads of the framework; default the cores."),
    out: Path = typer.Option(Path("runs"), help="Folder in which the run directory is made."),
    timeout: float | None = typer.Option(None, help="Seconds after which the run is ended."),
    framework: str | None = typer.Option(
        None, help="torch, tensorflow, jax or mxnet; default that of the run."
    ),
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
    from trainload.cli.run import execute_with_progress, find_interpreter, print_result
    from trainload.run import plan_validation, request_continuation

    planned = plan_validation(run, data=data, cache=None if cache is None else str(cache), top=top)
    chosen = framework or planned.framework
    interpreter = find_interpreter(chosen, python)
    request = request_continuation(
        planned,
        setting=setting,
        threads=threads,
        out=out,
        timeout_s=timeout,
        framework=chosen,
        python=interpreter,
        check_overhead=False,
        validate_only=True,
    )
    result = execute_with_progress(request, quiet=quiet or as_json)
    return print_result(result, interpreter, as_json=as_json)
