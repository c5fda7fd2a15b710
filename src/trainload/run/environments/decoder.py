"""Whether the worker can decode the images it is given; decodes none itself."""

from pathlib import Path

from trainload.errors import EnvironmentProblem
from trainload.run.environments.interpreters import read_versions
from trainload.run.request import RunRequest
from trainload.workload import Workload
from trainload_worker.protocol.data import ImageData

_PACKAGE = "pillow"
_FILES = ("folder", "subset")
_CACHED = "*.images"
"""Files of decoded images; with one of them there a run may need no decoder."""


def check_decoder(request: RunRequest) -> None:
    """EnvironmentProblem where image files must be decoded and the interpreter lacks Pillow.

    Where the cache has images already the worker finds out, since it alone can tell which.
    """
    workload = request.workload
    if not isinstance(workload, Workload) or not isinstance(workload.data, ImageData):
        return
    data = workload.data
    if data.kind not in _FILES or request.framework == "fake" or any(_cached(data)):
        return
    versions, problem = read_versions(request.python, [_PACKAGE])
    if problem is None and _PACKAGE not in versions:
        raise EnvironmentProblem(
            f"{data.path}: images in folders need Pillow, which {request.python} lacks; "
            f"install it: {request.python} -m pip install {_PACKAGE}"
        )


def _cached(data: ImageData) -> list[Path]:
    return list(Path(data.cache).expanduser().glob(_CACHED))
