"""A prediction as one self-contained page: devices ranked, each with ranges, tier and layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainload.report.markup import escape, render_details, render_log, render_table
from trainload.report.page import render_page
from trainload.report.predict.terminal import (
    LAYER_TITLES,
    TITLES,
    layer_cells,
    render_cells,
    render_prediction,
    render_title,
)

if TYPE_CHECKING:
    from trainload.report.predict.terminal import Predicted

MOST_LAYERS = 200


def render_prediction_html(found: Sequence[Predicted]) -> str:
    """The page as text, in the order given; it needs no network and runs no script."""
    head = render_title(found[0], with_device=False)
    table = render_table(
        (TITLES[0], "memory", *TITLES[2:]),
        [render_cells(one) for one in found],
        label="Devices, fastest first",
        numbers=(2, 4, 5, 6, 7),
    )
    return render_page(
        title=f"{head}: prediction",
        skip="Skip to the devices",
        top=f'<header class="top"><h1>{escape(head)}</h1></header>',
        sections=[
            f"<section><h2>Devices, fastest first</h2>{table}</section>",
            *(_device(one) for one in found),
        ],
        footer="Made by trainload. A prediction: nothing was trained on these devices, unless the "
        "tier says that steps were measured. Ranges hold the truth in 19 of 20 cases.",
        data=None,
        styles=("report.css",),
        scripts=(),
        plots=False,
    )


def _device(one: Predicted) -> str:
    said = render_log(render_prediction(one, 0))
    layers = ""
    if one.step is not None and one.step.layers:
        rows = layer_cells(one.step, MOST_LAYERS)
        title = f"The {len(rows)} longest layers of {len(one.step.layers)}, time on the device"
        layers = render_details(
            title, render_table(LAYER_TITLES, rows, label=title, numbers=(1, 2, 3, 4, 5))
        )
    return f"<section><h2>{escape(one.device.title)}</h2>{said}{layers}</section>"
