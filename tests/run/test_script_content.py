"""What is seen of a user's own script: examples, tokens, loss, phases; updates by hand."""

import io
import subprocess
import sys
import textwrap

import pytest

from trainload.analyse import summarise_run
from trainload.analyse.attribution import load_run_layers
from trainload.analyse.attribution.machine import find_machine
from trainload.analyse.findings import NO_STEPS
from trainload.record import open_run
from trainload.report import render_summary
from trainload.run import execute_run, prepare_request

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.framework("torch")


@pytest.fixture
def run_script(tmp_path):
    def run(text, *, budget=None, processes=1):
        path = tmp_path / "train.py"
        path.write_text("import torch\ntorch.set_num_threads(1)\n" + textwrap.dedent(text))
        wanted = prepare_request(
            str(path),
            {},
            out=tmp_path / "runs",
            check_overhead=False,
            layer_budget=budget,
            processes=processes,
        )
        result = execute_run(wanted)
        log = (result.path / "worker.log").read_text()
        assert result.outcome == "completed", f"{result.reason}\n{log}"
        return open_run(result.path)

    return run


def text_of(run):
    from rich.console import Console

    console = Console(width=200, record=True, file=io.StringIO())
    console.print(render_summary(summarise_run(run), run.manifest))
    return console.export_text()


def test_accumulated_batches_add_up_and_so_does_their_loss(run_script):
    run = run_script(
        """
        model = torch.nn.Linear(4, 4)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for step in range(12):
            optimizer.zero_grad()
            total = 0.0
            for size in (2, 2, 1):
                loss = model(torch.ones(size, 4)).square().mean() / 3
                loss.backward()
                total += loss.item()
            optimizer.step()
            print(total.hex())
        """
    )
    assert run.steps["examples"].to_list() == [5] * 11
    printed = (run.path / "worker.log").read_text().split()
    assert [loss.hex() for loss in run.steps["loss"]] == printed[1:]


def test_tokens_and_names_of_hugging_face_and_what_a_scaler_multiplied(run_script):
    run = run_script(
        """
        class Language(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.table, self.head = torch.nn.Embedding(50, 8), torch.nn.Linear(8, 50)

            def forward(self, labels=None, input_ids=None):
                logits = self.head(self.table(input_ids))
                return {"loss": torch.nn.functional.cross_entropy(logits.mT, labels)}

        torch.manual_seed(0)
        model = Language()
        optimizer = torch.optim.AdamW(model.parameters())
        scaler = torch.amp.GradScaler("cpu")
        for step in range(10):
            batch = {"labels": torch.zeros(3, 7, dtype=torch.long),
                     "input_ids": torch.ones(3, 7, dtype=torch.long)}
            optimizer.zero_grad()
            loss = model(**batch)["loss"]
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        """
    )
    assert run.steps["examples"].to_list() == [3] * 9
    assert run.steps["tokens"].to_list() == [21] * 9
    assert 0 < run.steps["loss"].max() < 5
    summary = summarise_run(run)
    assert summary.tokens_per_s == pytest.approx(7 * summary.examples_per_s)


def test_of_two_models_that_of_the_leading_optimizer_counts(run_script):
    run = run_script(
        """
        critic, maker = torch.nn.Linear(8, 1), torch.nn.Linear(2, 8)
        first = torch.optim.Adam(critic.parameters())
        second = torch.optim.Adam(maker.parameters())
        for step in range(10):
            made = maker(torch.randn(6, 2))
            first.zero_grad()
            critic(torch.randn(6, 8)).mean().backward()
            critic(made.detach()).mean().backward()
            first.step()
            second.zero_grad()
            (critic(made).mean() + 100).backward()
            second.step()
        """
    )
    assert run.steps["examples"].to_list() == [12] * 9  # six real and six made
    assert run.steps["loss"].abs().max() < 50


PHASES = """
    import sys
    from torch.utils.data import DataLoader, TensorDataset

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5))

        def forward(self, x):
            return self.body(x)

    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.Adam(model.parameters())
    loader = DataLoader(TensorDataset(torch.randn(32, 8)), batch_size=4, shuffle=True)
    for epoch in range(3):
        model.train()
        for (x,) in loader:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            print(loss.item().hex())
        model.eval()
        with torch.no_grad():
            for (x,) in loader:
                model(x)
        torch.save(model, f"{sys.argv[0]}.pt")
        torch.save(optimizer.state_dict(), f"{sys.argv[0]}.state")
    print([name for name in vars(model) if not name.startswith("_")], model._forward_pre_hooks)
"""


