"""What importing costs and shows: public names, no framework, no heavy library."""

import subprocess
import sys

import trainload

HEAVY = (
    "torch", "polars", "plotly", "rich", "typer", "numpy", "pynvml", "psutil",
    "keras", "lightning", "transformers", "accelerate", "optuna", "IPython",
    "trainload.integrations",
)  # fmt: skip


def loaded_after(statement):
    code = f"{statement}\nimport sys; print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_public_names():
    assert trainload.__all__ == [
        "Estimate", "Estimates", "HereAdvice", "Prediction", "Predictions", "Recommended", "Run",
        "Runs", "__version__", "book", "compare", "errors", "estimate", "history", "import_runs",
        "load", "load_all", "predict", "rank", "recommend", "recommend_here", "run", "watch",
        "watch_step",
    ]  # fmt: skip
    assert all(hasattr(trainload, name) for name in trainload.__all__)
    assert all(callable(getattr(trainload, name)) for name in ("run", "load", "estimate", "watch"))
    assert trainload.__version__.count(".") == 2


def test_importing_trainload_loads_nothing_heavy():
    assert not loaded_after("import trainload") & set(HEAVY)


def test_the_measuring_wing_loads_nothing_of_the_reading_wing():
    loaded = loaded_after("import trainload.run, trainload.run.sampling.sampler, trainload.meters")
    assert not loaded & {"torch", "polars", "plotly", "rich", "typer", "numpy"}
    assert not any(name.startswith(("trainload.analyse", "trainload.report")) for name in loaded)


def test_rooms_export_what_they_say():
    import importlib

    for room in (
        "workload",
        "hardware",
        "record",
        "meters",
        "run",
        "analyse",
        "estimate",
        "report",
        "study",
    ):
        module = importlib.import_module(f"trainload.{room}")
        assert module.__doc__ and all(hasattr(module, name) for name in module.__all__)
        assert list(module.__all__) == sorted(module.__all__, key=_isort_key)


def _isort_key(name):
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)
