"""`trainload run`: one measured training."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import typer

EPILOG = """\b
Examples:
  trainload run mlp --epochs 3
  trainload run mlp --set hidden_units=512 --set activation=silu --setting cpu0-1 --out runs/
  trainload run mlp --data poses.csv --label-column skill --group-column video --timeout 600
  trainload run mlp --layers
  trainload run train.py -- --epochs 3 --lr 1e-3
  trainload run train.py --processes 2 --setting cpu0-7+gpu0-1"""


def run_verb(
    model: str = typer.Argument(help="Model family (mlp), or the path of a torch script."),
    arguments: list[str] = typer.Argument(None, help="The script's own arguments, after --."),
    words: list[str] = typer.Option(
        [], "--set", metavar="NAME=VALUE", help="Any option of model or training; repeatable."
    ),
    epochs: int | None = typer.Option(None, help="Passes over the training data.", min=1),
    batch_size: int | None = typer.Option(None, help="Examples in one step.", min=1),
    optimizer: str | None = typer.Option(None, help="adam, adamw, sgd, rmsprop or adagrad."),
    learning_rate: float | None = typer.Option(None, help="Step size of the optimizer."),
    precision: str | None = typer.Option(None, help="float32 or bf16 (autocast)."),
    data: str | None = typer.Option(None, help="keypoints (generated) or the path of a CSV table."),
    label_column: str | None = typer.Option(None, help="The table's column of classes."),
    group_column: str | None = typer.Option(None, help="Column whose groups are never split."),
    seed: int = typer.Option(0, help="Seed of data, split, order and weights.", min=0),
    setting: str | None = typer.Option(
        None, help="Cores and accelerators, such as cpu0-3+gpu0; default all cores and gpu0."
    ),
    threads: int | None = typer.Option(None, help="Threads of the framework; default the cores."),
    processes: int = typer.Option(
        1, help="Processes that run a script together, as torchrun starts them.", min=1, max=64
    ),
    out: Path = typer.Option(Path("runs"), help="Folder in which the run directory is made."),
    rate: float = typer.Option(10.0, help="Samples a second, 1 to 100."),
    timeout: float | None = typer.Option(None, help="Seconds after which the run is ended."),
    framework: str = typer.Option("torch", help="torch."),
    python: str | None = typer.Option(None, help="Interpreter that has the framework."),
    tegrastats: Path | None = typer.Option(
        None, help="The tegrastats program, or a file of its lines; default the one on PATH."
    ),
    check_overhead: bool = typer.Option(
        True, help="Measure the sampler's own cost by short pauses in sampling."
    ),
    layers: bool | None = typer.Option(
        None,
        "--layers/--no-layers",
        help="Trace a few steps now and then, layer by layer; default for scripts.",
    ),
    layer_budget: float = typer.Option(
        0.03, help="Share of the training time that tracing layers may cost."
    ),
    quiet: bool = typer.Option(False, "--quiet", "-q", help="No progress line."),
    as_json: bool = typer.Option(False, "--json", help="Print the result as JSON."),
    fake: str | None = typer.Option(None, hidden=True),
) -> int:
    """Run one training and measure it: time, loads, memory, energy, loss and quality.

    A script runs unchanged; its steps are recognised from its optimizer.

    Exit status: 0 completed, 1 the run ended otherwise (the outcome is printed), 2 usage.
    """
    from trainload.run import execute_run, prepare_request, traces_layers_by_default

    named = {
        "epochs": epochs,
        "batch_size": batch_size,
        "optimizer": optimizer,
        "learning_rate": learning_rate,
        "precision": precision,
        "data": data,
        "label_column": label_column,
        "group_column": group_column,
    }
    if layers is None:
        layers = traces_layers_by_default(model, framework)
    named_words = [f"{name}={value}" for name, value in named.items() if value is not None]
    _check_framework(framework, python)
    request = prepare_request(
        model,
        [*words, *named_words],
        arguments=arguments or (),
        seed=seed,
        setting=setting,
        threads=threads,
        out=out,
        rate_hz=rate,
        timeout_s=timeout,
        processes=processes,
        framework=framework,
        python=python or sys.executable,
        tegrastats_path=_check_tegrastats(tegrastats),
        check_overhead=check_overhead,
        layer_budget=layer_budget if layers else None,
        fake=_parse_fake(fake),
    )
    result = execute_run(request, None if quiet or as_json else _ProgressLine())
    if sys.stderr.isatty() and not (quiet or as_json):
        sys.stderr.write("\r\033[K")
    _print_result(result, as_json)
    return 0 if result.outcome == "completed" else 1


def _check_framework(framework: str, python: str | None) -> None:
    """Say before anything starts that the framework is missing, and the command that mends it."""
    import importlib.util

    from trainload.errors import UsageError

    if framework not in ("torch", "fake"):
        raise UsageError(f"--framework {framework}: unknown; this version runs torch")
    if python is not None and shutil.which(python) is None:
        raise UsageError(f"--python {python}: no such interpreter")
    if framework == "torch" and python is None and importlib.util.find_spec("torch") is None:
        raise UsageError(
            "torch is not installed here; pip install 'trainload[torch]', "
            "or give an interpreter that has it with --python"
        )


def _check_tegrastats(path: Path | None) -> str | None:
    from trainload.errors import UsageError

    if path is not None and not path.exists():
        raise UsageError(f"--tegrastats {path}: no such program or file")
    return None if path is None else str(path.resolve())


def _parse_fake(text: str | None) -> dict[str, Any]:
    from trainload.errors import UsageError

    try:
        options = json.loads(text) if text else {}
    except ValueError as error:
        raise UsageError(f"--fake is no JSON: {error}") from None
    if not isinstance(options, dict):
        raise UsageError("--fake must be a JSON object")
    return options


class _ProgressLine:
    """The live line on a terminal; elsewhere a line every ten seconds."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        self._next_s = 0.0

    def __call__(self, progress: Any) -> None:
        from trainload.run import render_progress

        if progress.warning:
            clear = "\r\033[K" if self._live else ""
            sys.stderr.write(f"{clear}warning: {progress.warning}\n")
        if self._live:
            width = shutil.get_terminal_size().columns
            sys.stderr.write(f"\r{render_progress(progress, width - 1)}\033[K")
            sys.stderr.flush()
        elif progress.elapsed_s >= self._next_s:
            self._next_s = progress.elapsed_s + 10.0
            sys.stderr.write(f"{render_progress(progress, 200).strip()}\n")


def _print_result(result: Any, as_json: bool) -> None:
    from trainload.cli.show import print_run, summary_json
    from trainload.errors import MissingPart, RecordError
    from trainload.record.layout import WORKER_LOG

    summary = None
    try:
        if as_json:
            summary = json.loads(summary_json(result.path))
        else:
            print_run(result.path)
    except (MissingPart, RecordError, KeyboardInterrupt) as error:
        # The run itself is safe on disk: reading it back is a convenience here.
        sys.stderr.write(f"note: no summary here: {str(error) or 'interrupted'}\n")
    if as_json:
        document = {
            "path": str(result.path),
            "outcome": result.outcome,
            "outcome_reason": result.reason,
            "summary": summary,
        }
        typer.echo(json.dumps(document, indent=1))
        return
    reason = f": {result.reason}" if result.reason else ""
    typer.echo(f"outcome: {result.outcome}{reason}")
    typer.echo(f"record:  {result.path}")
    if "script" in result.manifest.workload:
        typer.echo(f"output:  {result.path / WORKER_LOG}")
