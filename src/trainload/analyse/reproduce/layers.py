"""What study P asks of a traced run, as figures of that run: what stays unexplained, each layer."""

from __future__ import annotations

from collections.abc import Iterator

from trainload.analyse.attribution import RunLayers


def layer_figures(layers: RunLayers) -> dict[str, float]:
    """Figures of the first rank by name; empty where no step was traced.

    `remainder_fraction` of the step is explained by nothing; `outside_layers_fraction` by no
    layer, which is what study P could not explain. `layer_NAME_s` is one layer in all phases,
    `forward_NAME_s` and `backward_NAME_s` its passes.
    """
    import polars as pl

    if not layers.ranks:
        return {}
    rank = layers.ranks[0]
    rows = rank.rows
    whole = float(rows["time_s"].sum())
    if whole <= 0:
        return {}
    by_kind = dict(rows.group_by("kind").agg(pl.col("time_s").sum()).iter_rows())
    figures = {
        "remainder_fraction": by_kind.get("remainder", 0.0) / whole,
        "outside_layers_fraction": 1 - by_kind.get("layer", 0.0) / whole,
    }
    for node in rank.nodes:
        if node.layer:
            figures.update(_layer(node.layer, node.forward_s, node.backward_s, node.update_s))
    return figures


def _layer(
    name: str, forward_s: float, backward_s: float, update_s: float
) -> Iterator[tuple[str, float]]:
    yield f"layer_{name}_s", forward_s + backward_s + update_s
    yield f"forward_{name}_s", forward_s
    yield f"backward_{name}_s", backward_s
