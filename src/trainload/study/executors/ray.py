"""Cells on the nodes of a Ray cluster, each alone on a node that has what it needs.

Ray knows the nodes, moves the bytes and notices what is lost. A cell takes all CPUs of its node, so
that neither another cell nor another job of the cluster runs beside it.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainload.errors import MissingPart, StudyError
from trainload.run.cell import render_request
from trainload.study.executors import node
from trainload.study.executors.executor import ALL, Begun, Finished, Task, Tell
from trainload.study.executors.parcels import Load, pack_code, take_answer

NODE_WAIT_S = 60.0
"""For how long a node that could run a waiting cell may be missing."""
LOOK_S = 0.5
KNOCK_S = 10.0


@dataclass(frozen=True, kw_only=True)
class _Running:
    task: Task
    node: str
    name: str


class RayExecutor:
    """Hands each waiting task to a free node; Ray does the rest."""

    capacity = ALL
    elsewhere = True

    def __init__(
        self, address: str | None, *, load: Load, tell: Tell, node_wait_s: float = NODE_WAIT_S
    ) -> None:
        """Joins the cluster, or starts one on this machine; StudyError where that fails."""
        self._load, self._tell, self._node_wait_s = load, tell, node_wait_s
        self._ray = _join(address)
        code = pack_code()
        self._digest, self._code = code.digest, self._ray.put(code.packed)
        # By value: the nodes need no trainload, and all run this one.
        self._ray.cloudpickle.register_pickle_by_value(node)
        self._door = self._ray.remote(node.run_on_node)
        self._waiting: list[tuple[Task, Begun]] = []
        self._running: dict[Any, _Running] = {}
        self._back: list[Finished] = []
        self._placed_s = time.monotonic()

    def submit(self, task: Task, begun: Begun) -> None:
        """Queue the task."""
        self._waiting.append((task, begun))

    def collect(self, wait_s: float) -> Sequence[Finished]:
        """Start what finds a node, and give back what has ended."""
        deadline_s = time.monotonic() + wait_s
        while True:
            self._place()
            found, self._back = self._back, []
            found += self._ended(max(0.0, min(LOOK_S, deadline_s - time.monotonic())))
            self._tell(f"{len(self._running)} on nodes, {len(self._waiting)} waiting")
            if found or time.monotonic() >= deadline_s:
                return found

    def cancel(self, *, running: bool) -> None:
        """Take back what waits; with `running`, end what runs on the nodes."""
        self._back += [
            Finished(task=task, run=None, lost=True, begun=False) for task, _ in self._waiting
        ]
        self._waiting.clear()
        if running:
            for reference in self._running:
                self._ray.cancel(reference, force=False)

    def close(self) -> None:
        """Leave the cluster; one that was started here ends."""
        if self._ray.is_initialized():
            self._ray.shutdown()

    def _place(self) -> None:
        """Give waiting tasks, in their order, to free nodes that have what they need."""
        if not self._waiting:
            self._placed_s = time.monotonic()
            return
        nodes = {one["NodeID"]: one for one in self._ray.nodes() if _is_usable(one)}
        taken = {one.node for one in self._running.values()}
        kept: list[tuple[Task, Begun]] = []
        for task, begun in self._waiting:
            able = [name for name in nodes if _has(nodes[name]["Resources"], _needs(task))]
            free = next((name for name in able if name not in taken), None)
            if free is None:
                kept.append((task, begun))
                continue
            taken.add(free)
            begun()
            self._start(task, nodes[free])
        if len(kept) < len(self._waiting) or self._running:
            self._placed_s = time.monotonic()
        elif time.monotonic() - self._placed_s > self._node_wait_s:
            raise StudyError(_missing(kept[0][0], nodes.values()))
        self._waiting = kept

    def _start(self, task: Task, chosen: Mapping[str, Any]) -> None:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        has, needs = chosen["Resources"], _needs(task)
        door = self._door.options(
            num_cpus=has["CPU"],
            num_gpus=has.get("GPU", 0.0) if task.accelerators else 0.0,
            resources={name: amount for name, amount in needs.items() if name != "GPU"},
            # A lost cell is queued again by the study, which knows what is done.
            max_retries=0,
            scheduling_strategy=NodeAffinitySchedulingStrategy(chosen["NodeID"], soft=False),
        )
        reference = door.remote(self._digest, self._code, render_request(task.request()))
        name = chosen.get("NodeManagerHostname") or chosen["NodeManagerAddress"]
        self._running[reference] = _Running(task=task, node=chosen["NodeID"], name=name)

    def _ended(self, wait_s: float) -> list[Finished]:
        if not self._running:
            time.sleep(wait_s)
            return []
        ready, _ = self._ray.wait(list(self._running), num_returns=1, timeout=wait_s)
        return [self._take(reference, self._running.pop(reference)) for reference in ready]

    def _take(self, reference: Any, running: _Running) -> Finished:
        task = running.task
        try:
            status, answer, complaints = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            return Finished(task=task, run=None, problem=f"{running.name}: {_first(error.cause)}")
        except self._ray.exceptions.RayError as error:
            said = f"{running.name}: {_first(error)}"
            return Finished(task=task, run=None, lost=True, problem=said)
        if status not in (0, 2) and not answer:
            last = complaints.strip().rpartition("\n")[2] or f"the door ended with {status}"
            lost = status < 0 or status == 130
            return Finished(task=task, run=None, lost=lost, problem=f"{running.name}: {last}")
        return take_answer(task, answer, self._load)


def _join(address: str | None) -> Any:
    """The module, connected; MissingPart without Ray, StudyError without a cluster."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
        import ray.cloudpickle
        import ray.exceptions
    except ImportError as error:
        raise MissingPart("--on ray needs Ray: pip install 'trainload[ray]'") from error
    if address is not None:
        _knock(address)
    chosen = {} if address is None else {"address": address}
    try:
        ray.init(**chosen, log_to_driver=False, logging_level="error", ignore_reinit_error=True)
    except (ConnectionError, ValueError, RuntimeError, OSError) as error:
        where = f"ray:{address}" if address else "ray"
        raise StudyError(f"--on {where}: {_first(error)}; see ray status") from error
    return ray


