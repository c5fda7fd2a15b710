"""A study on a real Slurm of one node: slurmctld, slurmd and munged started in a temporary folder.

    python bench/study_slurm.py --cells 4 --json FILE

Needs root and Debian's slurm-wlm and munge; where they do not start it says why and exits 0. Prints
how long a cell takes through Slurm, and that the same command again runs nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from study_ray import start, starts_and_ends, write_study

_CONF = """ClusterName=trainload
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmctldPort={port}
SlurmdPort={next_port}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
MinJobAge=300
KillWait=10
GresTypes=board
NodeName={host} NodeAddr=127.0.0.1 CPUs=1 Gres=board:1 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE OverSubscribe=NO State=UP
"""


class NoSlurm(Exception):
    """Why Slurm could not be started here."""


def lacking() -> str | None:
    """What keeps Slurm from being started here; None where it can be tried."""
    names = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "sinfo")
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"])
    missing = [name for name in names if shutil.which(name, path=path) is None]
    if missing:
        return f"{missing[0]} is not installed; Debian: apt-get install slurm-wlm munge"
    return None if os.getuid() == 0 else "Slurm's daemons are started by root alone"


@contextmanager
def slurm() -> Iterator[Path]:
    """A Slurm of one node; yields its folder. SLURM_CONF is set within. NoSlurm where not."""
    reason = lacking()
    if reason is not None:
        raise NoSlurm(reason)
    folder = Path(tempfile.mkdtemp(prefix="trainload-slurm-", dir="/tmp"))
    folder.chmod(0o755)
    for name in ("munge", "state", "spool"):
        (folder / name).mkdir(mode=0o755)
    key = folder / "munge" / "key"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o600)
    conf, port = folder / "slurm.conf", _free_port()
    host = socket.gethostname().partition(".")[0]
    conf.write_text(_CONF.format(host=host, folder=folder, port=port, next_port=_free_port()))
    (folder / "gres.conf").write_text("Name=board Count=1\n")
    before, running = os.environ.get("SLURM_CONF"), []
    os.environ["SLURM_CONF"] = str(conf)
    try:
        munge = folder / "munge"
        files = [f"--{one}-file={munge}/{one}" for one in ("key", "pid", "log", "seed")]
        for command in (
            ["munged", "--foreground", "--force", f"--socket={munge}/socket", *files],
            ["slurmctld", "-D", "-i", "-f", str(conf)],
            ["slurmd", "-D", "-f", str(conf), "-N", host],
        ):
            with (folder / f"{command[0]}.out").open("wb") as log:
                path = shutil.which(command[0]) or f"/usr/sbin/{command[0]}"
                running.append(subprocess.Popen([path, *command[1:]], stdout=log, stderr=log))
            time.sleep(0.5)
        _wait_until_idle(folder, running)
        yield folder
    finally:
        for process in reversed(running):
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if before is None:
            os.environ.pop("SLURM_CONF", None)
        else:
            os.environ["SLURM_CONF"] = before
        shutil.rmtree(folder, ignore_errors=True)


def _wait_until_idle(folder: Path, running: list[subprocess.Popen[bytes]]) -> None:
    deadline_s, said = time.monotonic() + 30, ""
    while time.monotonic() < deadline_s:
        for process in running:
            if process.poll() is not None:
                name = Path(str(process.args[0])).name  # type: ignore[index]
                log = (folder / f"{name}.out").read_text(errors="replace").strip()
                raise NoSlurm(f"{name} ended with {process.returncode}: {log[-300:]}")
        found = subprocess.run(["sinfo", "-h", "-o", "%T"], capture_output=True, text=True)
        said = found.stdout.strip() or found.stderr.strip()
        if said == "idle":
            return
        time.sleep(0.3)
    raise NoSlurm(f"the node did not become idle in 30 s: {said}")


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cells", type=int, default=4)
    parser.add_argument("--cell-s", type=float, default=1.0)
    parser.add_argument("--json", type=Path, help="write the results there")
    options = parser.parse_args()
    try:
        with slurm(), tempfile.TemporaryDirectory() as scratch:
            out = Path(scratch)
            file = write_study(out, options.cells, options.cell_s)
            begin_s = time.monotonic()
            process = start(file, out, "slurm", "--quiet")
            said = process.communicate()
            whole_s = time.monotonic() - begin_s
            assert process.returncode == 0, said
            spans = starts_and_ends(out / "s")
            again = start(file, out, "slurm", "--json")
            ran = json.loads(again.communicate()[0])["ran"]
    except NoSlurm as error:
        print(f"NOTHING WAS RUN: {error}")
        return 0
    assert len({cell for _, _, cell in spans}) == options.cells == len(spans) and ran == 0
    print(f"{options.cells} cells of {options.cell_s:g} s through Slurm: {whole_s:.1f} s; again: 0")
    if options.json:
        command = shlex.join(["python", *sys.argv])
        found = {"command": command, "cells": options.cells, "whole_s": whole_s, "again": ran}
        options.json.write_text(json.dumps(found) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
