"""Synthetic run directories, written through the record as a driver, worker and sampler would."""

import contextlib
import json
import math
import os
import random
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from trainload.checked import to_json
from trainload.record import (
    SAMPLE_HEAD,
    LineAppender,
    Manifest,
    create_run_directory,
    load_facts,
    parse_manifest,
)
from trainload.record.layout import EVENTS, SAMPLES, WORKER_LOG
from trainload.record.manifest import manifest_json
from trainload.workload import Masking, assemble_workload, recorded_workload

with contextlib.suppress(ModuleNotFoundError):  # environments for one library have it not
    from hypothesis import settings

    # How long an example takes is the machine's matter: other tests run beside it.
    settings.register_profile("trainload", deadline=None)
    settings.load_profile("trainload")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As behind `nohup … &`: what is started by tests of Ctrl-C would ignore it too.
    signal.signal(signal.SIGINT, signal.default_int_handler)

START_S = 1000.0
HOSTILE = "<script>alert(1)</script>[bold]\x1b[31m\u202e&\"'"

MakeRun = Callable[..., Path]

# Frameworks are looked for where `make test` puts them; a user's own are neither used nor changed.
os.environ.setdefault("TRAINLOAD_ENVS", str(Path(__file__).parents[1] / ".venv-frameworks"))


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What a synthetic run is like."""

    steps_per_epoch: int = 100
    epochs: int = 3
    step_s: float = 0.05
    rate_hz: float = 10.0
    gpu: bool = False
    cores: int = 2
    extra_columns: int = 0
    samples: bool = True
    outcome: str | None = "completed"
    reason: str | None = None
    hostile: bool = False
    pauses: int = 0
    pause_s: float = 1.0
    nan_from_step: int | None = None
    script: bool = False
    """A user's own script: steps without losses, no epochs, no data."""
    gpu_index: int = 0
    energy_every: int = 1
    """Samples from one reading of the joule counter to the next."""
    samples_from_s: float = 0.0
    max_steps: int | None = None
    last_rows: int = 512
    """Rows in an epoch's last batch."""
    empty_classes: int = 0
    """Classes without a row in the validation set, beside two that have some."""
    faults_per_s: int | None = None
    """Page faults; the system then takes a third of the run's processor time."""
    overhead: dict[str, Any] | None = None
    changes: dict[str, Any] | None = None


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """Builds a run directory from the fields of `RunOptions` and answers its path."""

    def make(**options: Any) -> Path:
        return write_run(tmp_path / "runs", RunOptions(**options))

    return make


@pytest.fixture(scope="session")
def write_one() -> MakeRun:
    """As `make_run`, into the folder that is named first; for fixtures of a whole module."""
    return lambda parent, **options: write_run(parent, RunOptions(**options))


def write_run(parent: Path, options: RunOptions) -> Path:
    """Write one run; left open, as after a crash of everything, where the outcome is None."""
    quantities = _quantities(options)
    run = create_run_directory(parent, "mlp", _manifest(options, quantities))
    end_s = _write_events(run.path / EVENTS, options)
    pauses = _pauses(options, end_s)
    if options.samples:
        _write_samples(run.path / SAMPLES, options, quantities, end_s, pauses)
    (run.path / WORKER_LOG).write_text(
        "epoch 1\nTraceback (most recent call last):\n  RuntimeError: "
        + (HOSTILE if options.hostile else "it broke")
        + "\n"
    )
    if options.outcome is None:
        run.lock.free()
        return run.path
    facts, _ = load_facts(run.path, START_S)
    manifest = run.manifest
    overhead = options.overhead or {
        "verdict": "resolved",
        "ratio": 1.004,
        "low": 1.001,
        "high": 1.007,
        "confidence": 0.95,
        "observations": max(options.pauses, 5),
        "reason": None,
        "method": "alternating blocks",
    }
    document = manifest_json(facts.written_into(manifest))
    document["clock"] |= {"end_s": START_S + end_s + 0.5, "end_wall_s": 1_700_000_000.5 + end_s}
    blocks = [{"start_s": a, "end_s": b} for a, b in pauses]
    document |= {"outcome": options.outcome, "outcome_reason": options.reason}
    document |= {"overhead": {**overhead, "blocks": blocks}, **(options.changes or {})}
    run.close(parse_manifest(json.dumps(document), "the test's record"))
    return run.path


