"""Files of prices: checked, whoever wrote them; the user's own stand in the place of the shipped.

A file is a JSON object; docs/prices.md shows one.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

from trainload.errors import HardwareFileError
from trainload.hardware.own_files import check_dated, check_key, check_words, list_own, read_object
from trainload.hardware.prices.types import Electricity, Instance, Origin, Prices, Purchase
from trainload_worker.protocol.checked import Bounds, CheckError, build_checked

KIND = "trainload prices"
FORMAT = 1
_FOLDER = "prices"

Usd = Annotated[float, Bounds(low=0, high=1e7)]
Count = Annotated[int, Bounds(low=1, high=100_000)]


@dataclass(frozen=True, kw_only=True)
class _Instance:
    provider: str
    devices: tuple[str, ...]
    count: Count
    name: str | None = None
    region: str | None = None
    on_demand_usd_per_h: Usd | None = None
    spot_usd_per_h: Usd | None = None


@dataclass(frozen=True, kw_only=True)
class _Purchase:
    device: str
    usd: Usd
    date: str


@dataclass(frozen=True, kw_only=True)
class _Document:
    kind: Literal["trainload prices"]
    format: Literal[1]
    source: str
    date: str
    licence: str
    instances: tuple[_Instance, ...] = ()
    purchases: tuple[_Purchase, ...] = ()
    electricity_usd_per_kwh: Usd | None = None


def load_prices(path: Path | None = None) -> Prices:
    """The prices of the file named, else those of the user's folder, else the shipped ones.

    The user's folder is $TRAINLOAD_PRICES or `trainload/prices` in the data folder.
    HardwareFileError where a file is none.
    """
    if path is not None:
        return load_price_file(path)
    own = list_own(_FOLDER, ".json")
    if own:
        return join([load_price_file(one) for one in own])
    return _shipped()


def load_price_file(path: Path) -> Prices:
    """The prices in a file from anyone; HardwareFileError where it holds none."""
    return from_document(read_object(path), str(path))


def from_document(document: Mapping[str, Any], where: str) -> Prices:
    """The prices of a document; HardwareFileError names what is wrong with it."""
    if document.get("kind") != KIND:
        raise HardwareFileError(f"{where} holds no prices: its 'kind' must be {KIND!r}")
    try:
        found = build_checked(_Document, document, where)
    except CheckError as error:
        raise HardwareFileError(str(error)) from None
    for words in (found.source, found.licence):
        check_words(words, where)
    origin = Origin(source=found.source, date=check_dated(found.date, where), licence=found.licence)
    rate = found.electricity_usd_per_kwh
    return Prices(
        instances=tuple(
            _instance(one, origin, f"{where}: instances[{n}]")
            for n, one in enumerate(found.instances)
        ),
        purchases=tuple(
            Purchase(
                device=check_key(one.device, f"{where}: purchases[{n}]"),
                usd=one.usd,
                date=check_dated(one.date, f"{where}: purchases[{n}]"),
                origin=origin,
            )
            for n, one in enumerate(found.purchases)
        ),
        electricity=None if rate is None else Electricity(usd_per_kwh=rate, origin=origin),
    )


def join(lists: Sequence[Prices]) -> Prices:
    """All of them as one; the last that states electricity counts."""
    rates = [one.electricity for one in lists if one.electricity is not None]
    return Prices(
        instances=tuple(instance for one in lists for instance in one.instances),
        purchases=tuple(purchase for one in lists for purchase in one.purchases),
        electricity=rates[-1] if rates else None,
    )


def _instance(given: _Instance, origin: Origin, where: str) -> Instance:
    for words in (given.provider, given.name or "", given.region or ""):
        check_words(words, where)
    if not given.devices:
        raise HardwareFileError(f"{where}: 'devices' must name one")
    return Instance(
        provider=given.provider,
        name=given.name,
        devices=tuple(check_key(key, where) for key in given.devices),
        count=given.count,
        region=given.region,
        on_demand_usd_per_h=given.on_demand_usd_per_h,
        spot_usd_per_h=given.spot_usd_per_h,
        origin=origin,
    )


@cache
def _shipped() -> Prices:
    folder = resources.files("trainload.hardware.prices") / "files"
    files = sorted((file for file in folder.iterdir()), key=lambda entry: entry.name)
    return join(
        [
            from_document(json.loads(file.read_text(encoding="utf-8")), file.name)
            for file in files
            if file.name.endswith(".json")
        ]
    )
