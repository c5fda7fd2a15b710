"""How far estimates were from what then happened: errors by device, model kind and quantity.

Takes manifests and documents that were read elsewhere, gives frames; opens no file, draws nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainload.analyse.peaks import measured_peak
from trainload.units import MISSING
from trainload.workload.identity import model_kind

if TYPE_CHECKING:
    import polars as pl

    from trainload.record import Manifest
    from trainload.record.estimates import RecordedCard, RecordedEstimate

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
    manifest: Manifest, estimate: RecordedEstimate
) -> tuple[list[EstimatePair], list[VerdictPair]]:
    """What a run's record and the estimate in its directory say of the same quantities."""
    memory = estimate.memory
    if memory is None:
        return [], []
    device = estimate.device_name or str(next(iter(_accelerators(manifest)), None) or "cpu")
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
        if (estimated := getattr(memory, figure)) is not None
        and (truth := truths[quantity]) is not None
    ]
    outcome = _OUTCOMES.get(manifest.outcome or "")
    if outcome is None or memory.verdict is None:
        return pairs, []
    said = VerdictPair(
        name=manifest.run_id or MISSING,
        device=device,
        capacity_bytes=memory.capacity_bytes,
        verdict=memory.verdict,
        outcome=outcome,
    )
    return pairs, [said]


def pair_card(card: RecordedCard) -> tuple[list[EstimatePair], list[VerdictPair]]:
    """The rows of a file of estimates beside truths, by quantity."""
    pairs = [
        EstimatePair(
            name=row.name,
            device=row.device,
            model_kind=row.model_kind,
            quantity=quantity,
            estimate_bytes=estimated,
            truth_bytes=truth,
        )
        for row in card.rows
        for quantity in QUANTITIES
        if (estimated := getattr(row.estimate, quantity)) is not None
        and (truth := getattr(row.truth, quantity)) is not None
    ]
    verdicts = [
        VerdictPair(
            name=row.name,
            device=row.device,
            capacity_bytes=row.capacity_bytes,
            verdict=row.verdict,
            outcome=row.outcome,
        )
        for row in card.verdicts
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


def _truths(manifest: Manifest) -> dict[str, int | None]:
    """What the worker saw of each quantity; resident memory counts where it trained on the CPU."""
    peak = measured_peak(manifest)
    return {
        "allocated": peak.allocated_bytes,
        "reserved": peak.reserved_bytes,
        "device": None,
        "ram": None if _accelerators(manifest) else peak.rss_growth_bytes,
    }


def _accelerators(manifest: Manifest) -> list[str | None]:
    """Names of what the run obtained."""
    obtained = manifest.setting.obtained
    return [one.name for one in (obtained.accelerators or ())] if obtained is not None else []
