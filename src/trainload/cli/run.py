"""`trainload run`: one measured training."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from trainload.cli.completing import complete_framework, complete_model
from trainload.cli.defaults import defaults_of
from trainload.cli.live import BIND, PORT, check_screen
from trainload.cli.printing import FRAMEWORK_NAMES, complain, json_text
from trainload.cli.progress import ProgressLine

if TYPE_CHECKING:
    from trainload.api.costing import Currency
    from trainload.api.loading import Run

EPILOG = """\b
Examples:
  trainload run mlp --epochs 3
  trainload run mlp --set hidden_units=512 --set activation=silu --setting cpu0-1 --out runs/
  trainload run mlp --data poses.csv --label-column skill --group-column video --timeout 600
  trainload run mlp --layers
  trainload run mlp --framework jax --setting cpu0-1
  trainload run resnet18 --set classes=10 --set image_height=64 --set image_width=64
  trainload run lenet5 --data mnist:/data/mnist
  trainload run alexnet --data folder:/data/flowers --batch-size 16 --cache /scratch/cache
  trainload run lstm_lm --data synthetic --set rows=2000
  trainload run resnet18 --data cifar10:/data/cifar10 --epochs 4 --save-every 2 --top 1,3
  trainload run --resume runs/resnet18-20261115-120000-a1b2c3 --epochs 8 --framework jax
  trainload run train.py -- --epochs 3 --lr 1e-3
  trainload run train.py --processes 2 --setting cpu0-7+gpu0-1
  trainload run resnet18 --processes 2 --batch-size 64 --setting cpu0-1
  trainload run mine.yaml --epochs 1
  trainload run resnet18 --layers --live
  trainload run train.py --serve"""


def run_verb(
    context: typer.Context,
    model: str | None = typer.Argument(
        None,
        help="A model (trainload models lists them), the path of a torch or Keras script, or a run "
        "as a file: FILE.yaml, whose keys the options here override.",
        autocompletion=complete_model,
    ),
    arguments: list[str] = typer.Argument(None, help="The script's own arguments, after --."),
    words: list[str] = typer.Option(
        [], "--set", metavar="NAME=VALUE", help="Any option of model or training; repeatable."
    ),
    epochs: int | None = typer.Option(
        None, help="Passes over the training data; with --resume those before it included.", min=1
    ),
    batch_size: int | None = typer.Option(None, help="Examples in one step.", min=1),
    optimizer: str | None = typer.Option(None, help="adam, adamw, sgd, rmsprop or adagrad."),
    learning_rate: float | None = typer.Option(None, help="Step size of the optimizer."),
    precision: str | None = typer.Option(None, help="float32, or autocast: bf16, fp16 (torch)."),
    data: str | None = typer.Option(
        None,
        metavar="WORD",
        help="synthetic or keypoints (generated); folder:PATH (images), cifar10:PATH, mnist:PATH, "
        "csv:PATH, npy:PATH; or just a path or an fsspec address. Default: keypoints for plain "
        "features, else synthetic.",
    ),
    cache: Path | None = typer.Option(
        None, help="Folder of decoded images and fetched files; default the user's cache."
    ),
    label_column: str | None = typer.Option(None, help="The table's column of classes."),
    group_column: str | None = typer.Option(None, help="Column whose groups are never split."),
    loader: str | None = typer.Option(
        None, help="cache (our memory-mapped one, the default) or native (the framework's own)."
    ),
    loader_workers: int | None = typer.Option(
        None, help="Processes or threads of a native loader; default 2.", min=0
    ),
    validate: str | None = typer.Option(
        None, help="Validate after each epoch (the default), at the end, or never."
    ),
    top: str | None = typer.Option(
        None, metavar="N,N…", help="Top-n accuracies to count, such as 1,5."
    ),
    save: bool = typer.Option(False, "--save", help="Save the model into the run directory."),
    save_every: int | None = typer.Option(
        None, metavar="N", help="Save it after every N epochs too.", min=1
    ),
    resume: Path | None = typer.Option(
        None, help="Continue the training of a run directory or a checkpoint file, in a new run."
    ),
    seed: int = typer.Option(0, help="Seed of data, split, order and weights.", min=0),
    setting: str | None = typer.Option(
        None,
        help="Cores and accelerators, such as cpu0-3+gpu0 or half; default all cores and gpu0.",
    ),
    threads: int | None = typer.Option(None, help="Threads of the framework; default the cores."),
    processes: int = typer.Option(
        1,
        help="Processes that train together, as torchrun starts them; a built-in model's (torch) "
        "share each batch, the cores and the accelerators.",
        min=1,
        max=64,
    ),
    out: Path = typer.Option(Path("runs"), help="Folder in which the run directory is made."),
    rate: float = typer.Option(10.0, help="Samples a second, 1 to 100."),
    timeout: float | None = typer.Option(None, help="Seconds after which the run is ended."),
    framework: str | None = typer.Option(
        None,
        help=f"{FRAMEWORK_NAMES} (default the first); a resumed run keeps its own.",
        autocompletion=complete_framework,
    ),
    python: str | None = typer.Option(
        None, help="Interpreter that has the framework; default its environment."
    ),
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
    quiet: bool = typer.Option(
        False, "--quiet", "-q", help="No progress line; what a script prints is in its log alone."
    ),
    live: bool = typer.Option(
        False, "--live", help="A live screen: curves, layers, keys to end, to trace, to mark."
    ),
    serve: bool = typer.Option(False, "--serve", help="A local web page that updates itself."),
    port: int | None = PORT,
    bind: str = BIND,
    as_json: bool = typer.Option(False, "--json", help="Print the result as JSON."),
    fake: str | None = typer.Option(None, hidden=True),
) -> int:
    """Run one training and measure it: time, loads, memory, energy, loss and quality.

    A script runs unchanged; its steps are recognised from its optimizer.

    Exit status: 0 completed, 1 the run ended otherwise (the outcome is printed), 2 usage.
    """
    from trainload.cli.viewer import Viewer
    from trainload.run import show_as_text
    from trainload.workload import parse_words

    serve = serve or port is not None
    if live:
        check_screen()
    named: dict[str, Any] = {
        "epochs": epochs,
        "batch_size": batch_size,
        "optimizer": optimizer,
        "learning_rate": learning_rate,
        "precision": precision,
        "data": data,
        "cache": None if cache is None else str(cache),
        "label_column": label_column,
        "group_column": group_column,
        "loader": loader,
        "loader_workers": loader_workers,
        "validate": validate,
        "top": None if top is None else parse_top(top),
    }
    options = {name: value for name, value in named.items() if value is not None}
    silent = quiet or as_json
    told = _told_by_file(model)
    what = told.get("what", model)
    options = {**parse_words(what, words), **options}
    fetched = (options.get(name, told.get(name)) for name in ("data", "cache"))
    _fetch_with_progress(*fetched, quiet=silent)
    page = ["--serve", "--bind", bind, *([] if port is None else ["--port", str(port)])]
    options_of_view = [*(page if serve else []), "--screen" if live else "--no-screen"]
    with (
        ProgressLine(quiet=silent) as line,
        Viewer(line, show_as_text(line), screen=live, options=options_of_view) as viewer,
    ):
        viewed = live or serve
        done = _run_told(
            context,
            told,
            what=what,
            arguments=arguments or (),
            framework=framework,
            setting=setting,
            threads=threads,
            seed=seed,
            resume=resume,
            save=save,
            save_every=save_every,
            layers=layers,
            layer_budget=layer_budget,
            processes=processes,
            out=out,
            rate_hz=rate,
            timeout_s=timeout,
            check_overhead=check_overhead,
            python=python,
            tegrastats=tegrastats,
            show=viewer if viewed else None if silent else show_as_text(line),
            echo=None if silent else viewer if viewed else line,
            stdin=None if live else _STDIN,
            fake=_parse_fake(fake),
            **options,
        )
    return print_result(
        done,
        python or told.get("python"),
        as_json=as_json,
        currency=defaults_of(context).currency,
    )


_STDIN = 0
"""A script reads what it would read without us, unless keys are the screen's."""


