"""How far estimates were from what then happened: errors by device, model kind and quantity.

Takes manifests and documents that were read elsewhere, gives frames; opens no file, draws nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trainload.units import MISSING
from trainload.workload.identity import model_kind

if TYPE_CHECKING:
    import polars as pl

    from trainload.record import Manifest

QUANTITIES = ("allocated", "reserved", "device", "ram")
"""Memory of tensors, of the allocator, of the whole device, and growth of resident memory."""
WORST_ROWS = 10
_FIGURES: Mapping[str, str] = {
    "allocated": "allocated_bytes",
    "reserved": "reserved_bytes",
    "device": "device_bytes",
    "ram": "ram_growth_bytes",
}
"""The names in an estimate's `memory`."""
_OUTCOMES = {"completed": "fits", "out_of_memory": "out_of_memory"}


@dataclass(frozen=True, kw_only=True)
class EstimatePair:
    """One quantity that was estimated and later measured."""

    name: str
    device: str
    model_kind: str
    quantity: str
    estimate_bytes: int
    truth_bytes: int


@dataclass(frozen=True, kw_only=True)
class VerdictPair:
    """What was said about a capacity, and what happened there."""

    name: str
    device: str
    capacity_bytes: int | None
    verdict: str
    """fits, does not fit, too close to call, not known."""
    outcome: str
    """fits or out_of_memory."""


@dataclass(frozen=True)
class Scorecard:
    """Frames; an error is estimate / truth - 1."""

    rows: pl.DataFrame
    """name, device, model_kind, quantity, estimate_bytes, truth_bytes, error; worst first."""
    groups: pl.DataFrame
    """device, model_kind, quantity, count, median_error, worst_error, bias_error."""
    totals: pl.DataFrame
    """The same by device and quantity, over all kinds."""
    verdicts: pl.DataFrame
    """verdict, fits, out_of_memory: how often each was followed by each."""
    wrong_fits: pl.DataFrame
    """name, device, capacity_bytes: said to fit, and ran out."""

    @property
    def worst(self) -> pl.DataFrame:
        """The rows that are furthest off."""
        return self.rows.head(WORST_ROWS)


def pair_run(
    manifest: Manifest, estimate: Mapping[str, Any]
) -> tuple[list[EstimatePair], list[VerdictPair]]:
    """What a run's record and the estimate in its directory say of the same quantities."""
    memory = estimate.get("memory")
    memory = memory if isinstance(memory, Mapping) else {}
    device = _device(manifest, estimate)
    truths = _truths(manifest)
    pairs = [
        EstimatePair(
            name=manifest.run_id or MISSING,
            device=device,
            model_kind=model_kind(manifest.workload),
            quantity=quantity,
            estimate_bytes=estimated,
            truth_bytes=truth,
        )
        for quantity, figure in _FIGURES.items()
        if (estimated := _count(memory.get(figure))) is not None
        and (truth := truths.get(quantity)) is not None
    ]
    outcome = _OUTCOMES.get(manifest.outcome or "")
    verdict = memory.get("verdict")
    if outcome is None or not isinstance(verdict, str):
        return pairs, []
    capacity = _count(memory.get("capacity_bytes"))
    said = VerdictPair(
        name=manifest.run_id or MISSING,
        device=device,
        capacity_bytes=capacity,
        verdict=verdict,
        outcome=outcome,
    )
    return pairs, [said]


def pair_card(document: Mapping[str, Any]) -> tuple[list[EstimatePair], list[VerdictPair]]:
    """The rows of a file of estimates beside truths; a row that lacks something is passed over."""
    pairs = [
        EstimatePair(
            name=str(row["name"]),
            device=str(row["device"]),
            model_kind=str(row["model_kind"]),
            quantity=quantity,
            estimate_bytes=estimated,
            truth_bytes=truth,
        )
        for row in _objects(document.get("rows"), ("name", "device", "model_kind"))
        for quantity in QUANTITIES
        if (estimated := _count(_part(row, "estimate").get(quantity))) is not None
        and (truth := _count(_part(row, "truth").get(quantity))) is not None
    ]
    verdicts = [
        VerdictPair(
            name=str(row["name"]),
            device=str(row["device"]),
            capacity_bytes=_count(row.get("capacity_bytes")),
            verdict=str(row["verdict"]),
            outcome=str(row["outcome"]),
        )
        for row in _objects(document.get("verdicts"), ("name", "device", "verdict", "outcome"))
    ]
    return pairs, verdicts


