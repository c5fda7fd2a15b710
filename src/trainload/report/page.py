"""The shell of every page: one self-contained HTML file that no request leaves.

Puts policy, styles, scripts and data around finished pieces of HTML; knows no run and no estimate.
"""

import base64
import hashlib
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from trainload.errors import MissingPart
from trainload.report.markup import escape, render_json

Choice = tuple[str, str, Sequence[tuple[str, str]], str]
"""A control: its name, its legend, its values with their labels, and the value chosen at first."""
_THEMES = ("auto", "light", "dark")
THEME: Choice = ("theme", "Theme", tuple(zip(_THEMES, _THEMES, strict=True)), "auto")


def render_page(
    *,
    title: str,
    skip: str,
    top: str,
    sections: Iterable[str],
    footer: str,
    data: Any,
    styles: Sequence[str],
    scripts: Sequence[str],
    plots: bool = True,
) -> str:
    """The text of one HTML file; `styles` and `scripts` name assets, `data` is what is drawn.

    Without a script nothing is drawn, and the policy lets none run. `top`, `sections` and `footer`
    are HTML already. MissingPart where plotly is not installed, unless there are no `plots`.
    """
    texts = ["\n".join(map(load_asset, scripts))] if scripts else []
    if texts and plots:
        texts.insert(0, load_plotlyjs())
    drawn = (f'<script type="application/json" id="data">{render_json(data)}</script>',)
    return "\n".join(
        (
            "<!DOCTYPE html>",
            '<html lang="en" data-theme="auto">',
            '<head><meta charset="utf-8">',
            render_policy(*texts),
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            '<link rel="icon" href="data:,">',
            f"<title>{escape(title)} – trainload</title>",
            f"<style>{''.join(map(load_asset, styles))}</style></head>",
            "<body>",
            f'<a class="skip" href="#content">{escape(skip)}</a>',
            top,
            '<main id="content" tabindex="-1">',
            *sections,
            "</main>",
            f"<footer><p>{footer}</p></footer>",
            *(drawn if texts else ()),
            *(f"<script>{text}</script>" for text in texts),
            "</body></html>\n",
        )
    )


def render_controls(label: str, choices: Iterable[Choice]) -> str:
    """The form above a page with one group of radio buttons for each choice."""
    controls = "".join(
        f"<fieldset><legend>{legend}</legend>"
        + "".join(
            f'<label><input type="radio" name="{name}" value="{value}"'
            f"{' checked' if value == chosen else ''}><span>{text}</span></label>"
            for value, text in options
        )
        + "</fieldset>"
        for name, legend, options, chosen in choices
    )
    return f'<form class="controls" aria-label="{label}">{controls}</form>'


def render_policy(*scripts: str) -> str:
    """A content policy: only these very scripts run, and nothing is fetched."""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(s.encode()).digest()).decode()}'"
        for s in scripts
    )
    hashes = hashes or "'none'"
    return (
        '<meta http-equiv="Content-Security-Policy" content="'
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'\">"
    )


@cache
def load_asset(name: str) -> str:
    """The text of a style or script of this room, by its file name."""
    return files("trainload.report").joinpath("assets", name).read_text(encoding="utf-8")


@cache
def load_plotlyjs() -> str:
    """Plotly's script, fit to stand inside a page; MissingPart where it is not installed."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise MissingPart(
            "the HTML report needs plotly, which is not installed; pip install 'trainload[report]'"
        ) from None
    return str(get_plotlyjs()).replace("</script", "<\\/script")
