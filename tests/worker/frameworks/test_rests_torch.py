"""Short steps of a torch program that are let pass unseen: what is still told, and what wakes."""

import itertools
import json
import weakref

import pytest
from own_calls import own_calls

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.framework("torch")

from torch import nn  # noqa: E402
from torch._dynamo import utils as compiler_utils  # noqa: E402

from trainload_worker.frameworks.torch import clock as clock_module  # noqa: E402
from trainload_worker.frameworks.torch import optimizer_steps as hook_module  # noqa: E402
from trainload_worker.frameworks.torch import probe as probe_module  # noqa: E402
from trainload_worker.frameworks.torch import script_phases as phases_module  # noqa: E402
from trainload_worker.frameworks.torch.clock import CudaStepClock  # noqa: E402
from trainload_worker.frameworks.torch.layers import LayerProbe  # noqa: E402
from trainload_worker.frameworks.torch.probe import RESTS, StepProbe  # noqa: E402
from trainload_worker.frameworks.torch.rests import Rests, has_pause  # noqa: E402
from trainload_worker.process.events import EventWriter  # noqa: E402
from trainload_worker.protocol.spec import LayersSpec  # noqa: E402
from trainload_worker.training import step_clocks  # noqa: E402

SHORT_S, LONG_S = 0.002, 0.02
SIZE = 8


class Training:
    """A program that is watched, by a clock which each of its steps moves on."""

    def __init__(self, events, probe):
        self.events, self.probe = events, probe
        self.now_s = 100.0
        self.model = nn.Linear(4, 2)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.losses, self.ends_s = [], []

    def read_clock(self):
        return self.now_s

    def train(self, steps, step_s=SHORT_S, sizes=(SIZE,), optimizer=None):
        optimizer = optimizer or self.optimizer
        for size in itertools.islice(itertools.cycle(sizes), steps):
            optimizer.zero_grad()
            loss = self.model(torch.randn(size, 4)).square().mean()
            loss.backward()
            self.now_s += step_s
            optimizer.step()
            self.losses.append(loss.item())
            self.ends_s.append(self.now_s)

    def validate(self, seconds=0.3):
        with torch.no_grad():
            self.model(torch.randn(SIZE, 4))
            self.now_s += seconds
            self.model(torch.randn(SIZE, 4))

    def told(self, kind):
        lines = map(json.loads, self.events.read_text().splitlines())
        return [line for line in lines if line["kind"] == kind]

    def column(self, name):
        return [one for line in self.told("steps") for one in line[name]]

    def seen(self, first=0):
        return sum(loss is not None for loss in self.column("loss")[first:])

    def validations(self):
        edges = [line for line in self.told("phase") if line["name"] == "validate"]
        return [(one["t_s"], two["t_s"]) for one, two in zip(edges[::2], edges[1::2], strict=True)]


@pytest.fixture(autouse=True)
def _nothing_compiled():
    """As in a process of its own: torch keeps what tests before have compiled."""
    compiler_utils.clear_compilation_metrics()


@pytest.fixture
def begin(tmp_path, monkeypatch):
    """Begins to watch a training; ended after the test."""
    path = tmp_path / "events.jsonl"
    writer = EventWriter(str(path))
    begun = []

    def make(rests=True):
        probe = StepProbe(writer, rests=rests)
        training = Training(path, probe)
        for module in (hook_module, phases_module, probe_module, step_clocks):
            monkeypatch.setattr(module, "monotonic", training.read_clock)
        probe.attach()
        begun.append(probe)
        return training

    yield make
    for probe in begun:
        probe.finish()
    writer.close()


def test_every_step_is_counted_and_timed_and_some_are_seen(begin):
    training = begin()
    training.train(2000)
    training.probe.finish()
    assert training.column("end_s") == training.ends_s[1:]
    assert training.column("examples") == [SIZE] * 1999
    told = training.column("loss")
    assert all(one in (None, true) for one, true in zip(told, training.losses[1:], strict=True))
    # All of the first half second, then 0.05 s of each.
    assert 250 + 0.08 * 1750 <= training.seen() <= 250 + 0.15 * 1750
    assert [line["words"] for line in training.told("probe_note")] == [RESTS]


def test_a_step_of_a_rest_calls_one_function_of_ours(begin):
    training = begin()
    training.train(300)
    assert own_calls(lambda: training.train(50)) == ["_on_step"] * 50


