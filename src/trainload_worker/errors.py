"""The problems a user can mend; imports nothing of ours.

WorkerProblem
├── SpecError       the specification on standard input cannot be read
├── DataError       the data set cannot be read, made or split
├── GraphError      the layer graph cannot be built; the message names the layer
├── FrameworkError  the framework, or the device asked of it, is not there
└── CheckpointError a checkpoint cannot be written, read or does not fit the model

A message is one line: what and where. Anything else that is raised is a failure of the training
itself and leaves its traceback in the worker's log.
"""


class WorkerProblem(Exception):
    """Root of the problems whose message alone is enough for the user."""


class SpecError(WorkerProblem):
    """The specification on standard input cannot be read."""


class DataError(WorkerProblem):
    """The data set cannot be read, made or split."""


class GraphError(WorkerProblem):
    """The layer graph cannot be built; the message names the layer."""


class FrameworkError(WorkerProblem):
    """The framework, or the device asked of it, is not there."""


class CheckpointError(WorkerProblem):
    """A checkpoint cannot be written or read, or does not fit the model."""
