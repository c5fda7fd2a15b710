"""Files of carbon intensities: checked, whoever wrote them; the user's own places come first."""

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

from trainload.errors import HardwareFileError, UsageError
from trainload.hardware.own_files import check_dated, check_words, list_own, read_object
from trainload_worker.protocol.checked import Bounds, CheckError, build_checked

KIND = "trainload carbon"
FORMAT = 1
_FOLDER = "carbon"

Intensity = Annotated[float, Bounds(low=0, high=5000)]
Effectiveness = Annotated[float, Bounds(low=1, high=10)]


@dataclass(frozen=True, kw_only=True)
class CarbonPlace:
    """Where electricity comes from, and what a kilowatt-hour of it emits."""

    name: str
    """A country's code, or a cloud's region."""
    title: str
    gco2e_per_kwh: float
    year: int
    basis: str
    """What is counted, in words: of the grid where the machine stands, say."""
    source: str
    licence: str
    pue: float | None = None
    """Energy of the data centre over that of its machines; None where nobody states it."""


@dataclass(frozen=True, kw_only=True)
class _Place:
    name: str
    title: str
    gco2e_per_kwh: Intensity
    year: Annotated[int, Bounds(low=1990, high=2100)]
    pue: Effectiveness | None = None


@dataclass(frozen=True, kw_only=True)
class _Document:
    kind: Literal["trainload carbon"]
    format: Literal[1]
    source: str
    date: str
    licence: str
    basis: str
    places: tuple[_Place, ...]


def load_places() -> Mapping[str, CarbonPlace]:
    """Every place by its name; one in the user's folder stands in the place of a shipped one.

    The user's folder is $TRAINLOAD_CARBON or `trainload/carbon` in the data folder.
    """
    found = dict(_shipped())
    for path in list_own(_FOLDER, ".json"):
        found.update(load_carbon_file(path))
    return found


def find_place(text: str, places: Mapping[str, CarbonPlace] | None = None) -> CarbonPlace:
    """The place of that name, code or title, as DEU, Germany or europe-west3.

    UsageError names the nearest; none of them is taken in its stead.
    """
    places = load_places() if places is None else places
    wanted = text.strip().casefold()
    for place in places.values():
        if wanted in (place.name.casefold(), place.title.casefold()):
            return place
    known = {name.casefold(): name for name in places}
    known.update((place.title.casefold(), place.title) for place in places.values())
    near = difflib.get_close_matches(wanted, list(known), n=3)
    hint = " or ".join(known[one] for one in near) or "a country's code such as DEU"
    raise UsageError(f"no carbon intensity of {text!r} is known; did you mean {hint}?")


def load_carbon_file(path: Path) -> dict[str, CarbonPlace]:
    """The places in a file from anyone; HardwareFileError where it holds none."""
    return from_document(read_object(path), str(path))


def from_document(document: Mapping[str, Any], where: str) -> dict[str, CarbonPlace]:
    """The places of a document; HardwareFileError names what is wrong with it."""
    if document.get("kind") != KIND:
        raise HardwareFileError(f"{where} holds no carbon intensities: its 'kind' must be {KIND!r}")
    try:
        found = build_checked(_Document, document, where)
    except CheckError as error:
        raise HardwareFileError(str(error)) from None
    check_dated(found.date, where)
    for words in (found.source, found.licence, found.basis):
        check_words(words, where)
    return {
        check_words(one.name, f"{where}: places[{n}]"): CarbonPlace(
            name=one.name,
            title=check_words(one.title, f"{where}: places[{n}]"),
            gco2e_per_kwh=one.gco2e_per_kwh,
            year=one.year,
            basis=found.basis,
            source=found.source,
            licence=found.licence,
            pue=one.pue,
        )
        for n, one in enumerate(found.places)
    }


@cache
def _shipped() -> Mapping[str, CarbonPlace]:
    folder = resources.files("trainload.hardware.carbon") / "files"
    found: dict[str, CarbonPlace] = {}
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if file.name.endswith(".json"):
            found.update(from_document(json.loads(file.read_text(encoding="utf-8")), file.name))
    return found