@pytest.mark.parametrize(("rests", "step_s"), [(None, SHORT_S), (False, SHORT_S), (True, LONG_S)])
def test_all_are_seen_of_long_steps_and_on_a_cpu(begin, rests, step_s):
    training = begin(rests)
    training.train(1000, step_s)
    training.probe.finish()
    assert training.seen() == 999 and not training.told("probe_note")


def test_batches_that_differ_are_all_seen(begin):
    training = begin()
    training.train(1000, sizes=(8, 8, 8, 5))
    training.probe.finish()
    assert training.column("examples") == [8, 8, 5, *[8, 8, 8, 5] * 249]


def test_validation_in_a_rest_is_a_phase(begin):
    training = begin()
    moments_s = []
    for _ in range(5):
        training.train(390)
        assert training.model.training and "__call__" not in nn.Linear.__dict__  # it rests
        training.model.eval()
        moments_s.append((training.now_s, training.now_s + 0.3))
        training.validate()
        training.model.train()
    training.train(100)
    training.probe.finish()
    assert training.validations() == moments_s
    assert training.column("end_s") == training.ends_s[1:]


def test_another_optimizer_ends_a_rest_and_its_steps_are_told_apart(begin):
    training = begin()
    training.train(300)
    second = torch.optim.SGD(training.model.parameters(), lr=0.01)
    training.train(10, optimizer=second)
    training.train(700)
    training.probe.finish()
    # The second leads from its fourth step on until the first comes back.
    assert len(training.column("end_s")) == 299 + 7 + 700
    assert training.column("end_s")[-700:] == training.ends_s[-700:]


def test_a_training_whose_optimizer_is_gone_goes_on_with_the_next(begin):
    training = begin()
    training.train(300)
    training.optimizer = None
    training.optimizer = torch.optim.SGD(training.model.parameters(), lr=0.02)
    training.train(600)
    training.probe.finish()
    assert training.column("end_s") == training.ends_s[1:]
    assert 0.05 < training.seen(first=549) / 350 < 0.35


def test_a_pause_that_nothing_explains_has_all_seen_until_the_next(begin):
    training = begin()
    training.train(300)
    training.now_s += 1.0
    training.train(1000)
    training.probe.finish()
    # All but the pause's own, which was the last of the rest.
    assert training.seen(first=300) == 999


def test_a_pause_without_a_phase_is_a_pause(begin):
    training = begin()
    training.train(300)
    training.now_s += 1.0
    training.train(500)
    training.now_s += 1.0
    training.train(1000)
    training.probe.finish()
    assert training.seen(first=799) < 0.35 * 1000


def test_a_pause_with_a_phase_ends_resting(begin):
    training = begin()
    training.train(300)
    for _ in range(3):
        # Without a word to the model that it is evaluated.
        training.model.training = False
        training.validate(seconds=1.0)
        training.model.training = True
        training.train(700)
    training.probe.finish()
    assert len(training.validations()) == 2
    assert training.seen(first=300) == 3 * 700 - 1


def test_whatever_ends_the_probe_leaves_torch_as_it_was(begin):
    backward, evaluate = torch.autograd.backward, nn.Module.eval
    training = begin()
    training.train(300)
    assert torch.autograd.backward is backward and nn.Module.eval is not evaluate
    training.probe.finish()
    assert torch.autograd.backward is backward and nn.Module.eval is evaluate
    assert "__call__" not in nn.Linear.__dict__
    assert training.column("end_s") == training.ends_s[1:]


def test_a_scaled_loss_is_not_held_in_a_rest(begin):
    training = begin()
    training.train(300)
    scaler = torch.amp.GradScaler("cpu")
    loss = training.model(torch.randn(SIZE, 4)).square().mean()
    scaled = scaler.scale(loss)
    held = weakref.ref(scaled)
    scaled.backward()
    del scaled, loss
    assert held() is None
    training.model.eval()  # ends the rest
    scaled = scaler.scale(training.model(torch.randn(SIZE, 4)).square().mean())
    scaled.backward()
    training.now_s += SHORT_S
    training.optimizer.step()
    training.probe.finish()
    assert training.column("loss")[-1] == pytest.approx(scaled.item() / scaler.get_scale())


