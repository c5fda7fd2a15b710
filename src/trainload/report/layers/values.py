"""The attribution as JSON values: figures of parts and layers, without the rows of each step."""

from dataclasses import asdict
from typing import Any

from trainload.analyse.attribution.types import RankLayers, RunLayers
from trainload.report.layers.wording import render_all_advice


def layers_json(layers: RunLayers) -> dict[str, Any]:
    """What attribution says of a run, ready for `json.dumps`; advice also as sentences."""
    sentences = render_all_advice(layers)
    return {
        "ranks": [_rank_json(rank) for rank in layers.ranks],
        "utilisation": None if layers.utilisation is None else asdict(layers.utilisation),
        "advice": [
            {**asdict(advice), "sentence": sentence}
            for advice, sentence in zip(layers.advice, sentences, strict=True)
        ],
    }


def _rank_json(rank: RankLayers) -> dict[str, Any]:
    return {
        "rank": rank.rank,
        "device": rank.device,
        "step_s": rank.step_s,
        "traced_step_s": rank.traced_step_s,
        "corrected": rank.corrected,
        "explained_fraction": rank.explained_fraction,
        "parts_s": dict(rank.parts),
        "hidden_communication_s": rank.hidden_communication_s,
        "busy_s": rank.busy_s,
        "cost": asdict(rank.cost),
        "notes": list(rank.notes),
        "host": [asdict(one) for one in rank.host],
        "sampling": None if rank.sampling is None else asdict(rank.sampling),
        "layers": [{**asdict(node), "exclusive_s": node.exclusive_s} for node in rank.nodes],
    }