def _told_by_file(word: str | None) -> dict[str, Any]:
    """What a run file tells, where the word names one; nothing else."""
    if word is None or not word.endswith((".yaml", ".yml", ".xml")):
        return {}
    from trainload.study import run_file_keywords

    return run_file_keywords(word)


def _run_told(context: typer.Context, told: Mapping[str, Any], **said: Any) -> Run:
    """Run what the file tells; what stands on the command line wins over it."""
    from trainload.api.running import run

    options = {"rate_hz": "rate", "timeout_s": "timeout"}
    given = {"what", *(word.partition("=")[0].strip() for word in context.params["words"])}
    for name in set(told) - given:
        source = context.get_parameter_source(options.get(name, name))
        if source is None or source.name in ("DEFAULT", "DEFAULT_MAP"):
            said[name] = told[name]
    return run(**said)


def parse_top(text: str) -> tuple[int, ...]:
    """`1,5` as numbers."""
    from trainload.checked import parse_word

    numbers: tuple[int, ...] = parse_word(tuple[int, ...], text, "--top")
    return numbers


def _fetch_with_progress(data: str | None, cache: str | None, *, quiet: bool) -> None:
    """Fetch remote data with a line about how far it is; the workload finds it fetched."""
    from trainload.workload import FetchProgress, cache_folder, fetch_remote, is_address, split_word

    place = split_word(data)[1] if data is not None else None
    if quiet or place is None or not is_address(place):
        return

    def tell(progress: FetchProgress) -> None:
        line(
            f"fetching {place}: file {progress.files + 1} of {progress.total_files}, "
            f"{progress.fetched_bytes / 1e6:.0f} of {progress.total_bytes / 1e6:.0f} MB"
        )

    with ProgressLine() as line:
        fetch_remote(place, cache_folder(cache), tell)


