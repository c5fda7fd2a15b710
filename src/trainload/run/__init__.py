"""Running: spawn the worker in its environment, sample the meters, write one run.

Part of the measuring wing: standard library and psutil, nothing heavier.
"""

from trainload.run.driver import execute_run
from trainload.run.progress import render_progress
from trainload.run.request import (
    RunProgress,
    RunRequest,
    RunResult,
    prepare_request,
    traces_layers_by_default,
)

__all__ = [
    "RunProgress",
    "RunRequest",
    "RunResult",
    "execute_run",
    "prepare_request",
    "render_progress",
    "traces_layers_by_default",
]
