"""Cells on two real Ray nodes on loopback: alone on a node, back whole, none lost, none twice."""

import importlib.util
import json
import signal
import time

import pytest

from study_ray import cluster, start, starts_and_ends, write_study
from trainload.api.running import run as run_here
from trainload.api.studying import plan, run_study, status
from trainload.cli.app import run_app
from trainload.record import load_manifest, open_run
from trainload.study import run_cells
from trainload.study.executors import Finished, Task
from trainload.study.ledger import read_ledger

HAS_RAY = importlib.util.find_spec("ray") is not None
ray = pytest.mark.skipif(not HAS_RAY, reason="Ray is not installed here; make test-ray has it")
STEADY = ("steps", "epochs", "parameters", "train_loss", "validation_loss", "validation_accuracy")


@pytest.fixture(scope="module")
def nodes():
    with cluster({"resources": {"board": 1}}, {}) as (one, made):
        yield one, made


def ended(process, seconds=270):
    out, err = process.communicate(timeout=seconds)
    assert "Traceback" not in err, err
    return process.returncode, out, err


def counted(folder):
    found, _, _ = read_ledger(folder)
    return sorted(one.cell for one in found.values() if one.verdict == "counted")


def wait_for_runs(folder, count, seconds=60.0):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if (folder / "cells.jsonl").exists() and status(folder).running >= count:
            return
        time.sleep(0.05)
    raise AssertionError("the study did not start")


def most_at_once(spans):
    return max(sum(a <= begin < b for a, b, _ in spans) for begin, _, _ in spans)


@ray
def test_two_nodes_run_two_cells_at_once_with_the_results_of_one_machine(tmp_path, nodes):
    file = write_study(tmp_path, 5, 0.8)
    code, out, err = ended(start(file, tmp_path / "far", f"ray:{nodes[0].address}"))
    assert code == 0 and "5 of 5 runs done" in out, err
    assert most_at_once(starts_and_ends(tmp_path / "far" / "s")) == 2
    near = run_study(file, out=tmp_path / "near")
    assert near.status.done == 5

    def table(folder):
        return {
            one.cell: {name: one.figures.get(name) for name in STEADY}
            for one in read_ledger(folder)[0].values()
        }

    assert table(tmp_path / "far" / "s") == table(tmp_path / "near" / "s")
    runs = sorted((tmp_path / "far" / "s" / "runs").iterdir())
    assert all((path / "steps.parquet").exists() for path in runs)
    assert not list((tmp_path / "far" / "s" / "arriving").iterdir())
    # Known by the runs alone: nothing is left, here or there.
    code, out, _ = ended(start(file, tmp_path / "far", f"ray:{nodes[0].address}", "--json"))
    assert code == 0 and json.loads(out)["ran"] == 0


@ray
def test_a_cell_goes_to_the_node_that_has_what_it_needs(tmp_path, nodes):
    more = "  how: [{level: any, resources: {}}, {level: board, resources: {board: 1}}]\n"
    file = write_study(tmp_path, 2, 0.8)
    text = file.read_text().replace("factors: {hidden_units: [8, 9]}\n", "")
    file.write_text(text + "factors:\n  hidden_units: [8, 9]\n" + more)
    code, out, err = ended(start(file, tmp_path, f"ray:{nodes[0].address}"))
    assert code == 0 and "4 of 4 runs done" in out, err
    spans = []
    for path in (tmp_path / "s" / "runs").iterdir():
        manifest = load_manifest(path)
        if manifest.study.factors["how"] == "board":
            clock = manifest.clock
            spans.append((clock.start_wall_s, clock.end_wall_s, path.name))
    assert len(spans) == 2 and most_at_once(spans) == 1


@ray
def test_a_killed_driver_and_a_lost_node_lose_nothing(tmp_path, nodes):
    one, _ = nodes
    extra = one.add_node(num_cpus=1, object_store_memory=100 * 2**20)
    file = write_study(tmp_path, 8, 1.5)
    process = start(file, tmp_path, f"ray:{one.address}", "--quiet")
    wait_for_runs(tmp_path / "s", 3)
    time.sleep(1.0)
    process.kill()
    process.communicate()
    again = start(file, tmp_path, f"ray:{one.address}")
    wait_for_runs(tmp_path / "s", 3)
    time.sleep(0.7)
    one.remove_node(extra, allow_graceful=False)
    code, out, err = ended(again)
    assert code == 0 and "8 of 8 runs done" in out, err
    assert "lost, to be run again" in err
    cells = counted(tmp_path / "s")
    assert len(cells) == 8 == len(set(cells))


@ray
def test_a_lost_node_leaves_the_json_pure(tmp_path, nodes):
    one, _ = nodes
    extra = one.add_node(num_cpus=1, object_store_memory=100 * 2**20)
    process = start(write_study(tmp_path, 4, 2.0), tmp_path, f"ray:{one.address}", "--json")
    wait_for_runs(tmp_path / "s", 3)
    one.remove_node(extra, allow_graceful=False)
    code, out, err = ended(process)
    assert code == 0 and json.loads(out)["done"] == 4
    # Ray itself tells of the node, at a place where it is in nobody's way.
    assert "(raylet)" in err


