"""trainload: what a neural-network training costs, where the cost goes, which choice is best.

    import trainload

    run = trainload.run("mlp", epochs=3, batch_size=128)
    run.summary.examples_per_s, run.steps, run.samples
    trainload.load_all("runs/*").table()
    trainload.compare("runs/before", "runs/after").metrics[0].verdict
    trainload.estimate("resnet50", batch_size=64, device="t4").fits

Importing it loads no framework and opens no device; each name is loaded when it is first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

from trainload._version import __version__

if TYPE_CHECKING:
    from trainload import errors
    from trainload.api.booking import book
    from trainload.api.comparing import compare
    from trainload.api.estimating import Estimate, Estimates, estimate
    from trainload.api.histories import history
    from trainload.api.importing import import_runs
    from trainload.api.loading import Run, Runs, load, load_all
    from trainload.api.predicting import Prediction, Predictions, predict
    from trainload.api.ranking import rank
    from trainload.api.recommending import HereAdvice, Recommended, recommend, recommend_here
    from trainload.api.running import run
    from trainload.integrations.stepping import watch_step
    from trainload.integrations.watch import watch

__all__ = [
    "Estimate",
    "Estimates",
    "HereAdvice",
    "Prediction",
    "Predictions",
    "Recommended",
    "Run",
    "Runs",
    "__version__",
    "book",
    "compare",
    "errors",
    "estimate",
    "history",
    "import_runs",
    "load",
    "load_all",
    "predict",
    "rank",
    "recommend",
    "recommend_here",
    "run",
    "watch",
    "watch_step",
]

_PLACES = {
    "Estimate": "trainload.api.estimating",
    "Estimates": "trainload.api.estimating",
    "HereAdvice": "trainload.api.recommending",
    "Prediction": "trainload.api.predicting",
    "Predictions": "trainload.api.predicting",
    "Recommended": "trainload.api.recommending",
    "Run": "trainload.api.loading",
    "Runs": "trainload.api.loading",
    "book": "trainload.api.booking",
    "compare": "trainload.api.comparing",
    "history": "trainload.api.histories",
    "import_runs": "trainload.api.importing",
    "load": "trainload.api.loading",
    "load_all": "trainload.api.loading",
    "rank": "trainload.api.ranking",
    "recommend_here": "trainload.api.recommending",
    "watch": "trainload.integrations.watch",
    "watch_step": "trainload.integrations.stepping",
}
_EXTENSION = {
    "load_ipython_extension": "trainload.api.notebook",
    "unload_ipython_extension": "trainload.api.notebook",
}
"""What `%load_ext trainload` looks for."""
_ROOMS = ("errors", "estimate", "predict", "recommend", "run")
"""Modules of that very name; all but `errors` are rooms that can be called."""


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used: importing trainload stays light."""
    if name in _ROOMS:
        return importlib.import_module(f"trainload.{name}")
    place = _PLACES.get(name) or _EXTENSION.get(name)
    if place is None:
        raise AttributeError(f"module 'trainload' has no attribute {name!r}")
    return getattr(importlib.import_module(place), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