def test_a_second_probe_in_the_process_ends_rests(begin):
    training = begin()
    training.train(300)
    assert "__call__" not in nn.Linear.__dict__
    second = begin()
    second.model, second.optimizer, second.now_s = training.model, training.optimizer, 200.0
    second.train(1000)
    second.probe.finish()
    training.probe.finish()
    steps = training.told("steps")
    # Both write to one file; each sees all of the thousand but for the second's first.
    assert sum(len(line["loss"]) for line in steps) == 299 + 1000 + 999
    told = [loss for line in steps if line["start_s"] >= 199 for loss in line["loss"]]
    assert told and None not in told


def test_steps_that_the_program_tells_itself_end_a_rest(begin):
    training = begin()
    training.train(300)
    training.probe.mark_step(torch.tensor(0.5))
    training.train(10)
    training.probe.finish()
    assert len(training.column("end_s")) == 300
    assert training.column("loss")[-1] == 0.5


def test_programs_that_compile_are_always_looked_at(begin):
    training = begin()
    twice = torch.compile(lambda x: x * 2, backend="eager")
    twice(torch.ones(3))
    training.train(1000)
    training.probe.finish()
    assert training.seen() == 999
    torch._dynamo.reset()


def test_windows_have_the_numbers_of_their_steps(tmp_path, monkeypatch):
    # Layers have a clock of their own, so that this one runs by the real one.
    monkeypatch.setattr(hook_module, "LEAST_REST_S", 0.005)
    monkeypatch.setattr(probe_module, "FLUSH_PERIOD_S", 0.2)
    writer = EventWriter(str(tmp_path / "events.jsonl"))
    steps = StepProbe(writer, rests=True)
    layers = LayerProbe(writer, LayersSpec(0.03, str(tmp_path), "window-{index}.json"))
    steps.attach()
    layers.attach()
    training = Training(tmp_path / "events.jsonl", steps)
    while len(training.told("window")) < 4 and len(training.losses) < 100_000:
        training.train(200)
    layers.finish()
    steps.finish()
    writer.close()
    assert len(training.column("end_s")) == len(training.losses) - 1
    assert training.seen() < len(training.losses) - 1
    numbers = {line["first_step"]: line for line in training.told("steps")}
    ends_s = {
        first + place: end_s
        for first, line in numbers.items()
        for place, end_s in enumerate(line["end_s"])
    }
    for window in training.told("window"):
        inside = range(window["first_step"], window["last_step"] + 1)
        assert all(window["begin_s"] < ends_s[step] <= window["end_s"] for step in inside)


class Event:
    """Of a device that is a tenth of a second behind its host and takes twice as long."""

    now_ms = 0.0

    def __init__(self, enable_timing=True):
        assert enable_timing
        self.at_ms = None

    def record(self, _stream):
        self.at_ms = Event.now_ms

    def query(self):
        return True

    def synchronize(self):
        pass

    def elapsed_time(self, other):
        return other.at_ms - self.at_ms


def test_steps_of_a_rest_on_a_device_end_at_the_host_s_pace_within_the_device_s_time(monkeypatch):
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "Stream", lambda _device: None)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _device: None)
    monkeypatch.setattr(clock_module, "monotonic", lambda: 5.0)
    Event.now_ms = 0.0
    clock = CudaStepClock("cuda:0")
    Event.now_ms = 100.0
    clock.mark(1.5)
    Event.now_ms = 500.0
    clock.mark_rested(20.0, [20.1, 20.3, 20.4])
    Event.now_ms = 600.0
    clock.mark(2.5)
    batch = clock.collect(drain=False)
    assert batch.end_s == pytest.approx([5.1, 5.2, 5.4, 5.5, 5.6])
    assert batch.loss == [1.5, None, None, None, 2.5]
    Event.now_ms = 700.0
    clock.mark_rested(20.5, [20.5])
    assert clock.collect(drain=False).end_s == pytest.approx([5.7])


def test_pauses_are_told_from_steps_that_vary():
    assert not has_pause([]) and not has_pause([9.0])
    assert not has_pause([0.001, 0.001, 0.04]) and not has_pause([0.01, 0.01, 0.09])
    assert has_pause([0.001, 0.001, 0.06]) and has_pause([0.01, 0.01, 0.11])


def test_a_pause_that_a_checkpoint_explains_asks_nothing():
    rests = Rests()
    rests.note_seen([0.001] * 9, 1)
    rests.note_rest([0.001, 0.9, 0.001], 2)
    assert rests.begin_s(10.0, 0.001) == pytest.approx(10.05)
    rests.note_rest([0.001, 0.9, 0.001], 2)
    assert rests.begin_s(10.0, 0.001) == float("inf")