def _knock(address: str) -> None:
    """StudyError where nothing listens: Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return  # a word of Ray's own, such as auto
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=KNOCK_S).close()
    except OSError as error:
        said = error.strerror or error
        raise StudyError(f"--on ray:{address}: no cluster answers there: {said}") from error


def _is_usable(one: Mapping[str, Any]) -> bool:
    """Whether it lives and takes work: a head is often started without CPUs to be left alone."""
    return bool(one["Alive"]) and one["Resources"].get("CPU", 0.0) >= 1.0


def _needs(task: Task) -> dict[str, float]:
    """What a node must have in all, by Ray's names."""
    found = {name: float(amount) for name, amount in task.resources.items()}
    if task.accelerators:
        found["GPU"] = float(task.accelerators)
    return found


def _has(resources: Mapping[str, float], needs: Mapping[str, float]) -> bool:
    return all(resources.get(name, 0.0) >= amount for name, amount in needs.items())


def _missing(task: Task, nodes: Any) -> str:
    needs = ", ".join(f"{name}: {amount:g}" for name, amount in _needs(task).items())
    names = ", ".join(sorted(str(one["NodeManagerHostname"]) for one in nodes)) or "none"
    return (
        f"{task.title}: no node of the cluster has {needs or 'a CPU'}; nodes with CPUs: {names}; "
        "add one, and the same command goes on"
    )


def _first(error: BaseException | None) -> str:
    """The first line of what an error says."""
    return next(iter(str(error).strip().splitlines()), "") or type(error).__name__
