"""Running: spawn the worker in its environment, sample the meters, write one run.

Part of the measuring wing: standard library and psutil, nothing heavier.
"""

from trainload.run.driver import execute_run
from trainload.run.environments import (
    FRAMEWORKS,
    Environment,
    check_import,
    create_environment,
    environments_folder,
    find_environment,
    inspect_interpreter,
    list_environments,
    remove_environment,
    use_interpreter,
)
from trainload.run.progress import render_progress
from trainload.run.request import (
    RunProgress,
    RunRequest,
    RunResult,
    prepare_request,
    traces_layers_by_default,
)

__all__ = [
    "FRAMEWORKS",
    "Environment",
    "RunProgress",
    "RunRequest",
    "RunResult",
    "check_import",
    "create_environment",
    "environments_folder",
    "execute_run",
    "find_environment",
    "inspect_interpreter",
    "list_environments",
    "prepare_request",
    "remove_environment",
    "render_progress",
    "traces_layers_by_default",
    "use_interpreter",
]
