"""A user's own script, unchanged: its steps are seen and its results are not touched."""

import subprocess
import sys
import textwrap

import polars as pl
import pytest

from trainload.analyse import summarise_run
from trainload.analyse.attribution import load_run_layers
from trainload.errors import UsageError, WorkloadError
from trainload.record import open_run
from trainload.report import render_html
from trainload.run import execute_run, prepare_request

pytest.importorskip("torch")
pytestmark = pytest.mark.framework("torch")

LOOP = """
    import sys
    import torch
    from torch import nn

    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(20, 64), nn.ReLU(inplace=True), nn.Dropout(0.1), nn.Linear(64, 4))
    optimizer = torch.optim.Adam(model.parameters())
    features, labels = torch.randn(256, 20), torch.randint(0, 4, (256,))
    for step in range(40):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(features), labels)
        loss.backward()
        optimizer.step()
        print(loss.item().hex())
"""


@pytest.fixture
def run_script(tmp_path):
    def run(text, *arguments, name="train.py", budget=None):
        path = tmp_path / name
        path.write_text(textwrap.dedent(text))
        wanted = prepare_request(
            str(path),
            {},
            arguments=arguments,
            out=tmp_path / "runs",
            check_overhead=False,
            layer_budget=budget,
        )
        return execute_run(wanted)

    return run


def test_steps_are_seen_and_losses_are_the_same_bit_for_bit(run_script, tmp_path):
    result = run_script(LOOP)
    assert result.outcome == "completed", result.reason
    alone = subprocess.run(
        [sys.executable, tmp_path / "train.py"], capture_output=True, text=True, check=True
    )
    assert (result.path / "worker.log").read_text() == alone.stdout
    assert alone.stdout.count("\n") == 40
    run = open_run(result.path)
    assert run.steps["step"].to_list() == list(range(1, 40))  # the first one starts the clock
    assert run.steps["step_s"].min() > 0
    assert [loss.hex() for loss in run.steps["loss"]] == alone.stdout.split()[1:]
    assert run.steps["examples"].to_list() == [256] * 39
    assert run.steps["tokens"].null_count() == 39
    summary = summarise_run(run)
    assert summary.steps == 39 and not any("finite" in w for w in summary.warnings)
    assert "train.py" in render_html(run, summary)
    assert run.manifest.workload.model == "train"
    assert len(run.manifest.workload.script.sha256) == 64


def test_gradient_accumulation_counts_once_and_a_second_optimizer_not_at_all(run_script):
    result = run_script(
        """
        import torch
        a, b = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
        first, second = torch.optim.SGD(a.parameters(), 0.1), torch.optim.AdamW(b.parameters())
        for step in range(12):
            first.zero_grad(); second.zero_grad()
            for _ in range(3):
                b(a(torch.randn(2, 4))).sum().backward()
            first.step()
            second.step()
        """
    )
    assert result.outcome == "completed", result.reason
    assert open_run(result.path).steps.height == 11


def test_a_closure_a_loader_with_workers_and_a_neighbour_module(run_script, tmp_path):
    (tmp_path / "neighbour.py").write_text("WIDTH = 4\n")
    result = run_script(
        """
        import sys
        import torch
        from neighbour import WIDTH
        from torch.utils.data import DataLoader, TensorDataset

        assert __name__ == "__main__" and sys.argv[1:] == ["--lr", "0.1"]
        model = torch.nn.Linear(WIDTH, 1)
        optimizer = torch.optim.LBFGS(model.parameters(), lr=float(sys.argv[2]), max_iter=2)
        data = TensorDataset(torch.randn(32, WIDTH), torch.randn(32, 1))
        for x, y in DataLoader(data, batch_size=8, num_workers=2):
            def closure():
                optimizer.zero_grad()
                loss = (model(x) - y).square().mean()
                loss.backward()
                return loss
            optimizer.step(closure)
        """,
        "--lr",
        "0.1",
    )
    assert result.outcome == "completed", result.reason
    assert open_run(result.path).steps.height == 3


@pytest.mark.parametrize(
    ("text", "outcome", "words"),
    [
        ("raise SystemExit(0)", "completed", None),
        ("raise SystemExit(7)", "failed", "exited with 7"),
        ("import sys; sys.exit('no data')", "failed", "exited with 'no data'"),
        ("x = 1\nraise ValueError('boom')", "failed", "ValueError: boom (script, train.py line 2)"),
        ("def f(:", "failed", "SyntaxError"),
        ("raise MemoryError", "out_of_memory", "MemoryError"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "killed", "SIGKILL"),
    ],
)
def test_endings_of_scripts_are_outcomes(run_script, text, outcome, words):
    result = run_script(text)
    assert result.outcome == outcome
    assert result.reason is None if words is None else words in result.reason
    assert open_run(result.path).steps.height == 0


@pytest.mark.parametrize("budget", [None, 0.03])
def test_a_probe_that_fails_leaves_the_training_alone(run_script, budget):
    result = run_script(
        """
        import torch
        from trainload_worker.frameworks.torch.probe import HostStepClock

        def broken(self, loss):
            raise RuntimeError("clock broke")

        model = torch.nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for step in range(6):
            if step == 3:
                HostStepClock.mark = broken
            model(torch.ones(1, 2)).sum().backward()
            optimizer.step()
        print("finished")
        """,
        budget=budget,
    )
    assert result.outcome == "completed", result.reason
    assert (result.path / "worker.log").read_text() == "finished\n"
    run = open_run(result.path)
    assert any("clock broke" in warning for warning in summarise_run(run).warnings)


