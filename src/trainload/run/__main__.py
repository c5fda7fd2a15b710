"""The bare door: `python -m trainload.run mlp --set epochs=3`, with nothing but psutil installed.

For boards and locked images without the command line's libraries; the record it leaves is the
same, and is read elsewhere. Takes the workload by `--set` words, or a cell of a study as JSON.
"""

import argparse
import sys
from pathlib import Path

from trainload.errors import Terminated, TrainloadError
from trainload.run.cell import ended_with, file_cell, read_line, send_cell
from trainload.run.driver import execute_run
from trainload.run.environments.decoder import check_decoder
from trainload.run.progress import render_progress
from trainload.run.request import RunProgress, prepare_request, traces_layers_by_default
from trainload.run.workers.interrupts import signals_as_interrupts
from trainload.workload import parse_words
from trainload_worker.protocol.offers import DEFAULT_FRAMEWORK


def main() -> int:
    """Exit status 0 completed, 1 ended otherwise, 2 usage."""
    if "--request" in sys.argv[1:]:
        return _run_request(sys.argv[1:])
    parser = argparse.ArgumentParser(prog="python -m trainload.run", description=__doc__)
    parser.add_argument("model", help="model family, such as mlp, or the path of a script")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", dest="words")
    parser.add_argument("--setting", help="cores and accelerators, such as cpu0-1 or cpu0-3+gpu0")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--out", type=Path, default=Path("runs"))
    parser.add_argument("--rate", type=float, default=10.0, help="samples a second, 1 to 100")
    parser.add_argument("--timeout", type=float, help="seconds after which the run is ended")
    parser.add_argument("--processes", type=int, default=1, help="train in several")
    parser.add_argument("--layers", action=argparse.BooleanOptionalAction, help="trace layers")
    parser.add_argument("--layer-budget", type=float, default=0.03, help="share of the time")
    parser.add_argument("--seed", type=int, default=0)
    parser.epilog = "A script's own arguments stand at the end, after --."
    # argparse takes no such tail once options stand between it and the model's name.
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)
    options, arguments = parser.parse_args(words[:end]), words[end + 1 :]
    layers = options.layers
    if layers is None:
        layers = traces_layers_by_default(options.model, DEFAULT_FRAMEWORK)
    try:
        request = prepare_request(
            options.model,
            parse_words(options.model, options.words),
            arguments=arguments,
            seed=options.seed,
            setting=options.setting,
            threads=options.threads,
            out=options.out,
            rate_hz=options.rate,
            timeout_s=options.timeout,
            processes=options.processes,
            layer_budget=options.layer_budget if layers else None,
        )
        check_decoder(request)
        result = execute_run(request, _print_line)
    except TrainloadError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("error: interrupted\n")
        return 130
    if sys.stderr.isatty():
        sys.stderr.write("\n")
    sys.stdout.write(f"{result.outcome}{f': {result.reason}' if result.reason else ''}\n")
    sys.stdout.write(f"{result.path}\n")
    return 0 if result.outcome == "completed" else 1


def _run_request(words: list[str]) -> int:
    """One cell of a study; exit status 0 where it was run, whatever came of it, 2 where not."""
    parser = argparse.ArgumentParser(prog="python -m trainload.run", description=__doc__)
    parser.add_argument("--request", required=True, help="file of requests; - is standard input")
    parser.add_argument("--index", type=int, default=0, help="which line of the file")
    parser.add_argument("--out", type=Path, help="folder of runs the run ends up in")
    parser.add_argument("--arriving", type=Path, help="folder for the run until it is whole")
    options = parser.parse_args(words)
    try:
        if options.request != "-":
            if options.out is None or options.arriving is None:
                parser.error("a file of requests needs --out and --arriving")
            return file_cell(Path(options.request), options.index, options.out, options.arriving)
        stdin = sys.stdin.fileno()
        text = read_line(stdin)
        with signals_as_interrupts(), ended_with(stdin):
            return send_cell(text, sys.stdout.buffer)
    except (KeyboardInterrupt, Terminated):
        sys.stderr.write("error: interrupted\n")
        return 130


def _print_line(progress: RunProgress) -> None:
    if progress.warning:
        sys.stderr.write(f"\nwarning: {progress.warning}\n")
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{render_progress(progress, 110)}\033[K")


if __name__ == "__main__":
    sys.exit(main())
