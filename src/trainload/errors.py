"""The errors a user can cause or meet; imports nothing of ours.

TrainloadError
├── UsageError          an option or argument that cannot be meant
├── WorkloadError       what is trained cannot be built or read
│   └── GraphError      a layer graph that cannot be built; names the layer
├── StudyError          a run or study file that cannot be meant; names file, line and key
├── SettingError        the part of the machine asked for does not exist
│   ├── UnknownHardware a device that the catalogue does not hold, or a file that describes none
│   └── HardwareFileError  a file of calibrations, prices or carbon that cannot be read or written
├── MeterError          a meter that answered wrongly or stopped answering
├── WorkerError         the training process could not be started
├── EnvironmentProblem  a framework's environment is missing, wrong or cannot be made
├── RecordError         a run directory that cannot be read or written
│   ├── RecordTooOld    written by a version whose format is no longer read
│   ├── RecordTooNew    written by a later version
│   └── RecordIncomplete  the run has left nothing readable yet
├── TraceError          a trace file that cannot be read or is none
└── MissingPart         an optional library the verb needs is not installed

A message says what, where and the next act. Only `cli` catches these.
Out of memory or an absent meter is an outcome with its reason, not an exception.
"""


class TrainloadError(Exception):
    """Root of every error meant for the user's eyes; its text is one line."""


class UsageError(TrainloadError):
    """An option or argument that cannot be meant."""


class WorkloadError(TrainloadError):
    """What is to be trained cannot be built or read."""


class GraphError(WorkloadError):
    """A layer graph that cannot be built; the message names the layer."""


class StudyError(TrainloadError):
    """A run or study file that cannot be meant; the text names file, line and key."""


class SettingError(TrainloadError):
    """The part of the machine asked for does not exist here."""


class UnknownHardware(SettingError):
    """A device that the catalogue does not hold, or a file that describes none."""


class HardwareFileError(SettingError):
    """A file of calibrations, prices or carbon that cannot be read, written or believed."""


class MeterError(TrainloadError):
    """A meter answered wrongly or stopped answering."""


class WorkerError(TrainloadError):
    """The training process could not be started."""


class EnvironmentProblem(TrainloadError):
    """A framework's environment is missing, wrong or cannot be made."""


class RecordError(TrainloadError):
    """A run directory that cannot be read or written."""


class RecordTooOld(RecordError):
    """Written in a format that is no longer read."""


class RecordTooNew(RecordError):
    """Written by a later version of trainload."""


class RecordIncomplete(RecordError):
    """The run has left nothing readable yet."""


class TraceError(TrainloadError):
    """A file that is no trace, or one of another program."""


class MissingPart(TrainloadError):
    """An optional library that the verb needs is not installed."""


class Terminated(BaseException):
    """SIGTERM or SIGHUP came; the text is the signal's name."""
