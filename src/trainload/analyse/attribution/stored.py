"""The attribution of a run, kept in its directory so that its traces are read once.

What is kept is a copy: anything that does not fit is worked out anew from the traces.
"""

from __future__ import annotations

import json
import os
import typing
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING, Any

from trainload._version import __version__
from trainload.analyse.attribution.types import ROW_COLUMNS, RankLayers, Traits, row_schema
from trainload.record import Run, load_layer_table, save_layer_table
from trainload_worker.protocol.checked import check_value

if TYPE_CHECKING:
    import polars as pl

FORM = 7
"""Raised whenever the same traces are to give other figures."""
_LARGEST = 1e18
"""A figure beyond it was not measured, and sums of it would leave the floats."""


def store_ranks(run: Run, ranks: Sequence[RankLayers]) -> None:
    """Save the attribution in the run directory; does nothing where that is not writable."""
    import polars as pl

    if not os.access(run.path, os.W_OK):
        return
    described = [
        {f.name: getattr(rank, f.name) for f in fields(rank) if f.name not in ("rows", "nodes")}
        | {"nodes": [asdict(node) for node in rank.nodes], "cost": asdict(rank.cost)}
        | {"traits": asdict(rank.traits), "host": [asdict(one) for one in rank.host]}
        | {"sampling": None if rank.sampling is None else asdict(rank.sampling)}
        for rank in ranks
    ]
    text = json.dumps({**_key(run), "ranks": described}, allow_nan=False)
    save_layer_table(run.path, pl.concat([rank.rows for rank in ranks]), text)


def restore_ranks(run: Run) -> tuple[RankLayers, ...] | None:
    """The saved attribution of these traces; None where none fits them and this version."""
    found = load_layer_table(run.path, ROW_COLUMNS)
    if found is None:
        return None
    rows, text = found
    try:
        kept = json.loads(text)
        if any(kept[name] != value for name, value in _key(run).items()):
            return None
        if not _are_rows(rows):
            return None
        ranks = tuple(_rank(one, rows) for one in kept["ranks"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return ranks if [rank.rank for rank in ranks] == list(run.traces) else None


def _are_rows(rows: pl.DataFrame) -> bool:
    """Whether a table has the types and figures that rows are made with."""
    import polars.selectors as cs

    if dict(rows.schema) != row_schema():
        return False
    figures = rows.select(cs.numeric().is_between(-_LARGEST, _LARGEST).all())
    known = rows.select("rank", "window", "step", "kind", "time_s", "traced_s").null_count()
    return all(figures.row(0)) and not any(known.row(0))


def _key(run: Run) -> dict[str, Any]:
    """What the figures depend on; sizes stand for the traces' content, which never changes."""
    sizes = {str(rank): path.stat().st_size for rank, path in run.traces.items()}
    return {"form": FORM, "version": __version__, "traces": sizes}


def _rank(kept: Mapping[str, Any], rows: pl.DataFrame) -> RankLayers:
    """One process, every value checked by the types; ValueError where one does not fit."""
    import polars as pl

    hints = typing.get_type_hints(RankLayers, localns={"pl": pl})
    values = {
        name: check_value(hint, kept[name], name) for name, hint in hints.items() if name != "rows"
    }
    traits: Traits = values["traits"]
    windows = {int(at): one for at, one in (traits.windows or {}).items()}
    values["traits"] = replace(traits, windows=windows)
    if _largest(kept) > _LARGEST:
        raise ValueError("figures that were not measured")
    return RankLayers(**values, rows=rows.filter(pl.col("rank") == values["rank"]))


def _largest(value: Any) -> float:
    """The highest amount of a figure anywhere in it."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        return max(map(_largest, value), default=0.0)
    return abs(value) if isinstance(value, int | float) else 0.0
