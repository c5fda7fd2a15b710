"""Windows in a torch training: what is named, what is recorded, and that nothing is disturbed."""

import gc
import json
import threading
import warnings

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.framework("torch")

from torch import nn  # noqa: E402

from trainload_worker.frameworks.torch.calls import ModelCalls  # noqa: E402
from trainload_worker.frameworks.torch.layers import LayerProbe  # noqa: E402
from trainload_worker.frameworks.torch.leader import Leader  # noqa: E402
from trainload_worker.frameworks.torch.modules import ModuleNames  # noqa: E402
from trainload_worker.frameworks.torch.parents import Parents  # noqa: E402
from trainload_worker.process.events import EventWriter  # noqa: E402
from trainload_worker.protocol.spec import LayersSpec  # noqa: E402
from trainload_worker.windows import thread_timer  # noqa: E402

UNTOUCHED = torch.autograd.backward


class Tied(nn.Module):
    """Two parts that share a weight, and an operation in place."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(16, 8)
        self.act = nn.ReLU(inplace=True)
        self.head = nn.Linear(8, 16, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        return self.head(self.act(self.embed(tokens)))


PLENTY = 1000.0
"""A budget within which every window fits, however short the training."""


@pytest.fixture(autouse=True)
def restless(monkeypatch):
    """Windows may follow each other at once: no driver is attached to."""
    monkeypatch.setattr("trainload_worker.frameworks.torch.layers.REST_S", 0.0)


@pytest.fixture
def probe(tmp_path):
    events = EventWriter(str(tmp_path / "events.jsonl"))
    probe = LayerProbe(events, LayersSpec(PLENTY, str(tmp_path), "window-{index}.json"))
    yield probe
    probe.finish()
    events.close()


def events_of(folder, kind):
    lines = (folder / "events.jsonl").read_text().splitlines()
    return [event for event in map(json.loads, lines) if event["kind"] == kind]


def ranges_of(folder, index):
    document = json.loads((folder / f"window-{index}.json").read_text())
    return [event["name"] for event in document["traceEvents"] if event["ph"] == "X"]


def train(model, steps, optimizer=None, loss=None):
    optimizer = optimizer or torch.optim.Adam(model.parameters())
    tokens = torch.arange(12) % 16
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        value = (loss or nn.functional.cross_entropy)(model(tokens), tokens)
        value.backward()
        optimizer.step()
        losses.append(value.item())
    return losses


def test_windows_hold_named_layers_loss_backward_and_the_ends_of_steps(probe, tmp_path):
    probe.attach()
    train(Tied(), 40, loss=nn.CrossEntropyLoss())
    probe.finish()
    windows = events_of(tmp_path, "window")
    assert [window["purpose"] for window in windows[:3]] == ["time", "memory", "time"]
    for window in windows:
        names = ranges_of(tmp_path, window["index"])
        used = range(window["first_step"] - 1, window["last_step"] + 1)
        assert {f"trainload.step:{step}" for step in used} <= set(names)
        assert {"layer:Tied:", "layer:Tied:embed", "layer:Tied:act", "layer:Tied:head"} <= set(
            names
        )
        assert {"loss:CrossEntropyLoss", "trainload.backward"} <= set(names)
        first, last = window["disturbed"]
        assert first < window["first_step"] <= window["last_step"] < last
        assert window["cost_s"] >= 0 and window["end_s"] > window["begin_s"]
    memory = (tmp_path / "window-1.json").read_text()
    assert "[memory]" in memory and "[memory]" not in (tmp_path / "window-0.json").read_text()


def test_the_table_counts_a_shared_parameter_once_with_its_gradient_and_state(probe, tmp_path):
    probe.attach()
    train(Tied(), 30)
    probe.finish()
    (table,) = [event["modules"] for event in events_of(tmp_path, "modules")]
    assert [row["layer"] for row in table] == ["", "embed", "act", "head"]
    embed, head = table[1], table[3]
    assert (embed["class"], embed["parameters"], embed["parameter_bytes"]) == (
        "Embedding",
        128,
        512,
    )
    assert embed["gradient_bytes"] == 512
    assert embed["optimizer_bytes"] == 2 * 512 + 4  # two moments and the number of steps
    assert (head["parameters"], head["gradient_bytes"], head["optimizer_bytes"]) == (0, None, None)


def test_losses_are_the_same_bit_for_bit_and_nothing_is_left_behind(probe):
    from torch.nn.modules import module as hooks

    torch.manual_seed(1)
    alone = train(Tied(), 40)
    torch.manual_seed(1)
    probe.attach()
    watched = train(Tied(), 40)
    probe.finish()
    assert [x.hex() for x in watched] == [x.hex() for x in alone]
    assert not hooks._global_forward_pre_hooks and not hooks._global_forward_hooks
    assert torch.autograd.backward.__module__ == "torch.autograd"
    assert not torch.autograd._profiler_enabled()


def test_a_program_s_own_profiler_takes_precedence(probe, tmp_path):
    from torch.profiler import ProfilerActivity, profile

    probe.attach()
    model = Tied()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train(model, 11, optimizer)  # a window is open now
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with profile(activities=[ProfilerActivity.CPU]) as own:
            train(model, 30, optimizer)
    assert len(own.events()) > 0
    (failure,) = events_of(tmp_path, "layers")
    assert failure["reason"] == "the program uses the profiler itself"
    assert not list(tmp_path.glob("window-*"))


def test_a_full_disk_ends_the_windows_and_not_the_training(tmp_path):
    events = EventWriter(str(tmp_path / "events.jsonl"))
    probe = LayerProbe(events, LayersSpec(PLENTY, str(tmp_path / "nowhere"), "window-{index}.json"))
    probe.attach()
    assert len(train(Tied(), 40)) == 40
    probe.finish()
    events.close()
    (failure,) = events_of(tmp_path, "layers")
    assert failure["state"] == "failed" and "is the disk full?" in failure["reason"]
    assert not torch.autograd._profiler_enabled()


def test_a_forward_pass_that_fails_leaves_the_ranges_in_order(probe, tmp_path):
    class Moody(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Tied()
            self.calls = 0

        def forward(self, tokens):
            self.calls += 1
            output = self.inner(tokens)
            if self.calls % 3 == 0:
                raise ArithmeticError("moody")
            return output

    probe.attach()
    model = Moody()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(40):
        try:
            train(model, 1, optimizer)
        except ArithmeticError:
            pass
    probe.finish()
    names = ranges_of(tmp_path, 1)
    assert "layer:Moody:inner.head" in names and not events_of(tmp_path, "layers")


def test_names_of_parts_called_before_their_model_of_strangers_and_of_twins():
    names = ModuleNames()
    model = nn.Sequential(Tied(), nn.Linear(16, 4))
    assert names.name(model[0], None) == "layer:Tied:"
    assert names.name(model, None) == "layer:Sequential:"
    assert names.name(model[0].head, "layer:Sequential:0") == "layer:Sequential:0.head"
    assert names.name(nn.ReLU(), "layer:Sequential:1") == "layer:Sequential:1.ReLU"
    twin = nn.Sequential(nn.Linear(2, 2))
    assert names.name(twin, None) == "layer:Sequential#2:"
    assert names.name(nn.MSELoss(), None) == "loss:MSELoss"
    assert [row["root"] for row in names.table([])].count("Sequential#2") == 2


def test_what_has_no_parameters_is_a_model_s_part_but_no_model():
    names = ModuleNames()
    flat, plain = nn.Sequential(nn.Flatten()), nn.BatchNorm1d(2, affine=False)
    assert names.name(flat, None) is None and names.name(plain, None) is None
    assert names.name(flat, None) is None and names.table([]) == []
    assert names.name(flat, "layer:Tied:") == "layer:Tied:Sequential"
    assert names.name(nn.LazyLinear(2), None) == "layer:LazyLinear:"


def test_operations_of_a_transform_are_in_no_layer(probe, tmp_path):
    class Shift(nn.Module):
        def forward(self, tokens):
            return (tokens + 16) % 16

    model, shift = Tied(), Shift()
    optimizer = torch.optim.Adam(model.parameters())
    probe.attach()
    for _ in range(20):
        shift(torch.arange(12))
        train(model, 1, optimizer)
    probe.finish()
    layers = {name for name in ranges_of(tmp_path, 0) if name.startswith("layer:")}
    assert layers == {"layer:Tied:", "layer:Tied:embed", "layer:Tied:act", "layer:Tied:head"}
    (table,) = events_of(tmp_path, "modules")
    assert {row["root"] for row in table["modules"]} == {"Tied"}


class Actors(nn.Module):
    """Parts that a program calls on their own."""

    def __init__(self):
        super().__init__()
        self.actor = nn.Sequential(nn.Embedding(16, 16))
        self.critics = nn.ModuleList([nn.Sequential(nn.Embedding(16, 1)), Tied(), Tied()])
        self.shared = nn.Linear(2, 2)


def test_parts_called_on_their_own_are_named_by_their_place_where_one_is_known():
    agent, other = Actors(), nn.Linear(2, 2)
    around = nn.DataParallel(agent)
    second = nn.ModuleList([agent.shared])
    parents = Parents()
    parents.note([around, second, *agent.modules()])
    names = ModuleNames(parents)
    assert names.name(agent.actor, None) == "layer:Actors.actor:"
    assert names.name(agent.critics[0], None) == "layer:Actors.critics.0:"
    assert names.name(agent.critics[1], None) == "layer:Tied:"
    assert names.name(agent.critics[2], None) == "layer:Actors.critics.2:"
    assert names.name(agent.shared, None) == "layer:Linear:"
    assert names.name(other, None) == "layer:Linear#2:"
    agent.actor = nn.Sequential(nn.Linear(2, 2))
    assert names.name(agent.actor, None) == "layer:Sequential:"


def test_the_parts_of_a_trained_model_have_their_names_in_it(probe, tmp_path):
    calls = ModelCalls(lambda *_: False, lambda: None)
    agent = Actors()
    optimizer = torch.optim.Adam(agent.parameters())
    calls.look(optimizer)
    calls.end()
    probe.attach()
    train(agent.actor, 20, optimizer)
    probe.finish()
    names = {name for name in ranges_of(tmp_path, 0) if name.startswith("layer:")}
    assert names == {"layer:Actors.actor:", "layer:Actors.actor:0"}


def test_the_table_tells_what_an_optimizer_changes():
    names, model, average = ModuleNames(), nn.Linear(2, 3), nn.Linear(2, 3)
    names.name(model, None)
    names.name(average, None)
    model.bias.requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    assert [row["updated"] for row in names.table([optimizer])] == [6, 0]


def test_a_name_is_not_inherited_with_a_memory_address():
    names = ModuleNames()
    for width in range(2, 40):
        module = nn.Linear(width, 1)
        assert names.name(module, None).startswith("layer:Linear")
        del module
        gc.collect()
    assert len(names.table([])) == 0


def test_wrappers_are_looked_through():
    names = ModuleNames()
    model = Tied()
    wrapped = nn.DataParallel(model)
    assert names.name(wrapped, None) == "layer:Tied:"
    assert names.name(model.embed, "layer:Tied:") == "layer:Tied:embed"


def test_names_that_would_break_the_trace_are_written_plainly(probe, tmp_path):
    model = nn.Sequential()
    model.add_module('a"b\\', nn.Embedding(16, 8))
    model.add_module("c\n\td", nn.Linear(8, 16))
    model.add_module("层", nn.ReLU())
    probe.attach()
    train(model, 20)
    probe.finish()
    names = ranges_of(tmp_path, 0)
    assert {"layer:Sequential:a_b_", "layer:Sequential:c__d", "layer:Sequential:U+5C42"} <= set(
        names
    )
    (table,) = events_of(tmp_path, "modules")[:1]
    assert [row["layer"] for row in table["modules"]] == ["", "a_b_", "c__d", "U+5C42"]


def test_a_model_may_name_its_own_things_as_torch_names_its_methods():
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.__dict__["modules"] = [nn.Linear(2, 2)]
            self.layers = nn.ModuleList(self.modules)

        def parameters(self):
            return [p for module in self.modules for p in module.parameters()]

    names, model = ModuleNames(), Own()
    assert names.name(model, None) == "layer:Own:"
    assert [row["parameters"] for row in names.table([])] == [0, 0, 6]


def test_parameters_without_a_shape_count_nothing_and_sparse_gradients_what_they_hold():
    model = nn.Sequential(nn.LazyLinear(3), nn.Embedding(100, 4, sparse=True))
    names = ModuleNames()
    names.name(model, None)
    model[1](torch.tensor([1, 2])).sum().backward()
    _, lazy, sparse = names.table([])
    assert lazy["parameters"] == 0 and lazy["gradient_bytes"] is None
    assert sparse["parameter_bytes"] == 1600
    assert sparse["gradient_bytes"] == 2 * 4 * 4 + 2 * 8  # two rows of floats, their two numbers


def test_a_first_group_without_parameters_and_optimizers_one_after_the_other(probe, tmp_path):
    probe.attach()
    for _ in range(3):
        model = Tied()
        groups = [{"params": []}, {"params": list(model.parameters())}]
        train(model, 12, torch.optim.SGD(groups, lr=0.1))
        gc.collect()
    probe.finish()
    assert not events_of(tmp_path, "layers")
    # Windows begin after ten steps: the second one is of a later optimizer.
    assert len(events_of(tmp_path, "window")) >= 2


@pytest.mark.parametrize(
    ("steps", "ends"),
    [
        ("dgdgdgdgdgdg", "d.d.d.d.d.d."),
        ("dddddgdddddgddddd", "ddddd.ddddd.ddddd"),
        # The maker of a GAN comes first: its critic takes the lead once, and gives it back.
        ("gdddddgdddddgdddddg", "g...ddg.....g.....g"),
        ("aaaaabbbbbaaaaabbbbbaaaaa", "aaaaa...bbaaaaa.....aaaaa"),
        ("aaaaaabbbbbbbbcccccccc", "aaaaaa...bbbbb...ccccc"),
        ("abcabcabcabcabcabc", "a..a..a..a..a..a.."),
        ("aabbccaabbccaabbcc", "aa....aa....aa...."),
        ("aaaa" + 5 * "b" + "a" + 40 * "b" + "a", "aaaa...bba" + 32 * "." + 8 * "b" + "a"),
    ],
)
def test_of_several_optimizers_the_first_leads_until_another_goes_on_alone(steps, ends):
    optimizers = {
        name: torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=0.1) for name in set(steps)
    }
    leader = Leader()
    found = [name if leader.ends_step(optimizers[name]) else "." for name in steps]
    assert "".join(found) == ends


def test_a_leader_that_is_gone_is_replaced_at_once():
    first, second = (torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=0.1) for _ in range(2))
    leader = Leader()
    assert leader.ends_step(first) and not leader.ends_step(second)
    del first
    gc.collect()
    assert leader.optimizer is None and leader.ends_step(second)


def test_an_optimizer_that_steps_after_steps_by_hand_is_followed(probe, tmp_path):
    probe.attach()
    for number in (1, 2, 3):
        probe.mark_step(number)
    train(Tied(), 40)
    probe.finish()
    assert [window["first_step"] > 3 for window in events_of(tmp_path, "window")][:2] == [True] * 2


def test_a_backward_that_the_program_puts_in_place_in_a_window_stays(probe):
    calls = []

    def own(*args, **kwargs):
        calls.append(1)
        return original(*args, **kwargs)

    model = Tied()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    probe.attach()
    train(model, 11, optimizer)
    original = torch.autograd.backward  # that of the window
    assert original.__module__ == "trainload_worker.frameworks.torch.tracer"
    torch.autograd.backward = own
    try:
        train(model, 20, optimizer)
        probe.finish()
        assert torch.autograd.backward is own
        train(model, 1, optimizer)
        assert len(calls) == 21
    finally:
        torch.autograd.backward = UNTOUCHED


def test_a_second_probe_of_a_process_leaves_the_tracing_to_the_first(probe, tmp_path):
    folder = tmp_path / "second"
    folder.mkdir()
    events = EventWriter(str(folder / "events.jsonl"))
    second = LayerProbe(events, LayersSpec(PLENTY, str(folder), "window-{index}.json"))
    probe.attach()
    second.attach()
    train(Tied(), 20)
    second.finish()
    train(Tied(), 20)
    probe.finish()
    events.close()
    assert "traces the layers of this process already" in second.refusal
    assert not events_of(folder, "window")
    assert not events_of(tmp_path, "layers") and len(events_of(tmp_path, "window")) >= 2
    third = LayerProbe(events, LayersSpec(PLENTY, str(folder), "window-{index}.json"))
    third.attach()
    assert third.refusal is None
    third.finish()


def test_a_profiler_that_ran_before_the_probe_is_told_of(probe, tmp_path):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        probe.attach()
        train(Tied(), 20)
    assert events_of(tmp_path, "layers")[0]["reason"] == "the program uses the profiler itself"


def test_a_module_left_by_an_interrupt_is_no_caller_in_the_next_window(probe, tmp_path):
    class Stubborn(Tied):
        stop = False

        def forward(self, tokens):
            if self.stop:
                raise KeyboardInterrupt
            return super().forward(tokens)

    model = Stubborn()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    probe.attach()
    train(model, 11, optimizer)
    model.stop = True
    with pytest.raises(KeyboardInterrupt):
        model(torch.arange(3))
    model.stop = False
    train(model, 8, optimizer)
    train(nn.Sequential(nn.Embedding(16, 16)), 4, optimizer)
    probe.finish()
    assert "layer:Sequential:" in ranges_of(tmp_path, 1)


def test_the_hosts_stacks_are_sampled_in_windows_of_time_alone(probe, tmp_path):
    probe.attach()
    train(Tied(), 60)
    probe.finish()
    windows = events_of(tmp_path, "window")
    timed = [window["index"] for window in windows if window["purpose"] == "time"]
    sampled = events_of(tmp_path, "host_stacks")
    assert [one["index"] for one in sampled] == timed
    for one, window in zip(sampled, [w for w in windows if w["purpose"] == "time"], strict=True):
        assert one["note"] is None
        steps = [step for step, *_ in one["marks"]]
        assert steps == list(range(window["disturbed"][0], window["last_step"] + 1))
        assert window["begin_s"] * 1e9 <= one["first_ns"] <= window["end_s"] * 1e9
    assert sum(one["taken"] for one in sampled) > 0
    # The training's own line stands in every stack, whatever torch does below it.
    functions = [
        {one["frames"][at][2] for at in stack} for one in sampled for stack in one["stacks"]
    ]
    assert all("train" in names for names in functions)


def test_a_training_in_another_thread_has_windows_but_no_stacks(probe, tmp_path):
    probe.attach()
    thread = threading.Thread(target=train, args=(Tied(), 30))
    thread.start()
    thread.join()
    probe.finish()
    assert events_of(tmp_path, "window")
    first = events_of(tmp_path, "host_stacks")[0]
    assert first["note"] == "the training does not run in the main thread"
    assert not events_of(tmp_path, "layers")


def test_nothing_ticks_after_a_window_whatever_ended_it(probe, tmp_path):
    def fail(_module, _tokens):
        raise KeyError("of the program")

    probe.attach()
    model = Tied()
    train(model, 11)
    assert thread_timer._ticking
    hook = model.register_forward_pre_hook(fail)
    with pytest.raises(KeyError):
        train(model, 1)
    hook.remove()
    probe.detach()
    assert not thread_timer._ticking
