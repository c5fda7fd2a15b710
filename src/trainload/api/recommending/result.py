"""What a recommendation says; values and how they show themselves. Computed by others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainload.recommend.types import Choice, Nearest, Plan, Recommendation, Rejection

RECOMMENDATION_FORMAT = 1


@dataclass(frozen=True, kw_only=True, repr=False)
class Recommended:
    """Ranked choices for one training, best first, and why; every other with its reason."""

    title: str
    optimizer: str | None
    """None for a script, which brings its own."""
    batch_size: int | None
    """Of a step over all devices; None where it is free or the code's own."""
    examples: int | None
    epochs: int | None
    steps: int | None
    found: Recommendation
    unknown: tuple[tuple[str, str], ...]
    """Parts of this machine that the catalogue does not hold, with the reason."""
    notes: tuple[str, ...]

    @property
    def choices(self) -> tuple[Choice, ...]:
        """Plans that keep to every demand, best first."""
        return self.found.choices

    @property
    def winner(self) -> Plan | None:
        """The first choice; None where nothing keeps to the demands."""
        return self.found.winner

    @property
    def rejected(self) -> tuple[Rejection, ...]:
        """Candidates that are no choice, each with its `reason`."""
        return self.found.rejected

    @property
    def nearest(self) -> tuple[Nearest, ...]:
        """What misses least, where nothing keeps to the demands."""
        return self.found.nearest

    def to_json(self) -> dict[str, Any]:
        """The document of `trainload recommend --json`."""
        from trainload.api.recommending.document import recommendation_document

        return recommendation_document(self)

    def to_text(self, most: int = 10) -> str:
        """What `trainload recommend` prints, with so many choices and rejections."""
        from trainload.report.recommend.terminal import render_recommendation

        return render_recommendation(self, most)

    def to_html(self) -> str:
        """The page of `trainload recommend --html`."""
        from trainload.report.recommend.html import render_recommendation_html

        return render_recommendation_html(self)

    def __iter__(self) -> Iterator[Choice]:
        return iter(self.choices)

    def __len__(self) -> int:
        return len(self.choices)

    def __repr__(self) -> str:
        """Title and the first choice."""
        said = "nothing keeps to the demands" if self.winner is None else self.winner.name
        return f"<Recommended {self.title}: {said}>"
