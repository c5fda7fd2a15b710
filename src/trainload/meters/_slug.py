"""Column-safe names from the labels that drivers give; touches no device."""


def slug_of(label: str) -> str:
    """The label in `[a-z0-9_]`: 'VDD CPU' gives 'vdd_cpu'; 'unnamed' where nothing is left."""
    kept = "".join(c if c.isascii() and c.isalnum() else "_" for c in label.lower())
    return "_".join(part for part in kept.split("_") if part) or "unnamed"


class SlugMaker:
    """Gives each label its own slug; a repeated one gets `_2`, `_3`, …"""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def make(self, label: str) -> str:
        """A slug not given before by this maker."""
        base = slug = slug_of(label)
        number = 1
        while slug in self._taken:
            number += 1
            slug = f"{base}_{number}"
        self._taken.add(slug)
        return slug