def test_phases_are_told_apart_and_what_is_saved_is_the_program_s_own(run_script, tmp_path):
    run = run_script(PHASES)
    saved = (tmp_path / "train.py.pt").read_bytes()
    alone = subprocess.run(
        [sys.executable, tmp_path / "train.py"], capture_output=True, text=True, check=True
    )
    assert (run.path / "worker.log").read_text() == alone.stdout
    assert saved == (tmp_path / "train.py.pt").read_bytes()
    told = {phase.name: phase for phase in summarise_run(run).phases}
    assert {name: phase.count for name, phase in told.items()} == {
        "prepare": 1,
        "validate": 3,
        "checkpoint": 6,
    }
    assert all(phase.total_s > 0 for phase in told.values())
    assert run.steps["examples"].to_list() == [4] * 23
    text = text_of(run)
    assert "validate" in text and "checkpoint" in text and "examples/s (of the median step)" in text


AVERAGED = """
    import copy
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    average, teacher = {average}, copy.deepcopy(model).eval()
    called = {called}
    for step in range(1, 31):
        with torch.no_grad():
            aim = teacher(torch.ones(3, 4))
        optimizer.zero_grad()
        (called(torch.ones(5, 4)).mean() - aim.mean()).square().backward()
        optimizer.step()
        if step % 10 == 0:
            average.eval()
            with torch.no_grad():
                for _ in range(3):
                    average(torch.ones(7, 4))
"""


@pytest.mark.parametrize(
    ("average", "called"),
    [
        ("copy.deepcopy(model)", "model"),
        ("torch.optim.swa_utils.AveragedModel(model)", "model"),
        ("torch.optim.swa_utils.AveragedModel(model)", "torch.compile(model, backend='eager')"),
    ],
)
def test_validation_by_an_average_is_a_phase_and_a_teacher_in_each_step_is_none(
    run_script, average, called
):
    run = run_script(AVERAGED.format(average=average, called=called))
    told = {phase.name: phase.count for phase in summarise_run(run).phases}
    assert (told["prepare"], told["validate"]) == (1, 3)
    assert run.steps["examples"].to_list() == [5] * 29


HAND_WRITTEN = """
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    for step in range({steps}):
        loss = model(torch.ones(5, 4)).square().mean()
        {zero}
        loss.backward()
        for p in model.parameters():
            p.data.add_(p.grad, alpha=-0.01)
        print(loss.item().hex())
"""


@pytest.mark.parametrize("zero", ["model.zero_grad()", "model.zero_grad(set_to_none=False)"])
@pytest.mark.parametrize("steps", [6, 40])
def test_updates_by_hand_are_steps_and_it_is_said(run_script, zero, steps):
    run = run_script(HAND_WRITTEN.format(zero=zero, steps=steps))
    printed = (run.path / "worker.log").read_text().split()
    # The first pass is waited for an optimizer after, the second starts the clock.
    assert [loss.hex() for loss in run.steps["loss"]] == printed[2:]
    assert run.steps["examples"].to_list() == [5] * (steps - 2)
    assert run.manifest.model.step_marks == "backward"
    assert "each backward pass counts as a step" in text_of(run)


def test_layers_of_updates_by_hand_are_traced(run_script):
    text = HAND_WRITTEN.format(zero="model.zero_grad()", steps=80)
    run = run_script(text, budget=0.5)
    assert run.manifest.layers.failure is None and run.manifest.layers.windows >= 1


def test_long_accumulation_before_the_first_step_is_no_update_by_hand(run_script):
    run = run_script(
        """
        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for step in range(4):
            for _ in range(30):
                model(torch.ones(5, 4)).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        """
    )
    assert run.manifest.model.step_marks is None
    assert run.steps["examples"].to_list() == [150] * 3


def test_closures_are_evaluated_inside_of_a_step_and_the_first_counts(run_script):
    run = run_script(
        """
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=20)
        data, losses = torch.randn(7, 4), []

        def closure():
            optimizer.zero_grad()
            loss = model(data).square().mean() + 1
            loss.backward()
            losses.append(loss.item())
            return loss

        for step in range(4):
            first = len(losses)
            optimizer.step(closure)
            assert len(losses) - first > 12
            print(losses[first].hex())
        """
    )
    assert run.manifest.model.step_marks is None
    printed = (run.path / "worker.log").read_text().split()
    assert [loss.hex() for loss in run.steps["loss"]] == printed[1:]
    assert run.steps["examples"].to_list() == [7] * 3


