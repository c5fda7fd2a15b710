"""Resident memory of CPU trainings: the growth of short runs beside its estimate, model by model.

    .venv/bin/python bench/memory_ram.py --work FOLDER --json FILE

Each case is three steps of a built-in model by `trainload run`, whose record tells the resident
memory when building began and its peak, and an op trace of the same workload for the CPU. Runs and
traces stay in the work folder: a second call measures only what is not there yet.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

STEPS = 3
LIMIT_S = 900

_TABLE = """
mlp 8192 adam; fully_connected 16384 sgd; recurrent 256 adam; lenet5 2048 sgd
transformer_encoder 32 adamw; lstm_lm 16 adam; conv_residual 64 adam; conv_bottleneck 64 sgd
squeezenet1_1 16 adam; alexnet 16 adam; resnet18 16 adam; googlenet 8 sgd; squeezenet1_0 8 adamw
densenet121 4 adam; inception_v3 4 adam; resnet50 8 sgd; vgg11 2 adam; resnet152 2 adam; vgg16 2 sgd
mlp 32768 sgd; transformer_encoder 8 adam; resnet18 4 sgd; alexnet 64 sgd; conv_residual 256 sgd
recurrent 1024 sgd; lstm_lm 64 sgd; squeezenet1_1 64 sgd
"""
_FRESH = """
lenet5 8192 adam; densenet121 8 sgd; resnet50 4 adamw; googlenet 24 adam
fully_connected 8192 adam; mlp 16384 adamw; transformer_encoder 64 sgd; recurrent 512 adamw
lstm_lm 32 adamw; alexnet 32 adamw; conv_bottleneck 128 adam; squeezenet1_0 24 sgd; vgg11 4 sgd
inception_v3 8 sgd
"""


@dataclass(frozen=True, kw_only=True)
class RamCase:
    """One short training."""

    model: str
    batch: int
    optimizer: str

    @property
    def name(self) -> str:
        """`resnet18-b16-adam`."""
        return f"{self.model}-b{self.batch}-{self.optimizer}"

    def words(self) -> list[str]:
        """As `trainload run` and `parse_words` take them."""
        rows = -(-STEPS * self.batch * 5 // 4) + 8
        return [
            f"batch_size={self.batch}",
            f"optimizer={self.optimizer}",
            f"max_steps={STEPS}",
            f"rows={rows}",
            "validate=never",
            "data=synthetic",
        ]


def _read_table(text: str) -> Iterator[RamCase]:
    for row in filter(str.strip, text.replace("\n", ";").split(";")):
        model, batch, optimizer = row.split()
        yield RamCase(model=model, batch=int(batch), optimizer=optimizer)


CASES = tuple(_read_table(_TABLE + _FRESH))
FRESH = frozenset(case.name for case in _read_table(_FRESH))
"""Measured after the rules were chosen while looking at the others: the honest error."""


def measure_growth(case: RamCase, work: Path) -> dict[str, Any]:
    """The `memory` of the case's run; runs it where it has not been run."""
    folder = work / case.name / "runs"
    found = _recorded(folder)
    if found is None:
        words = [word for each in case.words() for word in ("--set", each)]
        command = [sys.executable, "-m", "trainload", "run", case.model, *words]
        options = ["--no-check-overhead", "--no-layers", "-q", "--timeout", str(LIMIT_S)]
        done = subprocess.run(
            [*command, *options, "--out", str(folder)], capture_output=True, text=True, check=False
        )
        found = _recorded(folder)
        if found is None:
            raise SystemExit(f"{case.name}: {(done.stderr or done.stdout).strip()[-300:]}")
    return found


def _recorded(folder: Path) -> dict[str, Any] | None:
    for path in sorted(folder.glob("*/run.json"), reverse=True):
        record = json.loads(path.read_text())
        if record["outcome"] == "completed":
            software = record["software"]["framework_version"]
            threads = record["setting"]["obtained"]["threads"]
            return {**record["memory"], "torch": software, "threads": threads}
    return None


def estimate_growth(case: RamCase, work: Path) -> tuple[Any, float]:
    """The estimate of the same workload and the seconds it took, from a trace made if need be."""
    from trainload.estimate.memory.op_trace import load_op_trace
    from trainload.estimate.memory.ram import estimate_ram
    from trainload.run import OpTraceRequest, measure_libraries_bytes, spawn_op_trace
    from trainload.workload import assemble_workload, parse_words

    folder = work / case.name / "trace"
    path = folder / "ops.jsonl.gz"
    if not path.exists():
        workload = assemble_workload(case.model, parse_words(case.model, case.words()))
        request = OpTraceRequest(
            source=workload, python=sys.executable, target="cpu", iterations=STEPS
        )
        spawn_op_trace(request, folder)
    taken = measure_libraries_bytes("torch", sys.executable)
    began_s = time.monotonic()
    found = estimate_ram(load_op_trace(path).events(), libraries_bytes=taken)
    return found, time.monotonic() - began_s


def compare(case: RamCase, work: Path) -> dict[str, Any]:
    """Measured and estimated growth of one case."""
    memory = measure_growth(case, work)
    found, elapsed_s = estimate_growth(case, work)
    growth = memory["peak_rss_bytes"] - memory["start_rss_bytes"]
    estimate = found.growth_bytes.value_bytes
    return {
        "name": case.name,
        **asdict(case),
        "fresh": case.name in FRESH,
        "measured_bytes": growth,
        "estimate_bytes": estimate,
        "error": round(estimate / growth - 1, 4),
        "within": found.growth_bytes.low_bytes <= growth <= found.growth_bytes.high_bytes,
        "tensors_bytes": found.held_bytes,
        "heap_bytes": found.heap_bytes,
        "replay_s": round(elapsed_s, 3),
        "torch": memory["torch"],
        "threads": memory["threads"],
    }


def _summarise(what: str, rows: list[dict[str, Any]]) -> None:
    errors = [abs(row["error"]) for row in rows]
    if errors:
        print(
            f"{what}: {len(rows)} cases, median error {statistics.median(errors):.1%}, "
            f"worst {max(errors):.1%}, {sum(row['within'] for row in rows)} within their range"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    given = parser.parse_args()
    rows = []
    print(f"{'case':34} {'measured':>10} {'estimate':>10} {'error':>8}  tensors alone")
    for case in (case for case in CASES if given.only in case.name):
        row = compare(case, given.work)
        rows.append(row)
        sizes = [row[key] / 2**20 for key in ("measured_bytes", "estimate_bytes")]
        alone = row["tensors_bytes"] / row["measured_bytes"] - 1
        print(
            f"{case.name:34} {sizes[0]:6.0f} MiB {sizes[1]:6.0f} MiB {row['error']:+8.1%}"
            f"  {alone:+.1%}",
            flush=True,
        )
    _summarise("all", rows)
    _summarise("measured after the rules were chosen", [row for row in rows if row["fresh"]])
    if given.json is not None:
        command = "bench/memory_ram.py --work FOLDER --json FILE"
        parts = ",\n  ".join(map(json.dumps, rows))
        head = json.dumps({"kind": "memory_ram", "format": 1, "command": command})[:-1]
        given.json.write_text(f'{head}, "rows": [\n  {parts}\n]}}\n')


if __name__ == "__main__":
    main()
