"""What a call of `trainload.run` asks for, as a request: interpreter, workload and setting found.

One reading of the keywords for the Python surface and for cells that come from elsewhere.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from trainload.errors import UsageError
from trainload.record import StudyCell
from trainload.run.continuation import plan_continuation
from trainload.run.environments.decoder import check_decoder
from trainload.run.environments.environment import ready_interpreter
from trainload.run.environments.frameworks import find_framework
from trainload.run.request import (
    RunRequest,
    prepare_request,
    request_continuation,
    traces_layers_by_default,
)
from trainload_worker.protocol.offers import DEFAULT_FRAMEWORK


def ask_run(
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
    fake: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    study: StudyCell | None = None,
    **options: Any,
) -> RunRequest:
    """The request that these keywords make, as `trainload.run` takes them.

    TrainloadError where something is missing or wrong: said before data is fetched or a directory
    made.
    """
    place = None if resume is None else Path(resume)
    name = None if what is None else str(what)
    request: Callable[..., RunRequest]
    if place is not None:
        planned = plan_continuation(place, name, options, arguments=arguments, seed=seed)
        chosen, traced = framework or planned.framework, False
        request = partial(request_continuation, planned)
    elif name is None:
        raise UsageError("name a model or a script, or a run to continue with --resume")
    else:
        chosen = framework or DEFAULT_FRAMEWORK
        traced = traces_layers_by_default(name, chosen)
        request = partial(prepare_request, name, options, arguments=arguments, seed=seed)
    interpreter = find_interpreter(chosen, python)
    wanted = request(
        setting=setting,
        threads=threads,
        out=Path(out),
        rate_hz=rate_hz,
        timeout_s=timeout_s,
        processes=processes,
        framework=chosen,
        python=interpreter,
        tegrastats_path=_check_tegrastats(tegrastats),
        check_overhead=check_overhead,
        layer_budget=layer_budget if (traced if layers is None else layers) else None,
        fake=dict(fake or {}),
        environment=dict(environment or {}),
        study=study,
        save=save or save_every is not None,
        save_every=save_every,
    )
    check_decoder(wanted)
    return wanted


def find_interpreter(framework: str, python: str | None = None) -> str:
    """The interpreter for the framework; says before anything starts what is missing or wrong."""
    if not find_framework(framework).distributions:
        return python or sys.executable
    return ready_interpreter(framework, python)


def _check_tegrastats(path: str | Path | None) -> str | None:
    if path is not None and not Path(path).exists():
        raise UsageError(f"--tegrastats {path}: no such program or file")
    return None if path is None else str(Path(path).resolve())