def test_backward_passes_before_an_optimizer_are_no_steps_beside_its_own(run_script):
    by_optimizer = """
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for step in range(60):
        optimizer.zero_grad()
        model(torch.ones(3, 4)).square().mean().backward()
        optimizer.step()
    """
    by_hand = HAND_WRITTEN.format(zero="model.zero_grad()", steps=30)
    run = run_script(by_hand + by_optimizer)
    assert run.steps["examples"].to_list() == [3] * 59
    # One number is that of the first, whose start was not seen.
    assert run.steps["step"].to_list() == list(range(31, 90))
    assert run.manifest.model.step_marks == "optimizer"
    assert "29 backward passes before an optimizer's first step are no steps here" in text_of(run)


FOLDS = """
    kept = []
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body = torch.nn.Linear(4, 1)
        def forward(self, x):
            return self.body(x)
    def wrapped():
        return {model}
    for fold in range(14):
        model = wrapped()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        {keep}
        for step in range({steps}):
            optimizer.zero_grad()
            model(torch.ones(5, 4)).mean().backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            model(torch.ones(5, 4))
"""


def test_each_of_many_folds_is_seen(run_script):
    run = run_script(FOLDS.format(model="Net()", keep="", steps=10))
    examples = run.steps["examples"].to_list()
    assert len(examples) == 139
    # Of each fold after the first, the first step is that of a model nobody has seen yet.
    assert examples.count(5) == 139 - 13
    told = {phase.name: phase.count for phase in summarise_run(run).phases}
    assert told["validate"] == 14
    assert run.manifest.model.probe_notes == ()


def test_optimizers_that_live_on_lead_one_after_the_other(run_script):
    run = run_script(FOLDS.format(model="Net()", keep="kept.append(optimizer)", steps=10))
    assert run.steps.height == 9 + 13 * 7
    assert run.steps["examples"].null_count() == 13


def test_models_are_not_looked_for_without_end_and_it_is_said(run_script):
    # Each of a class of its own, and gone after a step: none is ever found in time.
    run = run_script(FOLDS.format(model='type("Of", (Net,), {})()', keep="", steps=1))
    assert run.steps.height == 13
    (note,) = run.manifest.model.probe_notes
    assert "no call of a model was found in 8 searches" in note


def test_where_no_step_is_found_the_first_line_says_what_to_do(run_script):
    run = run_script("print('nothing to see')")
    first = text_of(run).splitlines()[0]
    assert NO_STEPS[:60] in first and first.startswith("completed, but no step was seen")


def test_what_cannot_be_seen_is_a_note_and_no_harm(run_script):
    run = run_script(
        """
        from trainload_worker.frameworks.torch.content import StepContent

        def broken(self, args, kwargs):
            raise RuntimeError("content broke")

        StepContent.note_call = broken
        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for step in range(8):
            model(torch.ones(5, 4)).mean().backward()
            optimizer.step()
        """
    )
    assert run.steps.height == 7
    assert any("content broke" in text for text in summarise_run(run).warnings)


def test_ranks_add_up(run_script):
    run = run_script(
        """
        import time
        import torch.distributed as dist
        dist.init_process_group("gloo")
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for step in range(20):
            optimizer.zero_grad()
            model(torch.ones(4 + dist.get_rank(), 4)).mean().backward()
            optimizer.step()
        del model, optimizer
        dist.destroy_process_group()
        # gloo's thread lets go of the last exchange a moment later, which aborts once the
        # interpreter has begun to end.
        time.sleep(0.5)
        """,
        processes=2,
    )
    summary = summarise_run(run)
    rates = []
    for rank, size in ((0, 4), (1, 5)):
        steps = run.steps_of(rank)
        assert steps["examples"].to_list() == [size] * 19
        rates.append((steps["examples"] / steps["step_s"])[1:].median())
    assert summary.examples_per_s == pytest.approx(sum(rates), rel=0.2)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_losses_of_a_device_are_the_script_s_own_unless_it_changes_them(run_script):
    run = run_script(
        """
        torch.manual_seed(0)
        model = torch.nn.Linear(64, 64, device="cuda")
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        losses = []
        for step in range(200):
            optimizer.zero_grad()
            for _ in range(2):
                loss = model(torch.randn(8, 64, device="cuda")).square().mean() / 2
                loss.backward()
                losses.append(loss.detach().clone())
            if step == 100:
                loss.mul_(0)
            optimizer.step()
        pairs = torch.stack(losses).view(-1, 2).tolist()
        print(*((a + b).hex() for a, b in pairs))
        """
    )
    printed = (run.path / "worker.log").read_text().split()
    found = [None if loss is None else loss.hex() for loss in run.steps["loss"]]
    assert found == [*printed[1:100], None, *printed[101:]]
    assert run.steps["examples"].to_list() == [16] * 199