def test_a_tracer_that_fails_leaves_the_training_alone_and_is_told(run_script):
    result = run_script(
        """
        import torch
        from trainload_worker.frameworks.torch.tracer import Tracer

        def broken(self, step):
            raise RuntimeError("tracer broke")

        Tracer.mark = broken
        model = torch.nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for step in range(40):
            model(torch.ones(1, 2)).sum().backward()
            optimizer.step()
        print("finished")
        """,
        budget=0.03,
    )
    assert result.outcome == "completed", result.reason
    assert (result.path / "worker.log").read_text().endswith("finished\n")
    run = open_run(result.path)
    assert run.steps.height == 39
    assert any("tracer broke" in warning for warning in summarise_run(run).warnings)


MANY_KINDS = """
    import torch
    from torch import nn
    from torch.utils.checkpoint import checkpoint

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
            self.lstm = nn.LSTM(16, 16, batch_first=True)
            self.act = nn.ReLU(inplace=True)
            self.norm = nn.LayerNorm(16)

        def forward(self, x):
            x = x + self.attention(x, x, x, need_weights=False)[0]
            return self.act(self.norm(self.lstm(x)[0]))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second, self.third = Block(), Block(), Block()
            self.head = nn.Linear(16, 4)

        def forward(self, x):
            x = checkpoint(self.first, x, use_reentrant=False)
            x = checkpoint(self.second, x, use_reentrant=True)
            return self.head(self.third(x).mean(dim=1))

    torch.manual_seed(0)
    model, critic = Model(), nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.1), nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters())
    other = torch.optim.SGD(critic.parameters(), lr=0.1)
    # Elsewhere torch raises at an LSTM in bf16.
    half = torch.ops.mkldnn._is_mkldnn_bf16_supported()
    for step in range(40):
        optimizer.zero_grad(); other.zero_grad()
        for _ in range(2):
            with torch.autocast("cpu", torch.bfloat16, enabled=half):
                loss = critic(model(torch.randn(4, 6, 16, requires_grad=True))).square().mean()
            (loss / 2).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step(); other.step()
        print(loss.item().hex())
"""


@pytest.mark.alone
def test_layers_of_many_kinds_are_told_apart_and_losses_stay_the_same(run_script, tmp_path):
    result = run_script(MANY_KINDS, budget=0.03)
    assert result.outcome == "completed", result.reason
    alone = subprocess.run(
        [sys.executable, tmp_path / "train.py"], capture_output=True, text=True, check=True
    )
    printed = (result.path / "worker.log").read_text().splitlines()
    # The allocator may say that it met memory older than the window.
    assert [line for line in printed if line.startswith(("0x", "-0x"))] == alone.stdout.split()
    run = open_run(result.path)
    assert run.manifest.layers.failure is None and run.manifest.layers.windows >= 1
    (rank,) = load_run_layers(run).ranks
    assert {node.root for node in rank.nodes} == {"Model", "Sequential"}
    times = {(node.root, node.layer): node for node in rank.nodes}
    for layer in ("first.attention", "second.lstm", "third.norm", "head"):
        node = times["Model", layer]
        assert node.forward_s > 0 and node.backward_s > 0 and node.memory.parameters > 0, layer
    assert times["Model", "third.act"].backward_s > 0  # works in place
    assert rank.explained_fraction > 0.8
    sums = rank.rows.group_by("step").agg(pl.col("time_s").sum())
    assert sums["time_s"].mean() == pytest.approx(rank.step_s, abs=2e-9)
    assert sum(rank.parts.values()) == pytest.approx(rank.step_s, abs=2e-9)


def test_words_for_the_other_kind_are_refused(tmp_path):
    with pytest.raises(WorkloadError, match="no such script"):
        prepare_request(str(tmp_path / "none.py"), {}, out=tmp_path)
    with pytest.raises(UsageError, match="after --"):
        prepare_request("train.py", {"epochs": 3}, out=tmp_path)
    with pytest.raises(UsageError, match="'--seed 7' is for the built-in models"):
        prepare_request("train.py", {}, seed=7, out=tmp_path)
    with pytest.raises(UsageError, match="only a script"):
        prepare_request("mlp", {}, arguments=["--epochs"], out=tmp_path)


def test_a_process_forked_after_a_window_ends_and_tells_nothing(run_script):
    text = (
        LOOP
        + """
    import os
    child = os.fork()
    if child == 0:
        sys.exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7, "as without us"
    """
    )
    result = run_script(text, budget=0.5)
    assert result.outcome == "completed", result.reason
    run = open_run(result.path)
    assert run.steps["step"].to_list() == list(range(1, 40))


def test_a_program_without_steps_is_told_so(run_script):
    run = open_run(run_script("import torch", budget=0.5).path)
    assert any("no step was seen" in warning for warning in summarise_run(run).warnings)
    run = open_run(run_script(LOOP.replace("range(40)", "range(5)"), budget=0.5).path)
    assert any("no layers: the training ended" in text for text in summarise_run(run).warnings)
