"""Several ranks under one launcher: every ending of a rank, signals, and what each one is given."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from worker_specs import SOURCE_FOLDER, load_events, run_worker, spawn_worker

from trainload_worker.errors import SpecError
from trainload_worker.process.ranks import rank_environment, rank_spec
from trainload_worker.protocol.spec import LaunchSpec, ScriptSpec, dump_spec, parse_spec

# Stands in for a worker: does what its own argument of the script says.
RANK_PROGRAM = """
import json, os, signal, sys, time
from trainload_worker.process.signals import Interrupted, StopRequest

stop = StopRequest()
stop.install()
spec = json.load(sys.stdin)
stop.follow_driver(spec["parent_pid"])
rank, events = spec["rank"], os.open(spec["events_path"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)

def say(kind, **fields):
    os.write(events, (json.dumps({"kind": kind, **fields}) + "\\n").encode())

say("hello", t_s=0.0, pid=os.getpid(), environment=dict(os.environ), spec=spec)

def end(outcome, reason=None, status=1, lost=0):
    say("rank_end", outcome=outcome, reason=reason, t_s=time.monotonic(), events_lost=lost)
    sys.stdout.flush()
    os._exit(status)

def wait_for_ranks():
    folder = os.path.dirname(spec["events_path"])
    while len([n for n in os.listdir(folder) if n.startswith("events")]) < 2:
        time.sleep(0.005)

def wait_for_word_of(other):
    name = "events-r%d.jsonl" % other if other else "events.jsonl"
    path = os.path.join(os.path.dirname(spec["events_path"]), name)
    while not os.path.exists(path) or "rank_end" not in open(path).read():
        time.sleep(0.005)

try:
    exec(spec["arguments"][rank])
    end("completed", status=0)
except Interrupted as error:
    end("interrupted", str(error), status=130)
"""

WAIT = "wait_for_ranks(); time.sleep(60)"
KILL = "wait_for_ranks(); os.kill(os.getpid(), signal.{})"


def make_launch(folder: Path, *programs: str, **changes: Any) -> dict[str, Any]:
    """A specification of one rank for each program."""
    names = ["events.jsonl", *(f"events-r{n}.jsonl" for n in range(1, len(programs)))]
    common = {"format": 2, "setting": {"cores": None, "threads": 5, "accelerators": []}}
    common |= {"events_path": str(folder / names[0]), "parent_pid": os.getpid()}
    layers = {"budget": 0.03, "folder": str(folder), "file_form": "window-{index:04d}.json"}
    script = {"task": "script", "framework": "torch", "path": str(folder / "train.py")}
    return {
        **common,
        "task": "launch",
        "work": {**common, **script, "arguments": list(programs), "layers": layers},
        "command": [sys.executable, "-c", RANK_PROGRAM],
        "ranks": [
            {"events_path": str(folder / name), "window_form": f"window-{name}-{{index}}.json"}
            for name in names
        ],
        **changes,
    }


def launch(folder: Path, *programs: str, **changes: Any) -> tuple[int, dict[str, Any], str]:
    """Exit status, the run's last word and the output of one whole run."""
    document = make_launch(folder, *programs, **changes)
    status, output = run_worker(document)
    return status, load_events(document)[-1], output.decode()


def rank_events(folder: Path, rank: int) -> list[dict[str, Any]]:
    name = f"events-r{rank}.jsonl" if rank else "events.jsonl"
    lines = (folder / name).read_text().splitlines()
    return [event for event in map(json.loads, lines) if event["kind"] != "end"]


def wait_for(condition: Callable[[], bool], timeout_s: float = 20.0) -> None:
    until_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < until_s, "waited in vain"
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


def test_every_rank_has_its_place_and_its_own_record(tmp_path: Path) -> None:
    status, end, output = launch(tmp_path, "print('one')", "print('two')", "print('three')")
    assert status == 0
    assert end["kind"] == "end" and end["outcome"] == "completed" and end["reason"] is None
    assert sorted(output.splitlines()) == ["[rank 1] two", "[rank 2] three", "one"]
    ports = set()
    for rank in range(3):
        hello, last = rank_events(tmp_path, rank)
        assert last["kind"] == "rank_end" and last["outcome"] == "completed"
        found = hello["environment"]
        assert (found["RANK"], found["LOCAL_RANK"], found["WORLD_SIZE"]) == (f"{rank}",) * 2 + (
            "3",
        )
        assert found["OMP_NUM_THREADS"] == "1" and found["MASTER_ADDR"] == "127.0.0.1"
        ports.add(int(found["MASTER_PORT"]))
        assert hello["spec"]["layers"]["file_form"].startswith("window-events")
        assert hello["spec"]["task"] == "script" and hello["spec"]["rank"] == rank
    assert len(ports) == 1 and ports.pop() > 1000


@pytest.mark.parametrize(
    ("first", "second", "outcome", "reason"),
    [
        (WAIT, "end('failed', 'ValueError: boom')", "failed", "rank 1: ValueError: boom"),
        ("end('failed', 'early')", WAIT, "failed", "rank 0: early"),
        ("pass", "os._exit(5)", "failed", "rank 1: ended with status 5 and no last word"),
        ("pass", "os._exit(74)", "failed", "rank 1: its events could not be written (disk full?)"),
        ("pass", "end('completed', status=9)", "failed", "rank 1: ended with status 9"),
        ("pass", KILL.format("SIGSEGV"), "failed", "rank 1: crashed with SIGSEGV; see worker.log"),
        ("pass", "end('interrupted', 'SIGTERM')", "interrupted", "rank 1: SIGTERM"),
        # Those that go with it complain first; they are not to blame.
        (
            "wait_for_ranks(); end('failed', 'connection closed')",
            KILL.format("SIGKILL"),
            "killed",
            "rank 1: killed by SIGKILL",
        ),
        (
            "wait_for_word_of(1); os.kill(os.getpid(), signal.SIGABRT)",
            "end('failed', 'boom')",
            "failed",
            "rank 1: boom",
        ),
        (
            "wait_for_ranks(); end('failed', 'connection closed')",
            "wait_for_ranks(); end('out_of_memory', 'MemoryError', 3)",
            "out_of_memory",
            "rank 1: MemoryError",
        ),
    ],
)
def test_the_run_ends_as_its_first_failing_rank(
    tmp_path: Path, first: str, second: str, outcome: str, reason: str
) -> None:
    status, end, _ = launch(tmp_path, first, second)
    assert (end["kind"], end["outcome"], end["reason"]) == ("end", outcome, reason)
    assert status == {"out_of_memory": 3, "interrupted": 130}.get(outcome, 1)
    assert end["rank"] == int(reason[5])
    assert end.get("signal") == {"killed": signal.SIGKILL}.get(
        outcome, signal.SIGSEGV if "SIGSEGV" in reason else None
    )
    if first is WAIT:
        assert rank_events(tmp_path, 0)[-1]["reason"] == "SIGTERM"


def test_a_rank_that_does_not_listen_is_killed(tmp_path: Path) -> None:
    deaf = "signal.signal(signal.SIGTERM, signal.SIG_IGN); " + WAIT
    status, end, _ = launch(tmp_path, deaf, "wait_for_ranks(); end('failed', 'boom')")
    assert status == 1 and end["reason"] == "rank 1: boom"
    events = rank_events(tmp_path, 0)
    assert [event["kind"] for event in events] == ["hello"] and not is_alive(events[0]["pid"])


@pytest.mark.parametrize(
    ("number", "whole_group"), [(signal.SIGINT, True), (signal.SIGTERM, False)]
)
def test_a_signal_reaches_every_rank(
    tmp_path: Path, number: signal.Signals, whole_group: bool
) -> None:
    document = make_launch(tmp_path, WAIT, WAIT)
    process = spawn_worker(document, start_new_session=True)
    wait_for(lambda: all((tmp_path / n).exists() for n in ("events.jsonl", "events-r1.jsonl")))
    wait_for(lambda: all(rank_events(tmp_path, rank) for rank in (0, 1)))
    (os.killpg if whole_group else os.kill)(process.pid, number)
    process.communicate(timeout=20)
    end = load_events(document)[-1]
    assert process.returncode == 130
    assert (end["outcome"], end["reason"]) == ("interrupted", number.name)
    assert end["rank"] is None
    for rank in (0, 1):
        hello, last = rank_events(tmp_path, rank)
        assert last["outcome"] == "interrupted" and not is_alive(hello["pid"])
        assert last["reason"] == (number.name if whole_group else "SIGTERM")


def test_ranks_end_when_the_launcher_is_killed(tmp_path: Path) -> None:
    process = spawn_worker(make_launch(tmp_path, WAIT, WAIT))
    wait_for(lambda: (tmp_path / "events-r1.jsonl").exists())
    wait_for(lambda: all(rank_events(tmp_path, rank) for rank in (0, 1)))
    process.kill()
    process.communicate()
    for rank in (0, 1):
        wait_for(lambda rank=rank: rank_events(tmp_path, rank)[-1]["kind"] == "rank_end")
        hello, last = rank_events(tmp_path, rank)
        assert last["reason"] == "the driver died"
        wait_for(lambda pid=hello["pid"]: not is_alive(pid))


def test_ranks_end_when_the_driver_dies(tmp_path: Path) -> None:
    spawn = (
        "import json, sys, time, os; sys.path.insert(0, sys.argv[1]);"
        "from worker_specs import spawn_worker; document = json.load(sys.stdin);"
        "spawn_worker({**document, 'parent_pid': os.getpid()}); time.sleep(60)"
    )
    driver = subprocess.Popen(
        [sys.executable, "-c", spawn, str(Path(__file__).parents[1])],
        stdin=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(SOURCE_FOLDER)},
    )
    assert driver.stdin is not None
    document = make_launch(tmp_path, WAIT, WAIT)
    driver.stdin.write(json.dumps(document).encode())
    driver.stdin.close()
    wait_for(lambda: (tmp_path / "events-r1.jsonl").exists())
    wait_for(lambda: all(rank_events(tmp_path, rank) for rank in (0, 1)))
    driver.kill()
    driver.wait()
    wait_for(lambda: load_events(document)[-1]["kind"] == "end")
    end = load_events(document)[-1]
    assert (end["outcome"], end["reason"]) == ("interrupted", "the driver died")