@pytest.mark.alone
def test_what_the_host_does_between_operations_is_named_by_its_line(run_script):
    run = run_script(
        """
        import time
        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        def busy_line():
            end = time.perf_counter() + 0.004
            while time.perf_counter() < end:
                pass
        for step in range(60):
            for _ in range(2):
                model(torch.ones(5, 4)).mean().backward()
                busy_line()
            optimizer.step()
            optimizer.zero_grad()
            time.sleep(0.004)
        """,
        budget=0.5,
    )
    (rank,) = load_run_layers(run).ranks
    assert rank.explained_fraction > 0.95
    assert sum(rank.parts.values()) == pytest.approx(rank.step_s)
    for part in ("python", "idle: host"):
        told = sum(one.time_s for one in rank.host if one.part == part)
        assert told == pytest.approx(rank.parts.get(part, 0.0))
    script = [one for one in rank.host if one.what == "script" and one.part == "python"]
    by_function = {}
    for one in script:
        assert one.file == "train.py"
        by_function[one.function] = by_function.get(one.function, 0.0) + one.time_s
    # Twice as long at the busy line as asleep at the last one, whatever else the machine does.
    shares = {name: time_s / rank.step_s for name, time_s in by_function.items()}
    assert shares["busy_line"] > shares["<module>"] > 0.1
    asleep = max((one for one in script if one.function == "<module>"), key=lambda o: o.time_s)
    assert asleep.line == 17
    assert rank.sampling.taken > 20 and rank.sampling.refusals == ()


def test_a_script_reads_what_it_would_read_and_has_its_own_threads(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    script, answers = tmp_path / "asks.py", tmp_path / "answers.txt"
    script.write_text(
        "import os, sys, torch\n"
        "print(input('who? '), sys.stdin.read().split(), torch.get_num_threads())\n"
        "print(os.environ.get('MKL_NUM_THREADS'))\n"
    )
    answers.write_text("anna\nb c\n")
    wanted = prepare_request(str(script), {}, out=tmp_path / "runs", check_overhead=False)
    with answers.open() as file:
        result = execute_run(wanted, stdin=file.fileno())
    log = (result.path / "worker.log").read_text()
    assert log.splitlines() == ["who? anna ['b', 'c'] 1", "None"]
    run = open_run(result.path)
    assert run.manifest.setting.obtained.threads == 1
    assert not any("threads" in warning for warning in summarise_run(run).warnings)
    asked = prepare_request(str(script), {}, out=tmp_path / "runs", check_overhead=False, threads=2)
    with answers.open() as file:
        result = execute_run(asked, stdin=file.fileno())
    assert (result.path / "worker.log").read_text().split()[-2:] == ["2", "2"]


def test_compilations_are_told_with_what_had_changed(run_script):
    run = run_script(
        """
        class Annealed(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner, self.weight = torch.nn.Linear(4, 4), 0

            def forward(self, x):
                return self.inner(x) * (1 + self.weight)

        model = Annealed()
        compiled = torch.compile(model, backend="eager")
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for step in range(30):
            model.weight = step // 10
            optimizer.zero_grad()
            compiled(torch.ones(2, 4)).square().mean().backward()
            optimizer.step()
        """
    )
    told = [(p.name, p.detail) for p in run.manifest.phases if "compile" in p.name]
    assert [name for name, _ in told] == ["compile", "recompile", "recompile"]
    assert told[0][1] == "forward (train.py:9)"
    if torch.__version__ >= "2.7":
        assert "self.weight == 1" in told[2][1]
    assert all(p.end_s > p.start_s for p in run.manifest.phases if "compile" in p.name)
    again = find_machine(run).recompiling
    assert again.count == 2 and 0 < again.time_s < again.training_s
    assert "recompile" in text_of(run)
