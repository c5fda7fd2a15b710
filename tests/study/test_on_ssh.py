"""Cells over ssh: a fake one that runs the command here in another home, and sshd on loopback."""

import getpass
import os
import shutil
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from study_ray import start, write_study
from trainload.api.studying import run_study, status
from trainload.cli.app import run_app
from trainload.errors import StudyError
from trainload.record import StudyCell, load_manifest
from trainload.run.cell import Answer, CellRequest, pack_folder, unpack_folder
from trainload.study.executors import Task
from trainload.study.executors.parcels import pack_code, take_answer
from trainload.study.executors.ssh import SshExecutor
from trainload.study.ledger import read_ledger

FAKE_SSH = """#!{python}
import os, sys
words = sys.argv[1:]
while words[0] == "-o":
    words = words[2:]
host, command = words
open({log!r}, "a").write(host + " " + command[:80].replace(chr(10), " ") + chr(10))
if os.path.exists({down!r}):
    sys.stderr.write("ssh: connect to host " + host + " port 22: No route to host" + chr(10))
    sys.exit(255)
variables = {{"HOME": {home!r}, "PATH": os.environ["PATH"]}}
os.execve("/bin/sh", ["sh", "-c", command], variables)
"""


@pytest.fixture
def far(tmp_path, monkeypatch):
    """A machine behind a fake ssh: its home, the log of calls, and the file that takes it down."""
    home = tmp_path / "far-home"
    home.mkdir()
    log, down = tmp_path / "ssh.log", tmp_path / "down"
    path = tmp_path / "fake-ssh"
    text = FAKE_SSH.format(python=sys.executable, log=str(log), home=str(home), down=str(down))
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("TRAINLOAD_SSH", str(path))
    return home, log, down


PLACE = f"ssh:board:{sys.executable}"


def test_cells_run_there_and_come_back_whole(tmp_path, far):
    home, log, _ = far
    file = write_study(tmp_path, 3, 0.1)
    done = run_study(file, out=tmp_path, on=PLACE)
    assert (done.result.ended_by, done.result.ran, done.status.done) == ("finished", 3, 3)
    runs = sorted((tmp_path / "s" / "runs").iterdir())
    assert len(runs) == 3 and all((path / "summary.json").exists() for path in runs)
    assert all(load_manifest(path).outcome == "completed" for path in runs)
    kept = [path.name for path in (home / ".cache/trainload/code").iterdir()]
    assert kept == [pack_code().digest]
    assert run_study(file, out=tmp_path, on=PLACE).result.ran == 0
    calls = [line.split()[0] for line in log.read_text().splitlines()]
    assert calls == ["board"] * (2 + 3 + 1)  # asked, sent, three cells; the second time asked
    assert run_study(file, out=tmp_path).result.ran == 0


@pytest.mark.long
def test_a_script_goes_along(tmp_path, far):
    script = tmp_path / "train.py"
    script.write_text("import sys\nprint(sys.argv[1:], __file__)\n")
    file = tmp_path / "study.yaml"
    file.write_text(
        f"name: s\nworkload:\n  script: {script}\n  arguments: --lr {{lr}}\n  layers: false\n"
        f"  check_overhead: false\n  python: {sys.executable}\ncool_down: false\n"
        "other_load: false\nfactors: {lr: [0.5]}\n"
    )
    assert run_study(file, out=tmp_path, on=PLACE).status.done == 1
    (run,) = (tmp_path / "s" / "runs").iterdir()
    assert "['--lr', '0.5']" in (run / "worker.log").read_text()

    # Not there, as on another machine: the copy that came along is run.
    from base64 import b64encode

    from trainload.run.cell import run_cell

    place = StudyCell(study="s", cell="c")
    keywords = {"what": "/nowhere/train.py", "layers": False, "check_overhead": False}
    request = CellRequest(
        keywords=keywords, study=place, script=b64encode(script.read_bytes()).decode()
    )
    result = run_cell(request, tmp_path / "out", tmp_path / "far-home")
    assert "far-home/train.py" in (result.path / "worker.log").read_text()