def test_a_torn_last_line_of_a_rank_does_not_take_the_run_s_end_along(tmp_path: Path) -> None:
    torn = "open(spec['events_path'], 'ab').write(b'{\"kind\": \"ste'); os._exit(5)"
    document = make_launch(tmp_path, torn, "pass")
    assert run_worker(document)[0] == 1
    *_, half, last = (tmp_path / "events.jsonl").read_text().splitlines()
    assert half == '{"kind": "ste' and json.loads(last)["reason"].startswith("rank 0: ended with")


def test_lost_events_of_all_ranks_are_counted(tmp_path: Path) -> None:
    _, end, _ = launch(
        tmp_path, "end('completed', status=0, lost=2)", "end('completed', status=0, lost=3)"
    )
    assert end["outcome"] == "completed" and end["events_lost"] == 5


def test_a_rank_that_cannot_be_started_fails_the_run(tmp_path: Path) -> None:
    document = make_launch(tmp_path, WAIT, WAIT)
    document["command"] = ["/nowhere/python"]
    assert run_worker(document)[0] == 1
    end = load_events(document)[-1]
    assert (end["outcome"], end["rank"]) == ("failed", 0) and "cannot be started" in end["reason"]


def test_output_arrives_by_whole_lines_however_much_it_is(tmp_path: Path) -> None:
    much = "sys.stdout.write(('y' * 99 + '\\n') * 40_000)"
    status, _, output = launch(
        tmp_path,
        "[print('x' * 99) for _ in range(20_000)]",
        f"{much}; print('a\\rb\\r'); sys.stdout.write('unfinished')",
    )
    lines = output.split("\n")
    assert status == 0
    assert lines.count("x" * 99) == 20_000 and lines.count("[rank 1] " + "y" * 99) == 40_000
    assert "[rank 1] a\r[rank 1] b\r" in lines and "[rank 1] unfinished" in lines
    assert len(lines) == 60_003


