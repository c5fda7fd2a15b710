"""Where cells are run: this machine now; others by the same few words."""

from trainload.study.executors.executor import Executor, Finished, Task
from trainload.study.executors.local import LocalExecutor

__all__ = ["Executor", "Finished", "LocalExecutor", "Task"]
