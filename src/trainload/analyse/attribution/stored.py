"""The attribution of a run, kept in its directory so that its traces are read once.

What is kept is a copy: anything that does not fit is worked out anew from the traces.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from trainload._version import __version__
from trainload.analyse.attribution.lasting import LastingCost
from trainload.analyse.attribution.types import (
    EnergyShare,
    HostSampling,
    HostTime,
    LayerMemory,
    LayerNode,
    RankLayers,
    Traits,
    WindowCost,
    WindowTraits,
)
from trainload.record import Run, load_layer_table, save_layer_table

if TYPE_CHECKING:
    import polars as pl

FORM = 5
"""Raised whenever the same traces are to give other figures."""


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
    found = load_layer_table(run.path)
    if found is None:
        return None
    rows, text = found
    try:
        kept = json.loads(text)
        if any(kept[name] != value for name, value in _key(run).items()):
            return None
        return tuple(_rank(one, rows) for one in kept["ranks"])
    except (ValueError, TypeError, KeyError):
        return None


def _key(run: Run) -> dict[str, Any]:
    """What the figures depend on; sizes stand for the traces' content, which never changes."""
    sizes = {str(rank): path.stat().st_size for rank, path in run.traces.items()}
    return {"form": FORM, "version": __version__, "traces": sizes}


def _rank(kept: Mapping[str, Any], rows: pl.DataFrame) -> RankLayers:
    import polars as pl

    return RankLayers(
        **{
            **kept,
            "nodes": tuple(_node(node) for node in kept["nodes"]),
            "cost": _cost(kept["cost"]),
            "notes": tuple(kept["notes"]),
            "traits": _traits(kept["traits"]),
            "host": tuple(HostTime(**one) for one in kept["host"]),
            "sampling": _sampling(kept["sampling"]),
            "rows": rows.filter(pl.col("rank") == kept["rank"]),
        }
    )


def _cost(kept: Mapping[str, Any]) -> WindowCost:
    lasting = kept["lasting"]
    return WindowCost(**{**kept, "lasting": None if lasting is None else LastingCost(**lasting)})


def _sampling(kept: Mapping[str, Any] | None) -> HostSampling | None:
    if kept is None:
        return None
    return HostSampling(**{**kept, "refusals": tuple(kept["refusals"])})


def _traits(kept: Mapping[str, Any]) -> Traits:
    windows = {int(at): WindowTraits(**one) for at, one in (kept["windows"] or {}).items()}
    return Traits(**{**kept, "windows": windows})


def _node(kept: Mapping[str, Any]) -> LayerNode:
    memory, energy = kept["memory"], kept["energy"]
    return LayerNode(
        **{
            **kept,
            "memory": None if memory is None else LayerMemory(**memory),
            "energy": None if energy is None else EnergyShare(**energy),
        }
    )