def doors(home):
    """Processes of the bare door that belong to that home."""
    found = []
    for one in psutil.process_iter(["cmdline"]):
        words = one.info["cmdline"] or []
        try:
            if "--request" in words and one.environ().get("HOME") == str(home):
                found.append(one)
        except psutil.Error:
            continue
    return found


def wait_for(what, seconds=30.0):
    deadline = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)
    return found


def test_a_lost_connection_queues_the_cell_again(tmp_path, far):
    home, _, down = far
    file = write_study(tmp_path, 2, 1.5)
    process = start(file, tmp_path, PLACE)
    (door,) = wait_for(lambda: doors(home))
    time.sleep(0.8)
    down.touch()
    door.kill()
    time.sleep(1.0)
    down.unlink()
    out, err = process.communicate(timeout=90)
    assert process.returncode == 0 and "2 of 2 runs done" in out, err
    assert "lost, to be run again: board" in err
    ended, _, started = read_ledger(tmp_path / "s")
    assert len(ended) == 2 and not started


def test_a_killed_driver_leaves_nothing_running_there(tmp_path, far):
    home, _, _ = far
    file = write_study(tmp_path, 2, 3.0)
    process = start(file, tmp_path, PLACE, "--quiet")
    wait_for(lambda: doors(home))
    time.sleep(0.8)
    process.kill()
    process.communicate()
    wait_for(lambda: not doors(home))
    write_study(tmp_path, 2, 3.0)
    assert status(tmp_path / "s").running == 0
    process = start(file, tmp_path, PLACE, "--quiet")
    wait_for(lambda: doors(home))
    process.terminate()
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1 and "interrupted; the same command goes on" in out, err
    assert not doors(home)


def test_what_cannot_be_reached_or_lacks_something_is_one_line(tmp_path, far, capsys):
    _, _, down = far
    file = write_study(tmp_path, 1, 0.1)
    words = ["study", "run", str(file), "--out", str(tmp_path), "--on"]
    assert run_app([*words, "ssh:board:/nowhere/python"]) == 2
    assert "/nowhere/python: not found" in capsys.readouterr().err
    bare = tmp_path / "bare" / "bin" / "python"
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(bare.parents[1])], check=True
    )
    assert run_app([*words, f"ssh:board:{bare}"]) == 2
    assert "has no psutil; name another Python" in capsys.readouterr().err
    # With psutil and nothing else: no command line's libraries, no trainload, no tables.
    (site,) = (tmp_path / "bare" / "lib").glob("python*/site-packages")
    (site / "psutil").symlink_to(Path(psutil.__file__).parent)
    assert run_app([*words, f"ssh:board:{bare}"]) == 0
    assert "1 of 1 runs done" in capsys.readouterr().out
    shutil.rmtree(tmp_path / "s")
    down.touch()
    assert run_app([*words, PLACE]) == 2
    assert "No route to host; try: ssh board true" in capsys.readouterr().err
    assert run_app([*words, "ssh:-oProxyCommand=x"]) == 2
    assert "name a machine" in capsys.readouterr().err


def test_a_machine_that_stays_away_ends_the_session(tmp_path, far):
    _, _, down = far
    executor = SshExecutor(f"board:{sys.executable}", load=lambda _p: None, tell=lambda _t: None,
                           away_limit_s=0.2)  # fmt: skip
    down.touch()
    task = Task(place=StudyCell(study="s", cell="c"), keywords={"what": "mlp"}, runs=tmp_path)
    executor.submit(task, lambda: None)
    found = executor.collect(5.0)
    while not found:
        found = executor.collect(1.0)
    assert found[0].lost and "No route" in found[0].problem
    executor.submit(task, lambda: None)
    time.sleep(0.3)
    with pytest.raises(StudyError, match=r"board has not answered for .* the same command goes on"):
        executor.collect(0.1)