def score_estimates(
    pairs: Iterable[EstimatePair], verdicts: Iterable[VerdictPair] = ()
) -> Scorecard:
    """Errors in all, by group, and the verdicts counted; a truth of nothing has no error."""
    import polars as pl

    text, size = pl.String, pl.Int64
    fields = {"name": text, "device": text, "model_kind": text, "quantity": text}
    rows = pl.DataFrame(
        [vars(pair) for pair in pairs if pair.truth_bytes > 0],
        schema={**fields, "estimate_bytes": size, "truth_bytes": size},
        orient="row",
    )
    rows = rows.with_columns(
        error=pl.col("estimate_bytes") / pl.col("truth_bytes") - 1,
        quantity=pl.col("quantity").cast(pl.Enum(QUANTITIES)),
    ).sort(pl.col("error").abs(), pl.col("name"), descending=[True, False])
    said = pl.DataFrame(
        [vars(verdict) for verdict in verdicts],
        schema={
            "name": text,
            "device": text,
            "capacity_bytes": size,
            "verdict": text,
            "outcome": text,
        },
        orient="row",
    )
    wrong = (pl.col("verdict") == "fits") & (pl.col("outcome") == "out_of_memory")
    return Scorecard(
        rows=rows,
        groups=_grouped(rows, ["device", "model_kind", "quantity"]),
        totals=_grouped(rows, ["device", "quantity"]),
        verdicts=said.group_by("verdict", maintain_order=True)
        .agg(
            fits=(pl.col("outcome") == "fits").sum(),
            out_of_memory=(pl.col("outcome") == "out_of_memory").sum(),
        )
        .sort("verdict"),
        wrong_fits=said.filter(wrong).select("name", "device", "capacity_bytes"),
    )


def _grouped(rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    import polars as pl

    error = pl.col("error")
    return (
        rows.group_by(by)
        .agg(
            count=pl.len(),
            median_error=error.abs().median(),
            # Rows come worst first.
            worst_error=error.first(),
            bias_error=error.mean(),
        )
        .sort(by)
    )


def _truths(manifest: Manifest) -> dict[str, int]:
    """What the worker saw of each quantity; resident memory counts where it trained on the CPU."""
    memory = manifest.memory
    found = {"allocated": memory.peak_allocated_bytes, "reserved": memory.peak_reserved_bytes}
    start, peak = memory.start_rss_bytes, memory.peak_rss_bytes
    if not _accelerators(manifest) and start is not None and peak is not None:
        found["ram"] = peak - start
    return {name: value for name, value in found.items() if value is not None}


def _device(manifest: Manifest, estimate: Mapping[str, Any]) -> str:
    said = estimate.get("device")
    if isinstance(said, Mapping) and isinstance(said.get("name"), str):
        return str(said["name"])
    return str(next(iter(_accelerators(manifest)), None) or "cpu")


def _accelerators(manifest: Manifest) -> list[str | None]:
    """Names of what the run obtained."""
    obtained = manifest.setting.obtained
    return [one.name for one in (obtained.accelerators or ())] if obtained is not None else []


def _objects(rows: Any, needed: Sequence[str]) -> list[Mapping[str, Any]]:
    found = rows if isinstance(rows, list) else []
    return [
        row for row in found if isinstance(row, Mapping) and all(name in row for name in needed)
    ]


def _part(row: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = row.get(name)
    return part if isinstance(part, Mapping) else {}


def _count(value: Any) -> int | None:
    """Whole bytes; None for anything else."""
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and value == value
    return int(value) if good and abs(value) < 2**62 else None
