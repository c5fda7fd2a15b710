"""Layers under each dataflow as plain tables; computes nothing but the ratios it prints."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from trainload.columns import render_columns
from trainload.estimate.dataflow.accelerator import DATAFLOWS, Accelerator, load_published
from trainload.estimate.dataflow.answer import LEVELS, DataflowEstimate, LayerFlows
from trainload.units import MISSING

_SHORT = {
    "row": "row",
    "weight": "weight",
    "output_plane": "output/plane",
    "output_mixed": "output/mixed",
    "output_channel": "output/channel",
    "no_local": "no local",
}


def render_dataflows(found: DataflowEstimate, *, beside_published: bool = False) -> str:
    """The whole answer: energies a multiply-add, ratios, where the energy goes."""
    totals = _totals(found)
    rows = [_energy_row(layer) for layer in (*found.layers, *totals)]
    titles = ("layer", "multiply-adds", *(_SHORT[name] for name in DATAFLOWS))
    right = set(range(1, len(titles)))
    ratios = [_ratio_row(layer) for layer in (*found.layers, *totals)]
    parts = [
        f"{found.title}, batch {found.batch_size}, on {_hardware(found.accelerator)}",
        "",
        "energy of a multiply-add with all that is moved for it (1: the multiply-add alone)",
        render_columns(titles, rows, right),
        "",
        "energy over that of row stationary",
        render_columns(("layer", *titles[2:]), ratios, set(range(1, len(titles) - 1))),
        "",
        "where the energy goes, a multiply-add",
        _levels_table(totals),
    ]
    if beside_published:
        parts += ["", _published_table(found)]
    missing = sorted({n for la in found.layers for n in DATAFLOWS if la.flows[n] is None})
    if missing:
        names = ", ".join(DATAFLOWS[name] for name in missing)
        parts += ["", f"{MISSING}: does not fit the array, registers or buffer ({names})"]
    return "\n".join(parts)


def dataflows_json(found: DataflowEstimate) -> dict[str, Any]:
    """The document of `trainload dataflow --json`."""
    hardware = found.accelerator
    return {
        "model": found.title,
        "batch_size": found.batch_size,
        "accelerator": {
            "name": hardware.name,
            "source": hardware.source,
            "elements": hardware.elements,
            "register_bytes": hardware.register_bytes,
            "word_bytes": hardware.word_bytes,
            "energy": {level: getattr(hardware.energy, level) for level in LEVELS},
            "buffer_bytes": {
                name: hardware.buffer_words(name) * hardware.word_bytes for name in DATAFLOWS
            },
        },
        "dataflows": dict(DATAFLOWS),
        "layers": [_layer_json(layer) for layer in found.layers],
        "totals": [_layer_json(layer) for layer in _totals(found)],
    }


def _layer_json(layer: LayerFlows) -> dict[str, Any]:
    return {
        "name": layer.name,
        "type": layer.type,
        "macs": layer.macs,
        "flows": {
            name: None
            if flow is None
            else {
                "energy": flow.energy,
                "energy_per_mac": flow.energy / layer.macs,
                "over_row_stationary": layer.ratio(name),
                "energy_by_level": dict(flow.energy_by_level),
                "words": {level: dict(words) for level, words in flow.words.items()},
                "elements": flow.elements,
                "mapping": dict(flow.mapping),
            }
            for name, flow in layer.flows.items()
        },
    }


def _totals(found: DataflowEstimate) -> list[LayerFlows]:
    kinds = [found.total("convolution"), found.total("fully connected")]
    return [total for total in kinds if total is not None]


def _hardware(hardware: Accelerator) -> str:
    buffers = sorted({hardware.buffer_words(n) * hardware.word_bytes for n in DATAFLOWS})
    return (
        f"{hardware.elements} elements, {hardware.register_bytes} bytes of registers each with row "
        f"stationary, buffer {buffers[0] / 1024:.0f} to {buffers[-1] / 1024:.0f} KiB "
        "by what registers leave of the same area"
    )


def _energy_row(layer: LayerFlows) -> Sequence[str]:
    flows = (layer.flows[name] for name in DATAFLOWS)
    told = (MISSING if flow is None else f"{flow.energy / layer.macs:.2f}" for flow in flows)
    return (layer.name, f"{layer.macs:,}", *told)


def _ratio_row(layer: LayerFlows) -> Sequence[str]:
    ratios = (layer.ratio(name) for name in DATAFLOWS)
    return (layer.name, *(MISSING if ratio is None else f"{ratio:.2f}" for ratio in ratios))


def _levels_table(totals: Sequence[LayerFlows]) -> str:
    rows: list[Sequence[str]] = []
    for total in totals:
        for name in DATAFLOWS:
            flow = total.flows[name]
            if flow is not None:
                parts = (f"{flow.energy_by_level[level] / total.macs:.2f}" for level in LEVELS)
                rows.append((total.name, _SHORT[name], *parts))
    titles = ("layers", "dataflow", "multiply-add", *LEVELS[1:])
    return render_columns(titles, rows, set(range(2, len(titles))))


def _published_table(found: DataflowEstimate) -> str:
    rows = list(_published_rows(found))
    titles = ("layers", "published, others over row", "here", "lies within")
    return render_columns(titles, rows, set())


def _published_rows(found: DataflowEstimate) -> Iterator[tuple[str, str, str, str]]:
    for told in load_published()["relations"]:
        total = found.total(told["layers"])
        if total is None:
            continue
        ratios = {n: total.ratio(n) for n in DATAFLOWS if n != "row"}
        known = {name: ratio for name, ratio in ratios.items() if ratio is not None}
        low, high = told["low"], told["high"]
        said = f"at least {low}" if high is None else f"{low} to {high}"
        top = math.inf if high is None else high
        inside = [_SHORT[n] for n, r in known.items() if low <= round(r, 1) <= top]
        here = f"{min(known.values()):.2f} to {max(known.values()):.2f}" if known else MISSING
        yield told["layers"], said, here, f"{len(inside)} of {len(ratios)}: {', '.join(inside)}"