def test_what_another_launcher_left_in_the_environment_is_not_handed_down() -> None:
    before = {
        "PATH": "/bin",
        "RANK": "7",
        "LOCAL_RANK": "7",
        "WORLD_SIZE": "8",
        "GROUP_RANK": "3",
        "MASTER_PORT": "1",
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_ERROR_FILE": "/tmp/x",
        "OMP_NUM_THREADS": "8",
    }
    found = rank_environment(before, rank=1, count=2, port=4000, threads=8)
    assert found["PATH"] == "/bin" and found["RANK"] == found["LOCAL_RANK"] == "1"
    assert found["WORLD_SIZE"] == found["LOCAL_WORLD_SIZE"] == "2" and found["GROUP_RANK"] == "0"
    assert found["MASTER_PORT"] == "4000" and found["OMP_NUM_THREADS"] == "4"
    assert found["TORCHELASTIC_USE_AGENT_STORE"] == "False"
    assert "TORCHELASTIC_ERROR_FILE" not in found
    assert rank_environment({}, 0, 2, 4000, None).get("OMP_NUM_THREADS") is None


def test_the_specification_of_a_rank_is_read_by_a_worker(tmp_path: Path) -> None:
    spec = parse_spec(json.dumps(make_launch(tmp_path, "a", "b")))
    assert isinstance(spec, LaunchSpec)
    rank = parse_spec(dump_spec(rank_spec(spec, 1)))
    assert isinstance(rank, ScriptSpec) and rank.layers is not None
    assert rank.rank == 1 and rank.events_path.endswith("events-r1.jsonl")
    assert rank.layers.file_form == "window-events-r1.jsonl-{index}.json"
    assert rank.parent_pid == os.getpid()


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"ranks": []}, "ranks must not be empty"),
        ({"command": []}, "command must not be empty"),
        ({"ranks": [{}]}, r"ranks\[0\]: 'events_path' is missing"),
    ],
)
def test_a_bad_field_is_named(tmp_path: Path, changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(SpecError, match=complaint):
        parse_spec(json.dumps(make_launch(tmp_path, "a", **changes)))


def test_a_rank_that_leaves_by_itself_with_0_has_completed(tmp_path: Path) -> None:
    status, end, _ = launch(tmp_path, "pass", "os._exit(0)")
    assert (status, end["outcome"], end["reason"]) == (0, "completed", None)
