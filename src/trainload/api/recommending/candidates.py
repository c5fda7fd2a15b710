"""Candidates by their words: the catalogue, kinds, names with numbers, files, this machine."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trainload.errors import UnknownHardware, UsageError
from trainload.hardware.catalogue import Device, find_device, load_catalogue
from trainload.hardware.naming import device_key, match_device

if TYPE_CHECKING:
    from trainload.hardware.inventory import Machine
    from trainload.hardware.prices import Prices

MOST_DEVICES = 8
"""Together, where nobody names a number: what one machine is sold with."""
_KINDS = {
    "cpu": "CPU",
    "board": "board",
    "laptop": "laptop GPU",
    "gaming": "gaming GPU",
    "workstation": "workstation GPU",
    "data-centre": "data-centre GPU",
}
_NAMED = re.compile(r"(\d{1,6})\s*[x×*]\s*(.+)")


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A kind of device, and how many of it may train together."""

    device: Device
    counts: tuple[int, ...]
    owned: bool = False
    """Whether it is of this machine, so that only its electricity is paid."""
    host_bytes: int | None = None
    """Memory of this machine, for its processor."""


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """All that are asked about, and parts of this machine that the catalogue does not hold."""

    known: tuple[Candidate, ...]
    unknown: tuple[tuple[str, str], ...] = ()
    """Name and reason of each."""


def find_candidates(
    asked: str | Sequence[str | Device] | None, prices: Prices, machine: Machine | None = None
) -> Candidates:
    """Those that are meant; `catalogue` where nobody says. UsageError where there is none.

    A name stands for one device and for the numbers that instances of the price list have of it;
    `8xt4` for eight of them alone. `machine` is this one where it was read already.
    """
    words: Sequence[str | Device] = ["catalogue"] if asked is None else asked
    if isinstance(words, str):
        plain = Path(words).is_file()
        words = [words] if plain else [part.strip() for part in words.split(",") if part.strip()]
    found: dict[tuple[str, bool], Candidate] = {}
    unknown: list[tuple[str, str]] = []
    for word in words:
        if word == "owned":
            of_machine = _owned(machine)
            unknown += of_machine.unknown
            new: Sequence[Candidate] = of_machine.known
        else:
            new = _named(word, prices)
        for one in new:
            key = one.device.name, one.owned
            counts = {*one.counts, *(found[key].counts if key in found else ())}
            found[key] = Candidate(
                device=one.device,
                counts=tuple(sorted(counts)),
                owned=one.owned,
                host_bytes=one.host_bytes,
            )
    if not found and not unknown:
        raise UsageError("--candidates names none: devices, kinds, owned or catalogue")
    return Candidates(known=tuple(found.values()), unknown=tuple(unknown))


def _named(word: str | Device, prices: Prices) -> list[Candidate]:
    if isinstance(word, Device):
        return [Candidate(device=word, counts=_counts(word, prices))]
    everything = load_catalogue().values()
    if word == "catalogue":
        return [Candidate(device=one, counts=_counts(one, prices)) for one in everything]
    kind = _KINDS.get(word.lower())
    if kind is not None:
        return [
            Candidate(device=one, counts=_counts(one, prices))
            for one in everything
            if one.kind == kind
        ]
    several = _NAMED.fullmatch(word)
    try:
        device = find_device(word if several is None else several[2])
    except UnknownHardware as error:
        raise UnknownHardware(
            f"--candidates {word}: {error} Also: catalogue, owned, {', '.join(_KINDS)}"
        ) from None
    if several is None:
        return [Candidate(device=device, counts=_counts(device, prices))]
    if int(several[1]) < 1:
        raise UsageError(f"--candidates {word}: name one device at least")
    return [Candidate(device=device, counts=(int(several[1]),))]


def _counts(device: Device, prices: Prices) -> tuple[int, ...]:
    """One, and as many as instances have of it."""
    sold = {one.count for one in prices.instances if device.name in one.devices}
    return tuple(sorted({1, *(count for count in sold if count <= MOST_DEVICES)}))


def _owned(machine: Machine | None) -> Candidates:
    """The accelerators and the processor of this machine."""
    from trainload.hardware.inventory import read_machine

    machine = machine or read_machine()
    found: dict[str, tuple[Device, int]] = {}
    unknown = []
    for one in machine.accelerators:
        device = match_device(one.name)
        if device is None:
            unknown.append((one.name, _unlisted(one.name)))
        else:
            found[device.name] = device, found.get(device.name, (device, 0))[1] + 1
    known = [
        Candidate(device=device, counts=tuple(sorted({1, count})), owned=True)
        for device, count in found.values()
    ]
    name = machine.cpu_model or "this processor"
    try:
        processor = find_device(device_key(name))
    except UnknownHardware:
        unknown.append((name, _unlisted(name)))
    else:
        limits = (machine.memory_total_bytes, machine.memory_limit_bytes)
        host = [one for one in limits if one is not None]
        known.append(
            Candidate(
                device=processor, counts=(1,), owned=True, host_bytes=min(host) if host else None
            )
        )
    return Candidates(known=tuple(known), unknown=tuple(unknown))


def _unlisted(name: str) -> str:
    return (
        f"the catalogue does not hold {name}; describe it in a file, --candidates ./mine.json, "
        f"with the name {device_key(name)}, under which trainload calibrate keeps what it measures"
    )
