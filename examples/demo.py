"""The whole story in two minutes on two cores: from the question whether it fits to one page.

`make demo` runs it. Every part prints the command that gives the same answer.
"""

from __future__ import annotations

import io
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

import trainload
from trainload.api.estimating.ranked import device_row
from trainload.api.reporting import find_runs, many_runs
from trainload.cli.app import run_app
from trainload.predict.money import Cost
from trainload.report.compare.wording import headline
from trainload.report.layers.wording import render_all_advice
from trainload.report.run.plots import plot_run
from trainload.report.run.view import RunView
from trainload.report.story import (
    StoryPart,
    cost_table,
    fit_table,
    printed_text,
    render_story,
    run_in_full,
    study_tables,
)
from trainload.units import render_seconds

DEVICES = ("rtx-4060", "t4", "a100-sxm4-80gb")
BATCH, EXAMPLES, EPOCHS = 128, 1_281_167, 90
RECOMMEND = f"recommend resnet50 --examples {EXAMPLES} --epochs {EPOCHS} --budget 500"
STUDY = """\
name: width-and-cores
workload: {model: mlp, epochs: 1, batch_size: 128, frames_fraction: 0.1, check_overhead: false}
factors:
  hidden_units: [128, 1024]
  setting: [one, all]
# In a hurry. Where figures matter repeat more often and leave the last two out: runs then wait
# for a quiet machine.
repetitions: 2
cool_down: false
other_load: false
"""


def main(folder: Path) -> None:
    """Tell every part on the terminal, and all of them on one page."""
    begun = time.perf_counter()
    folder.mkdir(parents=True, exist_ok=True)
    parts = [
        tell_fit(),
        tell_cost(),
        tell_run(folder),
        tell_study(folder),
        tell_printed("recommend", "Which to take?", RECOMMEND),
    ]
    parts.sort(key=lambda part: bool(part.views))  # the longest last
    page = folder / "report.html"
    lead = (
        f"ResNet-50 for {EPOCHS} epochs of {EXAMPLES:,} images, asked of three devices that are "
        "not here; then a small training and a study that were measured on this machine."
    )
    page.write_text(render_story("What does this training cost?", lead, parts), encoding="utf-8")
    print(f"\n{page.resolve()}  ({render_seconds(time.perf_counter() - begun)} in all)")


def tell_fit() -> StoryPart:
    words = ["estimate", "resnet50", "--batch", str(BATCH), "--device", ",".join(DEVICES)]
    with told("Will it fit?", words):
        found = trainload.estimate("resnet50", batch_size=BATCH, device=list(DEVICES))
        print(found.to_text())
    fitting = [one.device.title for one in found.fitting if one.device]
    return StoryPart(
        name="fit",
        question="Will it fit?",
        answer=f"{len(fitting)} of {len(found)} devices hold the step: {', '.join(fitting)}.",
        command=command_of(words),
        body=fit_table([device_row(one) for one in found]),
    )


def tell_cost() -> StoryPart:
    words = ["predict", "resnet50", "--batch", str(BATCH), "--device", ",".join(DEVICES)]
    words += ["--examples", str(EXAMPLES), "--epochs", str(EPOCHS)]
    with told("What would it cost?", words):
        found = trainload.predict(
            "resnet50", batch_size=BATCH, device=list(DEVICES), examples=EXAMPLES, epochs=EPOCHS
        )
        print(found.to_text())
    best = found[0]
    answer = "No time can be predicted."
    if best.training_s is not None:
        span = best.training_s
        answer = (
            f"Fastest is {best.device.title} with {render_seconds(span.value)} "
            f"({render_seconds(span.low)} to {render_seconds(span.high)})"
        )
        answer += f", for {best.cost.usd:,.0f} USD." if isinstance(best.cost, Cost) else "."
    return StoryPart(
        name="cost",
        question="What would it cost?",
        answer=answer,
        command=command_of(words),
        body=cost_table(list(found)),
    )


def tell_run(folder: Path) -> StoryPart:
    words = ["run", "mlp", "--layers", "--epochs", "3", "--batch-size", "128"]
    words += ["--set", "frames_fraction=0.3", "--out", str(folder / "runs")]
    call("Where does each second go?", words)
    run = trainload.load(max((folder / "runs").iterdir(), key=lambda path: path.stat().st_mtime))
    plots = plot_run(run, run.summary, run.attribution)
    view = RunView(
        run=run, summary=run.summary, plots=plots, anchor="run-1", layers=run.attribution
    )
    advice = [] if run.attribution is None else render_all_advice(run.attribution)
    step = f"A step took {render_seconds(run.summary.step_time.median_s)}"
    return StoryPart(
        name="run",
        question="Where does each second go?",
        answer=f"{step}; {advice[0]}" if advice else f"{step}, and no advice stands out.",
        command=command_of(words),
        body=run_in_full(view),
        views=(view,),
    )


def tell_study(folder: Path) -> StoryPart:
    file = folder / "study.yaml"
    file.write_text(STUDY, encoding="utf-8")
    words = ["study", "run", str(file), "--out", str(folder / "studies")]
    call("Do more cores help?", words)
    place = folder / "studies" / "width-and-cores"
    sides = [f"{place}:setting=one", f"{place}:setting=all"]
    compare = ["compare", *sides, "--layers", "0"]
    call("How much, and how sure is that?", compare)
    found = trainload.compare(sides[0], sides[1], layers=False)
    return StoryPart(
        name="study",
        question="Do more cores help, and how sure is that?",
        answer=f"From one core to all: {headline(found)}.",
        command=f"{command_of(words)}\n$ {command_of(compare)}",
        body=study_tables(many_runs(find_runs([place])), found),
    )


def tell_printed(name: str, question: str, command: str) -> StoryPart:
    """A part that stands on the page as it was printed."""
    words = command.split()
    text = call(question, words)
    first, _, rest = text.strip().partition("\n")
    return StoryPart(
        name=name,
        question=question,
        answer=first,
        command=command_of(words),
        body=printed_text(rest),
    )


def call(question: str, words: list[str]) -> str:
    """Run one verb of trainload in this process; what it printed. The demo ends where it fails."""
    printed = io.StringIO()
    with told(question, words):
        with redirect_stdout(printed):
            status = run_app(words)
        print(printed.getvalue(), end="")
    if status != 0:
        sys.exit(status)
    return printed.getvalue()


@contextmanager
def told(question: str, words: list[str]) -> Iterator[None]:
    """The question and its command before, the time it took behind."""
    print(f"\n=== {question}\n$ {command_of(words)}", flush=True)
    begun = time.perf_counter()
    yield
    print(f"    ({render_seconds(time.perf_counter() - begun)})", flush=True)


def command_of(words: list[str] | tuple[str, ...]) -> str:
    return shlex.join(["trainload", *words])


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo"))