def _manifest(options: RunOptions, quantities: list[dict[str, Any]]) -> Manifest:
    workload: dict[str, Any] = to_json(
        recorded_workload(assemble_workload("mlp", {"epochs": max(options.epochs, 1)}), Masking())
    )
    if options.script:
        script = {"path": "own/train.py", "arguments": ["--lr", "0.1"], "sha256": "0" * 64}
        workload = {"model": "train", "script": script}
    if options.hostile:
        workload["model"] = HOSTILE
    accelerators = [
        {
            "index": 0,
            "nvml_index": 0,
            "uuid": "GPU-1",
            "name": HOSTILE if options.hostile else "NVIDIA H200",
            "memory_bytes": 150 * 2**30,
            "driver": "570.1",
        }
    ][: int(options.gpu)]
    text = f"cpu0-{options.cores - 1}" + ("+gpu0" if options.gpu else "")
    document = {
        "format": 1,
        "run_id": "replaced",
        "created": "2026-07-20T10:00:00Z",
        "trainload_version": "0.1.0",
        "framework": "torch",
        "workload": workload,
        "setting": {
            "asked": {"setting": None, "threads": None},
            "resolved": {
                "text": text,
                "cores": list(range(options.cores)),
                "threads": options.cores,
                "accelerators": accelerators,
            },
            "obtained": None,
        },
        "machine": {
            "cpu_model": "Example CPU 9000",
            "architecture": "x86_64",
            "logical_cores": options.cores,
            "physical_cores": options.cores,
            "allowed_cores": list(range(options.cores)),
            "cpu_quota_cores": None,
            "memory_total_bytes": 16 * 2**30,
            "memory_limit_bytes": None,
            "swap_total_bytes": 0,
            "operating_system": HOSTILE if options.hostile else "Example Linux 1",
            "kernel": "6.1",
            "accelerators": accelerators,
            "accelerator_note": None if options.gpu else "no NVIDIA driver",
        },
        "clock": {"start_s": START_S, "start_wall_s": 1_700_000_000.0},
        "software": {"trainload": "0.1.0"},
        "meters": (
            {"name": "synthetic", "period_s": 0.0, "quantities": quantities},
            {
                "name": "rapl",
                "period_s": 0.0,
                "quantities": [
                    _quantity(
                        "rapl_package_0_energy_j",
                        provenance="unavailable",
                        source="/sys/class/powercap",
                        reason="energy_uj may not be read by this user",
                    )
                ],
            },
        ),
        "sampler": {
            "rate_hz": options.rate_hz,
            "samples": 100,
            "late": 1,
            "missed": 0,
            "cpu_s": 0.5,
            "loop_cpu_s": 0.4,
            "wall_s": 12.3,
            "peak_rss_bytes": 20 * 2**20,
            "cores": [0],
            "restarts": 0,
            "lost_lines": 0,
            "meter_errors": {},
            "paused_s": options.pauses * options.pause_s,
        },
    }
    return parse_manifest(json.dumps(document), "the test's record")


def _quantity(column: str, **fields: Any) -> dict[str, Any]:
    return {
        "column": column,
        "unit": None,
        "provenance": "measured",
        "source": "/proc/stat",
        "refresh_s": 0.01,
        "reason": None,
        "capacity": 1.0 if column.endswith("_fraction") else None,
        "cumulative": False,
        **fields,
    }


def _quantities(options: RunOptions) -> list[dict[str, Any]]:
    names = ["host_cpu_load_fraction"]
    names += [f"host_cpu{core}_load_fraction" for core in range(options.cores)]
    names += [f"host_cpu{core}_clock_hz" for core in range(options.cores)]
    names += ["host_ram_used_bytes", "host_ram_load_fraction", "run_cpu_load_fraction"]
    names += ["run_rss_bytes", "run_threads_count"]
    found = [_quantity(name) for name in names]
    found.append(_quantity("run_pss_bytes", refresh_s=5.0, source="smaps_rollup"))
    found.append(_quantity("run_cpu_s", cumulative=True))
    if options.faults_per_s is not None:
        found.append(_quantity("run_kernel_s", cumulative=True))
        found.append(_quantity("run_page_faults_count", cumulative=True))
    if options.gpu:
        nvml = {"source": "NVML", "refresh_s": 0.1}
        found += [
            _quantity(f"gpu{options.gpu_index}_{name}", **nvml)
            for name in (
                "load_fraction",
                "memory_used_bytes",
                "memory_used_fraction",
                "power_w",
                "sm_clock_hz",
                "temperature_celsius",
                "throttle_bits",
            )
        ]
        found.append(_quantity(f"gpu{options.gpu_index}_energy_j", cumulative=True, **nvml))
    found += [_quantity(f"extra{n}_load_fraction") for n in range(options.extra_columns)]
    if options.hostile:
        found.append(_quantity(f"{HOSTILE}_load_fraction", source=HOSTILE, reason=HOSTILE))
    return found


def _value(column: str, t_s: float, busy: bool, dice: random.Random) -> float | None:
    wave = 0.5 + 0.3 * math.sin(t_s / 3) + dice.gauss(0, 0.05) if busy else 0.05
    wave = min(max(wave, 0.0), 1.0)
    if column.endswith("throttle_bits"):
        return 0.0 if busy else 1.0
    if column == "run_pss_bytes":
        return 4e8 if round(t_s * 10) % 50 == 0 else None
    if column == "run_cpu_s":
        return 1.5 * t_s
    if column == "run_kernel_s":
        return 0.5 * t_s
    if column.endswith("energy_j"):
        return 300.0 * t_s
    scales = {"_fraction": 1, "_bytes": 4e9, "_hz": 3e9, "_w": 400, "_celsius": 80, "_count": 9}
    for suffix, scale in scales.items():
        if column.endswith(suffix):
            return round(wave * scale, 4)
    return None


