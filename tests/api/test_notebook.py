"""`%load_ext trainload` and the tour notebook, run by IPython itself in a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import trainload
from trainload.api.notebook import load_ipython_extension, unload_ipython_extension

TOUR = Path(__file__).parents[2] / "examples" / "tour.ipynb"
SOURCE = Path(trainload.__file__).parents[1]

RUN_CELLS = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
shown = []
for cell in json.load(open(sys.argv[1]))["cells"]:
    if cell["cell_type"] == "code":
        done = shell.run_cell(cell["source"])
        done.raise_error()
        html = getattr(done.result, "_repr_html_", lambda: None)()
        shown.append([cell["id"], html])
runs = [[name, shell.user_ns[name]._repr_html_()] for name in ("narrow", "wide")]
json.dump(shown + runs, open(sys.argv[2], "w"))
"""


class FakeShell:
    """As much of IPython as the extension touches."""

    def __init__(self):
        self.user_ns = {}
        self.magics_manager = SimpleNamespace(magics={"cell": {}})

    def register_magic_function(self, function, magic_kind, magic_name):
        self.magics_manager.magics[magic_kind][magic_name] = function

    def run_cell(self, cell):
        error = None
        try:
            exec(cell, self.user_ns)
        except BaseException as raised:  # noqa: BLE001 - as IPython does
            error = raised
        return SimpleNamespace(error_before_exec=None, error_in_exec=error)


@pytest.fixture
def magic():
    shell = FakeShell()
    load_ipython_extension(shell)
    yield shell, shell.magics_manager.magics["cell"]["trainload"]
    unload_ipython_extension(shell)
    assert shell.magics_manager.magics["cell"] == {}


TRAIN = """
import torch
weights = torch.zeros(4, requires_grad=True)
optimizer = torch.optim.SGD([weights], lr=0.1)
for _ in range(12):
    optimizer.zero_grad()
    (torch.ones(8, 4) @ weights - 1).square().mean().backward()
    optimizer.step()
"""


@pytest.mark.framework("torch")
def test_a_cell_is_a_run_and_keeps_its_variables(magic, tmp_path):
    pytest.importorskip("torch")
    shell, record = magic
    run = record(f"mine --out {tmp_path} --no-layers --as found", TRAIN)
    assert run is shell.user_ns["found"] and run.outcome == "completed"
    assert run.manifest.workload.model == "mine" and run.steps.height == 11
    assert shell.user_ns["weights"].shape == (4,)
    assert record(f"--out {tmp_path} --no-layers", "import torch\n1 / 0") is None
    failed = shell.user_ns["run"]
    assert failed.outcome == "failed" and "ZeroDivisionError" in failed.manifest.outcome_reason


def test_a_wrong_line_is_one_line_and_nothing_is_run(magic, tmp_path, capsys):
    shell, record = magic
    for line in ("--nope", "a b", "x --as 3x", "../x", "x --framework caffe", "'open"):
        assert record(line, "ran = True") is None
        assert capsys.readouterr().err.count("\n") == 1
    assert "ran" not in shell.user_ns


@pytest.mark.framework("torch")
def test_the_tour_runs_and_shows_its_answers(tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("IPython", reason="IPython is not installed")
    (tmp_path / "run_cells.py").write_text(RUN_CELLS)
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "IPYTHONDIR": str(tmp_path / "ipython")}
    done = subprocess.run(
        [sys.executable, "run_cells.py", str(TOUR), "shown.json"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=250, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "Run('tour-runs/narrow-" in done.stdout and "Run('tour-runs/wide-" in done.stdout
    shown = [html for _, html in json.loads((tmp_path / "shown.json").read_text()) if html]
    assert len(shown) == 7  # estimate, predictions, two tables, a comparison, two runs
    assert all("<script" not in html for html in shown)
    assert "examples/s" in shown[1] and "metric" in shown[4] and "completed" in shown[-1]


def test_the_tour_is_kept_without_what_it_showed():
    cells = json.loads(TOUR.read_text())["cells"]
    assert all(not c.get("outputs") and c.get("execution_count") is None for c in cells)
