"""`trainload.run`: one measured training from Python, with values in place of words.

Chooses workload, framework and interpreter, and has the driver run it; prints nothing.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainload.errors import RecordError
from trainload.run import (
    RunProgress,
    RunResult,
    ask_run,
    execute_run,
    explain_import,
    find_framework,
    find_interpreter,
    plan_validation,
    request_continuation,
)

if TYPE_CHECKING:
    from trainload.api.loading import Run
    from trainload.record import StudyCell
    from trainload.run.workers.output import Echo

ShowProgress = Callable[[RunProgress], None]


def run(
    what: str | Path | None = None,
    *,
    arguments: Sequence[str] = (),
    framework: str | None = None,
    setting: str | None = None,
    threads: int | None = None,
    seed: int = 0,
    resume: str | Path | None = None,
    save: bool = False,
    save_every: int | None = None,
    layers: bool | None = None,
    layer_budget: float = 0.03,
    processes: int = 1,
    out: str | Path = "runs",
    rate_hz: float = 10.0,
    timeout_s: float | None = None,
    check_overhead: bool = True,
    python: str | None = None,
    tegrastats: str | Path | None = None,
    show: ShowProgress | None = None,
    echo: Echo | None = None,
    stdin: int | None = None,
    fake: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    study: StudyCell | None = None,
    **options: Any,
) -> Run:
    """Run one training and measure it; every ending is an outcome of the run that comes back.

    `what` is a built-in model's name, which `options` describe further (`batch_size=32`,
    `epochs=3`, `hidden_units=512`, `data="synthetic"`), or the path of a script, which `arguments`
    belong to; with `resume` it may be left out. `layers` is True for scripts of torch where it is
    not said. With `processes` a script runs in several at once, and a built-in model of torch is
    trained by several, which share each batch. `environment` holds variables for the training
    process. `show` is called about twice a second with how far the run is; `echo` takes what a
    script prints, while it runs, and `stdin` is the descriptor that it reads from; without one it
    finds nothing to read.

    TrainloadError where nothing can be started.
    """
    wanted = ask_run(
        what,
        arguments=arguments,
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
        rate_hz=rate_hz,
        timeout_s=timeout_s,
        check_overhead=check_overhead,
        python=python,
        tegrastats=tegrastats,
        fake=fake,
        environment=environment,
        study=study,
        **options,
    )
    return _opened(execute_run(wanted, show, echo=echo, stdin=stdin))


def validate(
    place: str | Path,
    *,
    data: str | None = None,
    cache: str | Path | None = None,
    top: Sequence[int] = (),
    framework: str | None = None,
    setting: str | None = None,
    threads: int | None = None,
    out: str | Path = "runs",
    timeout_s: float | None = None,
    python: str | None = None,
    show: ShowProgress | None = None,
) -> Run:
    """Score the checkpoint of a run or file on its validation rows, or on those of other data."""
    planned = plan_validation(
        Path(place), data=data, cache=None if cache is None else str(cache), top=tuple(top)
    )
    chosen = framework or planned.framework
    request = request_continuation(
        planned,
        setting=setting,
        threads=threads,
        out=Path(out),
        timeout_s=timeout_s,
        framework=chosen,
        python=find_interpreter(chosen, python),
        check_overhead=False,
        validate_only=True,
    )
    return _opened(execute_run(request, show))


def explain_silence(run: Run, python: str | None = None) -> str | None:
    """Why the worker never came as far as to name its framework's version; None where it did."""
    framework = run.manifest.framework
    if run.outcome not in ("failed", "killed") or "framework_version" in run.manifest.software:
        return None
    if framework is None or not find_framework(framework).modules:
        return None
    return explain_import(framework, find_interpreter(framework, python))


def _opened(result: RunResult) -> Run:
    """The run as read back; sealed at once where polars is installed, else at first reading.

    One that was interrupted is sealed at first reading too.
    """
    from trainload.api.loading import load

    # Who has pressed Ctrl-C once may press it again: a library half imported would not be undone.
    packs = result.outcome != "interrupted" and importlib.util.find_spec("polars") is not None
    try:
        return load(result.path, seal=packs)
    except RecordError:
        pass  # as on a full disk: the lines as they are tell of the run too
    return load(result.path, seal=False)
