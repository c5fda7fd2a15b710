"""What one run is asked to be, and what came of it; plain values, nothing started here."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainload.errors import UsageError
from trainload.hardware import Machine, Setting, read_machine, resolve_setting
from trainload.record import AskedSetting, Manifest, Outcome, StudyCell
from trainload.record.checkpoints import Checkpoint
from trainload.run.continuation import Continuation
from trainload.run.environments.frameworks import find_framework
from trainload.workload import (
    ScriptWorkload,
    WatchedWorkload,
    Workload,
    assemble_workload,
    looks_like_script,
    script_workload,
)
from trainload_worker.protocol.offers import DEFAULT_FRAMEWORK, list_offers

RATE_LOW_HZ, RATE_HIGH_HZ = 1.0, 100.0
MAX_PROCESSES = 64


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """One run, ready to start."""

    workload: Workload | ScriptWorkload | WatchedWorkload
    machine: Machine
    setting: Setting
    asked: AskedSetting = AskedSetting()
    """The setting's words as the user gave them, kept beside what became of them."""
    out: Path
    framework: str = DEFAULT_FRAMEWORK
    python: str = sys.executable
    """Interpreter of the framework's environment."""
    rate_hz: float = 10.0
    timeout_s: float | None = None
    check_overhead: bool = True
    layer_budget: float | None = None
    """Share of the training time that tracing layers may cost; None: layers are not traced."""
    processes: int = 1
    """How many processes train together, as `torchrun --nproc-per-node` starts them."""
    fake: Mapping[str, Any] = field(default_factory=dict)
    """Options of the fake framework, for tests of everything around a training."""
    tegrastats_path: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables of the worker beside those of this process."""
    study: StudyCell | None = None
    """The cell of a study that the run realises."""
    save: bool = False
    """Whether the model is saved into the run directory at the end."""
    save_every: int | None = None
    """And after every so many epochs."""
    continues: Checkpoint | None = None
    """The checkpoint that the training begins from."""
    validate_only: bool = False
    """Whether nothing is trained: `continues` is scored on the validation rows."""

    def __post_init__(self) -> None:
        if not RATE_LOW_HZ <= self.rate_hz <= RATE_HIGH_HZ:
            raise UsageError(
                f"--rate {self.rate_hz:g}: must lie between {RATE_LOW_HZ:g} and {RATE_HIGH_HZ:g} Hz"
            )
        if not 1 <= self.processes <= MAX_PROCESSES:
            raise UsageError(
                f"--processes {self.processes}: must lie between 1 and {MAX_PROCESSES}"
            )
        if self.processes > 1 and isinstance(self.workload, Workload):
            self._check_ranks(self.workload.training.batch_size)
        loader = self.workload.training.loader if isinstance(self.workload, Workload) else None
        if find_framework(self.framework).native_loader is None and loader == "native":
            raise UsageError(
                f"--loader native: {self.framework} has no loader of its own; use cache"
            )
        if self.save and not isinstance(self.workload, Workload):
            raise UsageError("--save is for the built-in models; a script saves what it likes")
        if self.layer_budget is not None and not 0 < self.layer_budget < 1:
            raise UsageError(
                f"--layer-budget {self.layer_budget:g}: must lie between 0 and 1, such as 0.03"
            )
        if self.timeout_s is not None and not 0 < self.timeout_s < float("inf"):
            raise UsageError(f"--timeout {self.timeout_s:g}: must be above 0 seconds")

    def _check_ranks(self, batch_size: int) -> None:
        """UsageError where a built-in model cannot be trained by so many processes."""
        count, setting = self.processes, self.setting
        asked, cards = f"--processes {count}", len(setting.accelerators)
        if not find_framework(self.framework).ranks:
            able = ", ".join(offer.name for offer in list_offers() if offer.ranks)
            raise UsageError(
                f"{asked}: {self.framework} trains a built-in model in one process; {able} can"
            )
        if batch_size < count:
            raise UsageError(
                f"{asked}: a batch of {batch_size} has too few examples for one each; "
                "raise --batch-size, which is that of all processes together"
            )
        if len(setting.cores) < count:
            raise UsageError(
                f"{asked}: setting {setting.text} has {len(setting.cores)} cores; each process "
                "needs one of its own"
            )
        if self.asked.threads is not None and self.asked.threads < count:
            raise UsageError(
                f"{asked}: --threads {self.asked.threads} is of all processes together; "
                f"give at least {count}"
            )
        if cards and cards != count:
            raise UsageError(
                f"{asked}: setting {setting.text} has {cards} accelerators, and each process "
                f"trains on one; choose {count}, or none, as in --setting {_cores_text(setting)}"
            )


@dataclass(frozen=True, kw_only=True)
class RunProgress:
    """Where a run stands; a value that is not known yet is None."""

    path: Path | None = None
    """The run directory."""
    elapsed_s: float
    phase: str
    epoch: int | None = None
    epochs: int | None = None
    step: int = 0
    total_steps: int | None = None
    steps_per_s: float | None = None
    loss: float | None = None
    remaining_s: float | None = None
    loads: Mapping[str, float] = field(default_factory=dict)
    """The latest loads by column: fractions and bytes."""
    silent_s: float = 0.0
    """How long the worker has said nothing."""
    warning: str | None = None
    """Something the user should know at once; given once."""


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """How a run ended and where its record stands."""

    path: Path
    outcome: Outcome
    reason: str | None
    manifest: Manifest


def prepare_request(
    model: str,
    workload_options: Mapping[str, Any],
    *,
    arguments: Sequence[str] = (),
    seed: int = 0,
    setting: str | None = None,
    threads: int | None = None,
    machine: Machine | None = None,
    **options: Any,
) -> RunRequest:
    """A request for one run: the workload assembled, the setting checked here.

    `machine` is this one as read before, for who asks for many.

    `model` is a family's name, which `workload_options` describe further, or the path of a script,
    which `arguments` belong to. The other options are RunRequest's.
    """
    workload = _choose_workload(model, workload_options, arguments, seed)
    return _request(workload, setting, threads, machine=machine, **options)


def request_continuation(
    planned: Continuation,
    *,
    setting: str | None = None,
    threads: int | None = None,
    **options: Any,
) -> RunRequest:
    """A request to go on from a checkpoint, or to score it."""
    return _request(planned.workload, setting, threads, continues=planned.checkpoint, **options)


def _request(
    workload: Workload | ScriptWorkload,
    setting: str | None,
    threads: int | None,
    *,
    machine: Machine | None = None,
    **options: Any,
) -> RunRequest:
    machine = machine or read_machine()
    return RunRequest(
        workload=workload,
        machine=machine,
        setting=resolve_setting(setting, threads, machine),
        asked=AskedSetting(setting=setting, threads=threads),
        **options,
    )


def traces_layers_by_default(model: str, framework: str) -> bool:
    """Whether layers are traced where nobody said: in scripts, whose inside nobody knows."""
    return find_framework(framework).script_layers and looks_like_script(model)


def _cores_text(setting: Setting) -> str:
    """The setting without its accelerators."""
    return setting.text.partition("+")[0]


def _choose_workload(
    model: str, options: Mapping[str, Any], arguments: Sequence[str], seed: int
) -> Workload | ScriptWorkload:
    if not looks_like_script(model):
        if arguments:
            raise UsageError(f"{arguments[0]!r}: only a script takes arguments of its own")
        return assemble_workload(model, options, seed=seed)
    if options or seed:
        first = next((f"{name}={value}" for name, value in options.items()), f"--seed {seed}")
        raise UsageError(
            f"{first!r} is for the built-in models; "
            f"give a script its own arguments after --, as in: {model} -- --epochs 3"
        )
    return script_workload(model, arguments)
