"""Where cells are run: this machine, a machine over ssh, a Ray cluster, a Slurm cluster."""

from trainload.study.executors.executor import Executor, Finished, Task, Tell
from trainload.study.executors.local import LocalExecutor

__all__ = ["Executor", "Finished", "LocalExecutor", "Task", "Tell"]
