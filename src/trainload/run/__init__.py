"""Running: spawn the worker in its environment, sample the meters, write one run.

Part of the measuring wing: standard library and psutil, nothing heavier. Calling the room itself,
`trainload.run(…)`, is the Python surface's way to run one training.
"""

from trainload._callable_room import make_callable
from trainload.run.asking import ask_run, find_interpreter
from trainload.run.continuation import Continuation, plan_continuation, plan_validation
from trainload.run.driver import execute_run
from trainload.run.environments.choices import environments_folder
from trainload.run.environments.decoder import check_decoder
from trainload.run.environments.environment import (
    Environment,
    create_environment,
    explain_import,
    find_environment,
    list_environments,
    ready_interpreter,
    remove_environment,
    use_interpreter,
)
from trainload.run.environments.frameworks import FRAMEWORKS, find_framework
from trainload.run.environments.interpreters import check_import, inspect_interpreter
from trainload.run.environments.libraries import measure_libraries_bytes
from trainload.run.progress import render_progress, show_as_text
from trainload.run.recording import Recording, open_recording
from trainload.run.request import (
    RunProgress,
    RunRequest,
    RunResult,
    prepare_request,
    request_continuation,
    traces_layers_by_default,
)
from trainload.run.workers.op_trace import (
    BuildFunction,
    OpTraceRequest,
    OpTraceResult,
    follow_op_trace,
    parse_build,
    spawn_op_trace,
)

__all__ = [
    "FRAMEWORKS",
    "BuildFunction",
    "Continuation",
    "Environment",
    "OpTraceRequest",
    "OpTraceResult",
    "Recording",
    "RunProgress",
    "RunRequest",
    "RunResult",
    "ask_run",
    "check_decoder",
    "check_import",
    "create_environment",
    "environments_folder",
    "execute_run",
    "explain_import",
    "find_environment",
    "find_framework",
    "find_interpreter",
    "follow_op_trace",
    "inspect_interpreter",
    "list_environments",
    "measure_libraries_bytes",
    "open_recording",
    "parse_build",
    "plan_continuation",
    "plan_validation",
    "prepare_request",
    "ready_interpreter",
    "remove_environment",
    "render_progress",
    "request_continuation",
    "show_as_text",
    "spawn_op_trace",
    "traces_layers_by_default",
    "use_interpreter",
]

make_callable(__name__, "trainload.api.running", "run")
