"""A module handed over in Python: estimated in a fork, and left as it was."""

import os
import signal
import sys
import threading
import time

import pytest

from trainload.api import in_process
from trainload.api.estimating import estimate
from trainload.errors import UsageError, WorkloadError

torch = pytest.importorskip("torch", reason="a module needs torch")

BUILD = """
import torch
from torch import nn
from torch.nn.functional import cross_entropy


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.Sequential(
            nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(),
            nn.Linear(16 * 30 * 30, 64), nn.Dropout(), nn.ReLU(), nn.Linear(64, 10),
        )
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, rows):
        return self.parts(rows) * self.scale


def build(batch):
    model = Net()
    rows, labels = torch.randn(batch, 3, 32, 32), torch.zeros(batch, dtype=torch.int64)
    return model, lambda: cross_entropy(model(rows), labels)
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The file, and what its function builds in this process."""
    path = tmp_path_factory.mktemp("built") / "mine.py"
    path.write_text(BUILD)
    names = {"__name__": "mine"}
    exec(compile(BUILD, str(path), "exec"), names)
    return path, names["build"]


FIGURES = ("allocated_bytes", "reserved_bytes", "device_bytes", "needed_bytes")


@pytest.mark.parametrize("options", [{}, {"precision": "bf16", "optimizer": "sgd"}], ids=str)
def test_the_figures_are_those_of_the_build_function(built, options):
    path, build = built
    model, loss = build(16)
    here = estimate(model, loss=loss, batch_size=16, device="h200", **options)
    there = estimate(f"{path}:build", batch_size=16, device="h200", **options)
    for name in FIGURES:
        assert getattr(here, name) == getattr(there, name)
    assert here.memory.estimate.peak == there.memory.estimate.peak
    assert here.memory.parameters == there.memory.parameters == 922_795
    assert here.title == "Net" and here.verdict == there.verdict == "fits"


def test_on_a_processor_they_are_as_well(built):
    path, build = built
    model, loss = build(16)
    here = estimate(model, loss=loss, target="cpu").memory.ram
    assert here == estimate(f"{path}:build", batch_size=16, target="cpu").memory.ram


def test_the_module_and_torch_stay_as_they_were(built):
    model, loss = built[1](16)
    loss().backward()
    model.eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    gradients = {name: value.grad.clone() for name, value in model.named_parameters()}
    identities = [id(value) for value in (*model.parameters(), *model.buffers())]
    state = torch.random.get_rng_state()
    functions = (torch.nn.Module.__call__, torch.cuda.is_available, torch.nn.Module._apply)
    loaded, handlers = set(sys.modules), signal.getsignal(signal.SIGALRM)
    threads = torch.get_num_threads()
    with torch.no_grad():
        found = estimate(model, loss=loss, device="h200")
        assert not torch.is_grad_enabled()
    assert "evaluation mode" in found.memory.notes[-1]
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(torch.equal(v.grad, gradients[name]) for name, v in model.named_parameters())
    assert identities == [id(value) for value in (*model.parameters(), *model.buffers())]
    assert torch.equal(state, torch.random.get_rng_state()) and not model.training
    assert functions == (
        torch.nn.Module.__call__, torch.cuda.is_available, torch.nn.Module._apply,
    )  # fmt: skip
    assert not any("fake_step" in name for name in set(sys.modules) - loaded)
    assert signal.getsignal(signal.SIGALRM) is handlers and torch.get_num_threads() == threads
    assert loss().item() > 0


def test_a_module_that_was_trained_needs_what_a_new_one_needs(built):
    model, loss = built[1](8)
    new = estimate(model, loss=loss, device="h200")
    optimizer = torch.optim.Adam(model.parameters())
    loss().backward()
    optimizer.step()
    assert estimate(model, loss=loss, device="h200").needed_bytes == new.needed_bytes


def test_what_would_help_is_tried_but_for_other_batches(built):
    model, loss = built[1](8)
    found = estimate(model, loss=loss, device="h200", what_if=True)
    names = {one.name for one in found.memory.alternatives}
    assert names == {
        "bf16 autocast", "activation checkpointing", "sgd with momentum", "sgd without momentum",
    }  # fmt: skip
    assert found.memory.largest_batch is None and "my.py:build" in found.memory.notes[-1]
    assert "its own batch, float32, adam" in found.to_text()


def test_what_it_prints_is_not_seen(built, capfd):
    model, loss = built[1](4)

    def talking():
        sys.stdout.write("in the fork\n")
        os.write(2, b"in the fork\n")
        return loss()

    assert estimate(model, loss=talking).needed_bytes is not None
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (lambda: None, "the loss function gives nothing"),
        (lambda: 1 / 0, r"test_in_process.py line \d+: the forward pass raised ZeroDivisionError"),
        (lambda: torch.ones(3, requires_grad=True) * 1, "not one number"),
        (lambda: os._exit(3), "the worker that traces the step died"),
    ],
)
def test_a_loss_that_is_none_is_one_clear_line(loss, words):
    with pytest.raises(Exception, match=words) as caught:
        estimate(torch.nn.Linear(4, 4), loss=loss)
    assert "\n" not in str(caught.value)


def test_a_step_without_an_end_is_ended():
    def endless():
        while True:
            pass

    with pytest.raises(WorkloadError, match="no 2 steps within 1 s"):
        estimate(torch.nn.Linear(4, 4), loss=endless, limit_s=1)


def test_ctrl_c_ends_the_fork_too(tmp_path):
    alive = tmp_path / "alive"

    def waiting():
        alive.write_text(str(os.getpid()))
        time.sleep(60)

    def interrupt():
        while not alive.exists() or not alive.read_text():
            time.sleep(0.05)
        signal.raise_signal(signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        estimate(torch.nn.Linear(4, 4), loss=waiting)
    thread.join()
    with pytest.raises(ProcessLookupError):
        os.kill(int(alive.read_text()), 0)


def test_what_a_module_cannot_be_asked_is_said(built, monkeypatch):
    model, loss = built[1](4)
    for options, words in (
        ({}, "needs loss="),
        ({"loss": loss, "measure": True}, "goes to no other interpreter"),
        ({"loss": loss, "python": sys.executable}, "goes to no other interpreter"),
        ({"loss": loss, "counts_only": True}, "Net has to be traced"),
        ({"loss": loss, "classes": 3}, "only a built-in model takes options, not a Net"),
    ):
        with pytest.raises(UsageError, match=words):
            estimate(model, **options)
    monkeypatch.delattr(in_process.os, "fork")
    with pytest.raises(UsageError, match="this system does not offer"):
        estimate(model, loss=loss)


def test_a_fork_that_is_refused_is_one_clear_line(built, monkeypatch):
    model, loss = built[1](4)

    def refuse():
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(in_process.os, "fork", refuse)
    with pytest.raises(UsageError, match="cannot be forked"):
        estimate(model, loss=loss)
