"""Links between devices, to the host and between machines: what each carries, with its source.

Reads its own package's file; asks no device and measures nothing.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from trainload.hardware.catalogue import Figure

LINKS_FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Link:
    """One kind of link, as wide as its title says."""

    name: str
    title: str
    maker: str
    """Who makes it, or whose standard it is."""
    year: int
    aliases: tuple[str, ...]
    bytes_per_s: Figure
    """In one direction, before what protocols take; makers often state both together."""

    def to_json(self) -> dict[str, Any]:
        """The entry with its source written out."""
        return {
            "name": self.name,
            "title": self.title,
            "maker": self.maker,
            "year": self.year,
            "aliases": list(self.aliases),
            "bytes_per_s": self.bytes_per_s.to_json(),
        }


@cache
def load_links() -> Mapping[str, Link]:
    """Every link by name, in the order of the file."""
    file = resources.files("trainload.hardware") / "links.json"
    document = json.loads(file.read_text(encoding="utf-8"))
    assert document["format"] == LINKS_FORMAT, "links.json"
    links: dict[str, Link] = {}
    for entry in document["links"]:
        told = entry["bytes_per_s"]
        assert entry["name"] not in links, f"{entry['name']} stands twice"
        links[entry["name"]] = Link(
            name=entry["name"],
            title=entry["title"],
            maker=entry["maker"],
            year=entry["year"],
            aliases=tuple(entry.get("aliases", ())),
            bytes_per_s=Figure(value=told["value"], source=document["sources"][told["source"]]),
        )
    return links
