"""Cells on this machine, one after the other, each by a worker of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trainload.errors import RecordError, TrainloadError
from trainload.record import Run
from trainload.study.executors.executor import Begun, Finished, Task

RunTask = Callable[[Task], Run]


class LocalExecutor:
    """Runs each task when it is collected, in this process's main thread, where Ctrl-C arrives."""

    capacity = 1
    elsewhere = False

    def __init__(self, run_task: RunTask) -> None:
        self._run_task = run_task
        self._waiting: list[tuple[Task, Begun]] = []
        self._back: list[Finished] = []

    def submit(self, task: Task, begun: Begun) -> None:
        """Keep the task until `collect`."""
        self._waiting.append((task, begun))

    def collect(self, wait_s: float) -> Sequence[Finished]:  # noqa: ARG002 - runs to their end
        """Run the tasks; a refusal to start one is its problem, a record that fails is ours."""
        waiting, self._waiting = self._waiting, []
        back, self._back = self._back, []
        return [*back, *(self._run(task, begun) for task, begun in waiting)]

    def _run(self, task: Task, begun: Begun) -> Finished:
        begun()
        try:
            return Finished(task=task, run=self._run_task(task))
        except RecordError:
            raise  # no disk, no folder: the next cell would meet the same
        except TrainloadError as error:
            return Finished(task=task, run=None, problem=str(error))

    def cancel(self, *, running: bool) -> None:  # noqa: ARG002 - the interrupt itself ends it
        """Take back what was not begun."""
        self._back += [
            Finished(task=task, run=None, lost=True, begun=False) for task, _ in self._waiting
        ]
        self._waiting.clear()

    def close(self) -> None:
        """Nothing is held between tasks."""