def _parse_fake(text: str | None) -> dict[str, Any]:
    from trainload.errors import UsageError

    try:
        options = json.loads(text) if text else {}
    except ValueError as error:
        raise UsageError(f"--fake is no JSON: {error}") from None
    if not isinstance(options, dict):
        raise UsageError("--fake must be a JSON object")
    return options


def print_result(
    run: Run, python: str | None, *, as_json: bool, currency: Currency | None = None
) -> int:
    """Print how a run ended and what it measured; the exit status that this means."""
    from trainload.api.running import explain_silence

    _print_summary(run, as_json, currency)
    failure = explain_silence(run, python)
    if failure is not None:
        complain(failure)
    return 0 if run.outcome == "completed" else 1


def _print_summary(run: Run, as_json: bool, currency: Currency | None) -> None:
    from trainload.cli.show import print_first_screen, run_json
    from trainload.errors import TrainloadError
    from trainload.record.layout import WORKER_LOG
    from trainload.workload import RecordedScript

    summary = None
    try:
        if as_json:
            summary = run_json(run)[0]
        else:
            print_first_screen(run, currency=currency, ending=True)
    except (TrainloadError, KeyboardInterrupt) as error:
        # The run itself is safe on disk: reading it back is a convenience here.
        sys.stderr.write(f"note: no summary here: {str(error) or 'interrupted'}\n")
    manifest = run.manifest
    if as_json:
        document = {
            "path": str(run.path),
            "outcome": manifest.outcome,
            "outcome_reason": manifest.outcome_reason,
            "summary": summary,
        }
        typer.echo(json_text(document))
        return
    reason = f": {manifest.outcome_reason}" if manifest.outcome_reason else ""
    typer.echo(f"outcome: {manifest.outcome}{reason}")
    typer.echo(f"record:  {run.path}")
    if isinstance(manifest.workload, RecordedScript):
        typer.echo(f"output:  {run.path / WORKER_LOG}")
    typer.echo(f"more:    trainload show {run.path} --all")