def test_only_a_whole_run_of_the_cell_is_filed(tmp_path):
    run_study(write_study(tmp_path, 1, 0.0), out=tmp_path)
    (made,) = (tmp_path / "s" / "runs").iterdir()
    packed = pack_folder(made)
    back = unpack_folder(packed, tmp_path / "x", made.name)
    assert sorted(p.name for p in back.iterdir()) == sorted(p.name for p in made.iterdir())
    task = Task(place=StudyCell(study="s", cell="c"), keywords={}, runs=tmp_path / "t" / "runs")
    task.runs.mkdir(parents=True)

    import hashlib
    import json

    from trainload.checked import to_json
    from trainload.errors import RecordError

    def answer(**told):
        digest = hashlib.sha256(packed).hexdigest()
        values = {"run": made.name, "outcome": "completed", "bytes": len(packed), "sha256": digest}
        return json.dumps(to_json(Answer(**{**values, **told}))).encode() + b"\n" + packed

    assert "in part" in take_answer(task, answer()[:-1], lambda _p: None).problem
    assert take_answer(task, answer()[:20], lambda _p: None).lost
    assert take_answer(task, answer(outcome="interrupted"), lambda _p: None).lost
    with pytest.raises(RecordError, match="for another cell"):
        take_answer(task, answer(), lambda _p: None)
    with pytest.raises(RecordError, match="not its own"):
        unpack_folder(packed, tmp_path / "y", "other")
    assert not list(task.runs.iterdir())


@pytest.fixture
def sshd(tmp_path, monkeypatch):
    """A real sshd on a high port of loopback, for this user and this test alone."""
    server = shutil.which("sshd") or "/usr/sbin/sshd"
    if not Path(server).exists() or shutil.which("ssh") is None:
        pytest.skip("sshd is not installed")
    for name in ("host", "user"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / name)]
        subprocess.run(command, check=True)
    (tmp_path / "keys").write_text((tmp_path / "user.pub").read_text())
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = tmp_path / "sshd_config"
    config.write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {tmp_path}/host\nUsePAM no\n"
        f"AuthorizedKeysFile {tmp_path}/keys\nStrictModes no\nPidFile {tmp_path}/sshd.pid\n"
        f"SetEnv XDG_CACHE_HOME={tmp_path}/cache\nPermitRootLogin yes\n"
    )
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    with (tmp_path / "sshd.log").open("wb") as log:
        process = subprocess.Popen([server, "-D", "-e", "-f", str(config)], stderr=log)
    try:
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        known = f"-o UserKnownHostsFile={tmp_path}/known -o StrictHostKeyChecking=no"
        ssh = f"ssh -F none -i {tmp_path}/user {known} -p {port}"
        monkeypatch.setenv("TRAINLOAD_SSH", ssh)
        tried = subprocess.run(
            [*ssh.split(), "-o", "BatchMode=yes", f"{getpass.getuser()}@127.0.0.1", "true"],
            capture_output=True,
        )
        if tried.returncode:
            pytest.skip(f"sshd does not let us in: {tried.stderr.decode().strip()[-200:]}")
        yield f"ssh:{getpass.getuser()}@127.0.0.1:{sys.executable}", tmp_path
    finally:
        process.terminate()
        process.wait()


@pytest.mark.long
def test_over_a_real_sshd(tmp_path, sshd):
    place, home = sshd
    file = write_study(tmp_path, 2, 0.1)
    done = run_study(file, out=tmp_path, on=place)
    assert (done.result.ended_by, done.status.done) == ("finished", 2)
    assert [one.name for one in (home / "cache/trainload/code").iterdir()] == [pack_code().digest]
    ended, _, _ = read_ledger(tmp_path / "s")
    assert sorted(one.verdict for one in ended.values()) == ["counted"] * 2
