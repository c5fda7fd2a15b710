"""A script in several processes: one record of all ranks, however the run ends."""

import gzip
import json
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest
from living_processes import processes_of

from trainload.errors import RecordError, UsageError
from trainload.record import open_run
from trainload.run import execute_run, prepare_request
from trainload.run.workers.verdict import Ending, decide_outcome
from trainload_worker.protocol.events import End

pytest.importorskip("torch")
pytestmark = pytest.mark.framework("torch")

DDP = """
    import os
    import sys
    import time
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    assert dist.get_world_size() == 2 and os.environ["LOCAL_RANK"] == str(rank)
    torch.manual_seed(0)
    model = DistributedDataParallel(
        nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 4)))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    torch.manual_seed(rank)
    features, labels = torch.randn(64, 20), torch.randint(0, 4, (64,))
    for step in range(int(sys.argv[1])):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(features), labels)
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        if step % 20 == 0:
            print("loss", mean.item().hex(), flush=True)
    dist.barrier()
    del model, optimizer, loss
    dist.destroy_process_group()
    # gloo's thread lets go of the last exchange a moment later, which aborts once the interpreter
    # has begun to end ("terminate called without an active exception").
    time.sleep(0.5)
"""


@pytest.fixture
def prepare(tmp_path):
    def make(text, *arguments, **options):
        path = tmp_path / "train.py"
        path.write_text(textwrap.dedent(text))
        return prepare_request(
            str(path),
            {},
            arguments=arguments,
            out=tmp_path / "runs",
            processes=2,
            check_overhead=False,
            **options,
        )

    return make


def test_two_processes_of_one_training_make_one_record(prepare, monkeypatch):
    # As where another launcher has started this one: its words are about its own ranks.
    for name, value in (("RANK", "7"), ("WORLD_SIZE", "9"), ("MASTER_PORT", "1")):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    result = execute_run(prepare(DDP, "120", layer_budget=0.5))
    assert result.outcome == "completed", (result.reason, open_run(result.path).worker_log_tail())
    run = open_run(result.path)
    assert run.manifest.processes == 2 and run.manifest.training_completed
    assert run.steps_of(0).height == run.steps_of(1).height == 119
    assert run.steps_of(1).columns == run.steps.columns
    assert run.steps_of(1)["step_s"].min() > 0
    assert not list(run.path.glob("events*")) and not list(run.path.glob("window*"))
    assert sorted(run.traces) == [0, 1]
    for rank, path in run.traces.items():
        with gzip.open(path) as file:
            header = json.load(file)["trainload"]
        assert header["rank"] == rank and header["windows"] and header["modules"]
    lines = run.worker_log_tail(1000).splitlines()
    losses = [line.split()[-1] for line in lines if line.startswith("loss")]
    others = [line.split()[-1] for line in lines if line.startswith("[rank 1] loss")]
    assert losses == others and len(set(losses)) == 6
    # Both ranks and their launcher are in the tree that the meter sums up.
    assert run.samples["run_processes_count"].max() >= 3
    with pytest.raises(RecordError, match="has no rank 2"):
        run.steps_of(2)


def test_a_rank_that_raises_ends_the_one_that_waits_for_it(prepare, tmp_path):
    result = execute_run(
        prepare(
            """
            import torch.distributed as dist
            dist.init_process_group("gloo")
            if dist.get_rank() == 1:
                raise ValueError("boom")
            dist.barrier()
            """
        )
    )
    assert result.outcome == "failed"
    assert result.reason == "rank 1: ValueError: boom (script, train.py line 5)"
    assert "[rank1]: ValueError: boom" in open_run(result.path).worker_log_tail()
    assert not processes_of(tmp_path)


def test_a_rank_that_is_killed(prepare, tmp_path):
    killed = []

    def kill_one(progress):
        ready = list(tmp_path.rglob("ready-*"))
        if len(ready) == 2 and not killed:
            killed.append(next(int(p.read_text()) for p in ready if p.name == "ready-1"))
            os.kill(killed[0], signal.SIGKILL)

    result = execute_run(
        prepare(
            """
            import os, time
            folder = os.path.dirname(__file__)
            with open(os.path.join(folder, "part" + os.environ["RANK"]), "w") as file:
                file.write(str(os.getpid()))
            os.replace(file.name, os.path.join(folder, "ready-" + os.environ["RANK"]))
            time.sleep(60)
            """
        ),
        kill_one,
    )
    assert killed and result.outcome == "killed" and result.reason == "rank 1: killed by SIGKILL"
    assert open_run(result.path).manifest.outcome == "killed"
    assert not processes_of(tmp_path)


def test_ranks_that_hang_are_timed_out(prepare, tmp_path):
    result = execute_run(prepare("import time; time.sleep(60)", timeout_s=2.5))
    assert result.outcome == "timed_out" and "2.5 s of --timeout" in result.reason
    run = open_run(result.path)
    assert not run.manifest.training_completed
    assert run.steps.height == run.steps_of(1).height == 0
    assert not processes_of(tmp_path)


DRIVER = """
import sys
from pathlib import Path
from trainload.run import execute_run, prepare_request
result = execute_run(prepare_request(sys.argv[1], {}, arguments=["1000000"], processes=2,
    out=Path(sys.argv[2]), layer_budget=0.03))
print(result.outcome, "|", result.reason)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_the_driver_takes_all_ranks_along(tmp_path, number):
    path, out = tmp_path / "train.py", tmp_path / "runs"
    path.write_text(textwrap.dedent(DDP))
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(path), str(out)], stdout=subprocess.PIPE, text=True
    )
    deadline_s = time.monotonic() + 60
    while not all(
        any(b'"steps"' in p.read_bytes() for p in out.glob(f"*/{name}"))
        for name in ("events.jsonl", "events-r1.jsonl")
    ):
        assert time.monotonic() < deadline_s and driver.poll() is None
        time.sleep(0.05)
    driver.send_signal(number)
    output, _ = driver.communicate(timeout=30)
    run = open_run(next(out.iterdir()))
    if number == signal.SIGINT:
        assert output.strip() == "interrupted | Ctrl-C"
        assert run.manifest.outcome == "interrupted"
    else:
        assert run.manifest.outcome == "killed"
    assert run.steps.height > 0 and run.steps_of(1).height > 0
    while processes_of(tmp_path):
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("model", "processes", "words"),
    [
        ("train.py", 0, "must lie between 1 and 64"),
        ("train.py", 65, "must lie between 1 and 64"),
    ],
)
def test_what_cannot_run_in_several_processes_is_refused(tmp_path, model, processes, words):
    (tmp_path / "train.py").write_text("")
    name = str(tmp_path / model) if model.endswith(".py") else model
    with pytest.raises(UsageError, match=words):
        prepare_request(name, {}, out=tmp_path / "runs", processes=processes)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("event", "oom_kills", "expected"),
    [
        ({"outcome": "killed", "signal": 9}, 0, ("killed", "rank 1: it")),
        (
            {"outcome": "killed", "signal": 9},
            1,
            ("out_of_memory", "rank 1: the kernel killed it for want of memory"),
        ),
        ({"outcome": "killed", "signal": 15}, 1, ("killed", "rank 1: it")),
        ({"outcome": "out_of_memory"}, 0, ("out_of_memory", "rank 1: it")),
        ({"outcome": "interrupted"}, 0, ("interrupted", "rank 1: it")),
    ],
)
def test_the_launcher_s_word_is_the_outcome(event, oom_kills, expected):
    word = End(**event, rank=1, reason="rank 1: it")
    assert decide_outcome(Ending(exit_status=1, end_event=word, oom_kills=oom_kills)) == expected