@ray
def test_ctrl_c_and_stop_end_a_session_on_nodes(tmp_path, nodes):
    file = write_study(tmp_path, 6, 2.0)
    process = start(file, tmp_path, f"ray:{nodes[0].address}")
    wait_for_runs(tmp_path / "s", 2)
    assert run_app(["study", "stop", str(tmp_path / "s")]) == 0
    code, out, _ = ended(process)
    assert code == 1 and "stopped as asked" in out
    assert status(tmp_path / "s").done == 2
    process = start(file, tmp_path, f"ray:{nodes[0].address}")
    wait_for_runs(tmp_path / "s", 2)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    code, out, _ = ended(process)
    assert code == 1 and "interrupted; the same command goes on" in out
    code, out, _ = ended(start(file, tmp_path, f"ray:{nodes[0].address}"))
    assert code == 0 and "6 of 6 runs done" in out
    assert len(set(counted(tmp_path / "s"))) == 6 == len(counted(tmp_path / "s"))


@ray
def test_a_cluster_that_is_not_there_is_one_line(tmp_path):
    code, _, err = ended(start(write_study(tmp_path, 2, 0.1), tmp_path, "ray:127.0.0.1:1"))
    assert (
        code == 2
        and err.count("\n") == 1
        and "--on ray:127.0.0.1:1: no cluster answers there" in err
    )


@pytest.mark.skipif(HAS_RAY, reason="Ray is installed here")
def test_without_ray_one_line_says_how_to_have_it(tmp_path, capsys):
    file = write_study(tmp_path, 2, 0.1)
    assert run_app(["study", "run", str(file), "--out", str(tmp_path), "--on", "ray"]) == 2
    assert capsys.readouterr().err == "error: --on ray needs Ray: pip install 'trainload[ray]'\n"


def test_places_that_are_none(tmp_path, capsys):
    file = write_study(tmp_path, 2, 0.1)
    words = ["study", "run", str(file), "--out", str(tmp_path), "--on"]
    assert run_app([*words, "moon"]) == 2
    assert "--on moon: no such place; ray, ray:ADDRESS" in capsys.readouterr().err
    assert run_app([*words, "ray", "--sbatch", "--time=1"]) == 2
    assert "--sbatch is for --on slurm" in capsys.readouterr().err
    assert run_app([*words, "slurm", "--sbatch", "--comment='x"]) == 2
    assert "No closing quotation" in capsys.readouterr().err


class Queue:
    """An executor that takes all at once and runs one a look, here."""

    capacity, elsewhere = 10**9, True

    def __init__(self):
        self.waiting, self.back, self.most = [], [], 0

    def submit(self, task, begun):
        self.waiting.append((task, begun))
        self.most = max(self.most, len(self.waiting))

    def collect(self, wait_s):
        found, self.back = self.back, []
        if self.waiting and not found:
            task, begun = self.waiting.pop(0)
            begun()
            if task.place.factors["hidden_units"] == 9 and not getattr(self, "lost", False):
                self.lost = True
                return [Finished(task=task, run=None, lost=True, problem="the node went away")]
            run_here(**task.keywords, out=task.runs, study=task.place)
            found = [Finished(task=task, run=open_run(max(task.runs.iterdir(), key=changed)))]
        return found

    def cancel(self, *, running):
        self.back += [Finished(task=t, run=None, lost=True, begun=False) for t, _ in self.waiting]
        self.waiting.clear()

    def close(self):
        pass


def changed(path):
    return (path / "run.json").stat().st_mtime_ns


def test_a_place_with_a_queue_gets_a_block_at_once_and_limits_hold(tmp_path):
    file = write_study(tmp_path, 4, 0.0, "limits: {runs: 3}\n")
    made, queue, said = plan(file, out=tmp_path), Queue(), []
    first = run_cells(made.study, made.cells, tmp_path / "s", queue, tell=said.append)
    assert (first.ended_by, first.ran, queue.most) == ("limit", 3, 3)
    lost = ["hidden_units=9: lost, to be run again: the node went away\n"]
    second = run_cells(made.study, made.cells, tmp_path / "s", queue, tell=said.append)
    assert second.ended_by == "finished" and said == lost and first.ran + second.ran == 5
    assert len(counted(tmp_path / "s")) == 4 == len(set(counted(tmp_path / "s")))


@pytest.mark.parametrize(
    ("setting", "count"),
    [(None, 0), ("cpu0-3", 0), ("half+gpu0", 1), ("all+gpu0-2", 3), ("cpu0+gpu0,2-3", 3)],
)
def test_accelerators_are_those_that_the_setting_names(tmp_path, setting, count):
    from trainload.record import StudyCell

    keywords = {"what": "mlp", "setting": setting}
    task = Task(place=StudyCell(study="s", cell="c"), keywords=keywords, runs=tmp_path)
    assert task.accelerators == count
