"""`trainload.watch`: a training measured from inside its own process."""

import os
import subprocess
import sys
import textwrap

import pytest

import trainload
from trainload.analyse import summarise_run
from trainload.analyse.attribution import load_run_layers
from trainload.errors import RecordError, UsageError
from trainload.integrations.ranks import Rank, find_rank, join_run, offer_run, withdraw_run
from trainload.integrations.watch import Watch
from trainload.record import open_run
from trainload.report import render_html
from trainload.workload import RecordedWatch

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.framework("torch")


def train(steps, watched=None):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(torch.randn(8, 16)).square().mean()
        loss.backward()
        optimizer.step()
        if watched is not None:
            watched.step(loss)
        losses.append(loss.item())
    return losses


def test_steps_come_from_the_optimizer_and_layers_are_told_apart(tmp_path):
    with trainload.watch("tiny", out=tmp_path, config={"lr": 0.1}) as watched:
        losses = train(60)
    assert [x.hex() for x in losses] == [x.hex() for x in train(60)]
    run = open_run(watched.path)
    assert run.manifest.outcome == "completed", run.manifest.outcome_reason
    assert run.steps["step"].to_list() == list(range(1, 60))
    assert run.manifest.workload == RecordedWatch(model="tiny", watched={"lr": 0.1})
    layers = load_run_layers(run)
    assert [node.layer for node in layers.ranks[0].nodes] == ["", "0", "1", "2"]
    assert layers.ranks[0].cost.budget == 0.03
    summary = summarise_run(run)
    assert not any("finite" in warning for warning in summary.warnings)
    assert "tiny" in render_html(run, summary)


def test_told_steps_replace_those_of_the_optimizer_and_keep_their_loss(tmp_path):
    with trainload.watch(out=tmp_path, layers=False) as watched:
        losses = train(30, watched)
    run = open_run(watched.path)
    # The optimizer's first step has started the clock before the program told of any.
    assert run.steps["loss"].to_list() == losses
    assert load_run_layers(run) is None and run.manifest.layers is None


def test_an_error_goes_on_its_way_and_is_the_outcome(tmp_path):
    with pytest.raises(ZeroDivisionError), trainload.watch(out=tmp_path) as watched:
        train(5)
        1 / 0  # noqa: B018
    manifest = open_run(watched.path).manifest
    assert manifest.outcome == "failed" and "ZeroDivisionError" in manifest.outcome_reason
    with pytest.raises(KeyboardInterrupt), trainload.watch(out=tmp_path) as watched:
        raise KeyboardInterrupt
    assert open_run(watched.path).manifest.outcome == "interrupted"


def test_wrong_values_are_one_clear_line(tmp_path):
    with pytest.raises(UsageError, match="letters"):
        trainload.watch("../x", out=tmp_path)
    with pytest.raises(UsageError, match="JSON"):
        trainload.watch(config={"x": object()})
    with pytest.raises(UsageError, match="rate_hz must be a number"):
        trainload.watch(rate_hz="fast")
    with pytest.raises(UsageError, match="letters"):
        trainload.watch(3)
    with pytest.raises(UsageError, match="layer-budget"):
        trainload.watch(layer_budget=3)
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match="cannot make"), trainload.watch(out=tmp_path / "file"):
        pass
    assert not hasattr(trainload, "wach")


def test_ranks_find_the_directory_of_the_first_one(tmp_path, monkeypatch):
    assert find_rank() == Rank(number=0, count=1, group="")
    for name, value in {"RANK": "1", "WORLD_SIZE": "2", "MASTER_PORT": "1234"}.items():
        monkeypatch.setenv(name, value)
    rank = find_rank()
    assert (rank.number, rank.count) == (1, 2)
    with pytest.raises(RecordError, match="process 1 found no run"):
        join_run(rank, tmp_path, wait_s=0.1)
    offer_run(rank, tmp_path / "run-a")
    assert join_run(rank, tmp_path) == tmp_path / "run-a"
    withdraw_run(rank, tmp_path)
    assert os.listdir(tmp_path) == []


def test_two_processes_of_torchrun_leave_one_record(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        textwrap.dedent(
            """
            import sys, time
            import torch, trainload
            import torch.distributed as dist
            dist.init_process_group("gloo")
            torch.manual_seed(0)
            model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(16, 4))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            with trainload.watch("ddp", out=sys.argv[1]):
                for _ in range(40):
                    optimizer.zero_grad()
                    model(torch.randn(8, 16)).square().mean().backward()
                    optimizer.step()
            dist.barrier()
            dist.destroy_process_group()
            time.sleep(0.5)  # gloo's thread lets go of the last exchange
            """
        )
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [*command, "--nproc-per-node=2", script, tmp_path / "runs"],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    (path,) = (tmp_path / "runs").iterdir()
    run = open_run(path)
    assert run.manifest.outcome == "completed" and run.manifest.processes == 2
    assert run.steps_of(1).height == run.steps.height == 39
    ranks = load_run_layers(run).ranks
    assert [rank.rank for rank in ranks] == [0, 1]
    assert all("communication" in rank.parts for rank in ranks)


def test_ends_that_are_no_failures(tmp_path):
    with pytest.raises(SystemExit), trainload.watch(out=tmp_path) as watched:
        sys.exit(0)
    assert open_run(watched.path).manifest.outcome == "completed"

    def steps():
        with trainload.watch(out=tmp_path) as watched:
            while True:
                yield watched

    generator = steps()
    watched = next(generator)
    generator.close()
    assert open_run(watched.path).manifest.outcome == "interrupted"


def test_a_loss_that_is_no_number_is_missing_and_its_step_is_not(tmp_path):
    with trainload.watch(out=tmp_path, layers=False) as watched:
        for loss in (None, 1.5, torch.ones(3), "x", torch.tensor([2.5]), None):
            watched.step(loss)
    assert open_run(watched.path).steps["loss"].to_list() == [1.5, None, None, 2.5, None]


def test_two_at_once_give_a_line_and_both_their_records(tmp_path):
    with (
        trainload.watch("outer", out=tmp_path) as outer,
        pytest.warns(UserWarning, match="no layers here"),
        trainload.watch("inner", out=tmp_path) as inner,
    ):
        train(60)
    for watched, layered in ((outer, True), (inner, False)):
        run = open_run(watched.path)
        assert run.manifest.outcome == "completed" and run.steps.height == 59
        assert (load_run_layers(run) is not None) is layered


def test_a_warning_is_no_error_even_where_warnings_are(tmp_path, capsys):
    with trainload.watch(out=tmp_path), trainload.watch(out=tmp_path):
        pass
    assert "no layers here" in capsys.readouterr().err


def test_a_beginning_that_fails_leaves_nothing_running(tmp_path):
    class Silent(Watch):
        """Fails once the sampler runs."""

        def _start_sampler(self, recording):
            super()._start_sampler(recording)
            self.sampler = recording.sampling._process
            raise ZeroDivisionError

    watched = Silent(trainload.watch(out=tmp_path)._request, None)
    with pytest.raises(ZeroDivisionError), watched:
        pass
    manifest = open_run(watched.path).manifest
    assert manifest.outcome == "failed" and "could not begin" in manifest.outcome_reason
    assert watched.sampler.ended is not None
    with pytest.raises(UsageError, match="torch module"):
        trainload.watch(model="resnet")
    with pytest.raises(UsageError, match="with block"):
        trainload.watch().step()
