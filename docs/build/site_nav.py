"""The order of the site's pages. A page that nobody placed stands under `More`, never nowhere."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

SECTIONS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Start", ("index.md", "tutorial.md", "gallery.md")),
    (
        "How to",
        (
            "howto/will-it-fit.md", "howto/gpu-idles.md", "howto/which-gpu.md",
            "howto/two-frameworks.md", "howto/ci.md", "howto/cluster.md", "howto/jetson.md",
            "howto/*",
        ),
    ),
    ("Explanation", ("explain/step.md", "explain/overhead.md", "explain/ranges.md", "explain/*")),
    (
        "Before a run",
        (
            "estimates.md", "prediction.md", "recommend.md", "hardware-rules.md", "book.md",
            "dataflow.md", "devices.md", "prices.md", "calibration.md", "scorecard.md",
        ),
    ),
    (
        "Running",
        (
            "data.md", "frameworks.md", "checkpoints.md", "subset.md", "studies.md", "live.md",
            "notebook.md", "habits.md", "integrations.md", "importing.md", "collecting.md",
        ),
    ),
    (
        "Reading",
        (
            "show.md", "layers.md", "page.md", "compare.md", "statistics.md", "rank.md",
            "reproduce.md", "exporting.md",
        ),
    ),
    ("More", ("*",)),
    (
        "Reference",
        (
            "reference/index.md", "reference/python.md", "run-directory.md", "op-trace.md",
            "reference/schema.md", "reference/*",
        ),
    ),
    (
        "Developers",
        ("architecture.md", "contributing.md", "measurements/README.md", "changelog.md"),
    ),
)  # fmt: skip
"""Sections with patterns of pages. A pattern that meets nothing is no mistake."""
_LAST = "More"
"""Takes what no other section takes."""


def arranged(titles: Mapping[str, str]) -> list[dict[str, Any]]:
    """mkdocs' nav of these pages, each exactly once; sections without a page are left out.

    Pages of one pattern stand in alphabetical order.
    """
    left = dict.fromkeys(sorted(titles))
    placed: dict[str, list[str]] = {}
    for name, patterns in sorted(SECTIONS, key=lambda section: section[0] == _LAST):
        for pattern in patterns:
            met = [page for page in left if fnmatchcase(page, pattern)]
            placed.setdefault(name, []).extend(met)
            for page in met:
                del left[page]
    return [
        {name: [{titles[page]: page} for page in placed[name]]}
        for name, _ in SECTIONS
        if placed[name]
    ]