def _pauses(options: RunOptions, end_s: float) -> list[tuple[float, float]]:
    every = end_s / (options.pauses + 1)
    return [(every * (n + 1), every * (n + 1) + options.pause_s) for n in range(options.pauses)]


def _write_samples(
    path: Path,
    options: RunOptions,
    quantities: list[dict[str, Any]],
    end_s: float,
    pauses: list[tuple[float, float]],
) -> None:
    columns = [q["column"] for q in quantities]
    dice = random.Random(1)
    appender = LineAppender(path)
    appender.append({"columns": [*SAMPLE_HEAD, *columns]})
    for tick in range(int(end_s * options.rate_hz)):
        t_s = tick / options.rate_hz
        if t_s < options.samples_from_s or any(a < t_s < b for a, b in pauses):
            continue
        unread = "_energy_j" if tick % options.energy_every else "\0"
        values = [None if c.endswith(unread) else _value(c, t_s, t_s > 2.0, dice) for c in columns]
        if "run_page_faults_count" in columns:
            values[columns.index("run_page_faults_count")] = (options.faults_per_s or 0) * t_s
        appender.append([tick, START_S + t_s, 0.001, 0.0005 * tick, *values])
    appender.close()


def _write_events(path: Path, options: RunOptions) -> float:
    """Two seconds of preparation, then epochs of steps with a short validation each."""
    events = LineAppender(path)
    t_s = START_S
    events.append(
        {
            "kind": "hello",
            "t_s": t_s,
            "python": "3.12.1",
            "framework": "torch",
            "framework_version": "2.9.0",
            "software": {"torch": "2.9.0", "cuda": "12.8" if options.gpu else None},
        }
    )
    for name in () if options.script else ("prepare", "build"):
        events.append({"kind": "phase", "name": name, "edge": "begin", "t_s": t_s})
        t_s += 1.0
        events.append({"kind": "phase", "name": name, "edge": "end", "t_s": t_s})
    _append_facts(events, options, t_s)
    dice = random.Random(2)
    phase = "script" if options.script else "train"
    events.append({"kind": "phase", "name": phase, "edge": "begin", "t_s": t_s})
    for epoch in range(options.epochs):
        begin = t_s
        ends, losses = [], []
        for index in range(options.steps_per_epoch):
            step = epoch * options.steps_per_epoch + index
            if options.max_steps is not None and step >= options.max_steps:
                break
            t_s += options.step_s * (10 if step == 0 else 1)
            ends.append(round(t_s, 6))
            bad = options.script or (
                options.nan_from_step is not None and step >= options.nan_from_step
            )
            losses.append(None if bad else 0.3 + 2 * math.exp(-step / 100) + dice.gauss(0, 0.05))
        events.append(
            {
                "kind": "steps",
                "first_step": epoch * options.steps_per_epoch,
                "epoch": epoch,
                "start_s": begin,
                "end_s": ends,
                "loss": losses,
            }
        )
        if options.script:
            continue
        score = 1 - 0.6 * math.exp(-epoch)
        events.append(
            {
                "kind": "epoch",
                "epoch": epoch,
                "start_s": begin,
                "end_s": t_s,
                "steps": options.steps_per_epoch,
                "train_loss": 0.4,
                "validation_start_s": t_s,
                "validation_end_s": t_s + 0.4,
                "validation": {
                    "loss": 1 - score / 2,
                    "accuracy": score,
                    "f1_weighted": score - 0.01,
                    "f1_macro": score - 0.02,
                    "top5_accuracy": min(1.0, score + 0.2),
                },
            }
        )
        t_s += 0.4
    events.append({"kind": "phase", "name": phase, "edge": "end", "t_s": t_s})
    if options.outcome == "completed":
        events.append({"kind": "end", "outcome": "completed", "t_s": t_s})
    events.close()
    return t_s - START_S


def _append_facts(events: LineAppender, options: RunOptions, t_s: float) -> None:
    obtained = {
        "cores": list(range(options.cores)),
        "threads": options.cores,
        "device": "cuda:0" if options.gpu else "cpu",
        "accelerators": [{"name": "H200", "uuid": "GPU-1"}][: int(options.gpu)],
        "notes": [],
    }
    events.append({"kind": "setting", "t_s": t_s, "obtained": obtained})
    if options.script:
        return
    classes = ["BL", HOSTILE if options.hostile else "FL"]
    events.append(
        {
            "kind": "data",
            "t_s": t_s,
            "train_rows": (options.steps_per_epoch - 1) * 512 + options.last_rows,
            "validation_rows": 20_000,
            "train_groups": 80,
            "validation_groups": 20,
            "classes": classes,
            "steps_per_epoch": options.steps_per_epoch,
            "total_steps": options.steps_per_epoch * options.epochs,
            "validation_class_counts": {
                **dict.fromkeys(classes, 10_000),
                **{f"EMPTY{n}": 0 for n in range(options.empty_classes)},
            },
        }
    )
    graph = assemble_workload("mlp", {}).graph
    layers = [{"name": layer.name, "kind": layer.kind, "parameters": 10} for layer in graph.layers]
    events.append({"kind": "model", "t_s": t_s, "parameters": graph.parameters, "layers": layers})
