"""Cells on this machine, one after the other, each by a worker of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trainload.errors import RecordError, TrainloadError
from trainload.record import Run
from trainload.study.executors.executor import Finished, Task

RunTask = Callable[[Task], Run]


class LocalExecutor:
    """Runs each task when it is collected, in this process's main thread, where Ctrl-C arrives."""

    capacity = 1

    def __init__(self, run_task: RunTask) -> None:
        self._run_task = run_task
        self._waiting: list[Task] = []

    def submit(self, task: Task) -> None:
        """Keep the task until `collect`."""
        self._waiting.append(task)

    def collect(self) -> Sequence[Finished]:
        """Run the tasks; a refusal to start one is its problem, a record that fails is ours."""
        waiting, self._waiting = self._waiting, []
        return [self._run(task) for task in waiting]

    def _run(self, task: Task) -> Finished:
        try:
            return Finished(task=task, run=self._run_task(task))
        except RecordError:
            raise  # no disk, no folder: the next cell would meet the same
        except TrainloadError as error:
            return Finished(task=task, run=None, problem=str(error))

    def cancel(self) -> None:
        """Forget what was not begun; what runs is ended by the interrupt itself."""
        self._waiting.clear()

    def close(self) -> None:
        """Nothing is held between tasks."""
