"""The catalogue of devices: figures with their sources, read from data files.

Reads its own package's files and the one a user names; asks no device. A figure that its maker
does not state is None. An entry says whether a second, independent source agrees with its maker's.
Peaks are dense, not sparse, and by the unit that is fastest.
"""

import difflib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from trainload.errors import UnknownHardware

CATALOGUE_FORMAT = 1

FIGURES: Mapping[str, tuple[float, float]] = {
    "memory_bytes": (2**28, 2**43),
    "bandwidth_bytes_per_s": (1e9, 1e14),
    "float32_flop_per_s": (1e9, 1e16),
    "tf32_flop_per_s": (1e9, 1e17),
    "bf16_flop_per_s": (1e9, 1e17),
    "fp16_flop_per_s": (1e9, 1e17),
    "int8_op_per_s": (1e9, 1e18),
    "power_w": (1, 2000),
    "compute_capability": (1, 20),
    "ecc_memory_fraction": (0.001, 0.5),
    "cuda_memory_bytes": (2**28, 2**43),
    "link_bytes_per_s": (1e9, 1e13),
    "host_bytes_per_s": (1e8, 1e13),
    "cores": (1, 2048),
    "base_clock_hz": (1e8, 1e10),
    "boost_clock_hz": (1e8, 1e10),
    "memory_channels": (1, 64),
    "vector_bits": (64, 4096),
}
"""Figures of a device and the range a believable one lies in.

`compute_capability` is CUDA's, major.minor as a number; `ecc_memory_fraction` the share of the
memory that error correction takes; `cuda_memory_bytes` what CUDA was seen to report in all.
`link_bytes_per_s` goes to devices of its kind over all links, `host_bytes_per_s` to the host, both
in one direction. The last five are of processors; `vector_bits` is the widest instruction's."""

KINDS = (
    "data-centre GPU",
    "accelerator",
    "workstation GPU",
    "gaming GPU",
    "laptop GPU",
    "board",
    "CPU",
    "own",
)

_SECOND = ("also", "differs")
_TEXTS = ("name", "title", "maker", "kind", "note")
_KEYS = {*_TEXTS, *FIGURES, "aliases", "year", "checked"}


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A number in the unit that its name carries, and the document it is from."""

    value: float
    source: str
    also: str | None = None
    """A second, independent source that states the same, within rounding."""
    differs: str | None = None
    """What a second source has instead, and why where that is known."""

    def to_json(self) -> dict[str, Any]:
        """As it stands in a file, with the sources written out."""
        told = {"value": self.value, "source": self.source}
        return {**told, **{key: getattr(self, key) for key in _SECOND if getattr(self, key)}}


@dataclass(frozen=True, kw_only=True)
class Device:
    """One entry: names, kind, year and figures of a device."""

    name: str
    title: str
    maker: str | None
    kind: str
    year: int | None
    aliases: tuple[str, ...]
    note: str | None
    figures: Mapping[str, Figure | None]
    checked: bool = False
    """Whether a second source agrees with the maker's: on memory, bandwidth and a peak, of a
    processor on cores, clock and power; and whether every difference is explained."""

    def value(self, figure: str) -> float | None:
        """A figure in the unit its name carries; None where no source states it."""
        found = self.figures[figure]
        return None if found is None else found.value

    @property
    def capability(self) -> tuple[int, int] | None:
        """Compute capability as CUDA counts it, major and minor; None without CUDA."""
        number = self.value("compute_capability")
        return None if number is None else (int(number), round(number * 10) % 10)

    def to_json(self) -> dict[str, Any]:
        """The entry with every source written out; a user's file may have this form."""
        return {
            "name": self.name,
            "title": self.title,
            "maker": self.maker,
            "kind": self.kind,
            "year": self.year,
            "aliases": list(self.aliases),
            "note": self.note,
            "checked": self.checked,
            **{
                name: None if figure is None else figure.to_json()
                for name, figure in self.figures.items()
            },
        }


@cache
def load_catalogue() -> Mapping[str, Device]:
    """Every device by name, in the order of the files."""
    devices: dict[str, Device] = {}
    folder = resources.files("trainload.hardware") / "devices"
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if file.name.endswith(".json"):
            document = json.loads(file.read_text(encoding="utf-8"))
            assert document["format"] == CATALOGUE_FORMAT, file.name
            for entry in document["devices"]:
                device = _read_device(entry, document["sources"], file.name)
                assert device.name not in devices, f"{device.name} stands twice"
                devices[device.name] = device
    return devices


def find_device(text: str) -> Device:
    """The device of that name, or of the file that `text` is the path of.

    UnknownHardware names the nearest ones; none of them is taken in its stead.
    """
    if text.endswith(".json") or "/" in text:
        return load_device(Path(text))
    devices = load_catalogue()
    wanted = _plain(text)
    for device in devices.values():
        if wanted in (_plain(device.name), _plain(device.title), *map(_plain, device.aliases)):
            return device
    raise UnknownHardware(f"no device {text!r} in the catalogue; {_nearest(wanted, devices)}")


def devices_like(words: Sequence[str]) -> list[Device]:
    """Those that every word fits, by the start of a name, kind, maker, year or size (`24gb`).

    `checked` fits the checked ones. Empty where none fits all words.
    """
    wanted = [plain for plain in map(_plain, words) if plain]
    return [
        device
        for device in load_catalogue().values()
        if all(any(start.startswith(word) for start in _starts(device)) for word in wanted)
    ]


def load_device(path: Path) -> Device:
    """The user's own device from a JSON file; UnknownHardware says what is wrong with it."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UnknownHardware(
            f"cannot read the device file {path}: {error.strerror or error}"
        ) from None
    except (ValueError, RecursionError) as error:
        raise UnknownHardware(f"{path} is no JSON: {error}") from None
    return _read_device(document, {}, str(path))


def _read_device(entry: Any, sources: Mapping[str, str], where: str) -> Device:
    if not isinstance(entry, Mapping):
        raise UnknownHardware(f"{where}: a device is a JSON object")
    for key in entry:
        if key not in _KEYS:
            near = difflib.get_close_matches(str(key), _KEYS, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(FIGURES)}"
            raise UnknownHardware(f"{where}: unknown name {key!r}{hint}")
    texts = {key: _text(entry.get(key), f"{where}: {key!r}") for key in _TEXTS}
    name = texts["name"]
    if not name:
        raise UnknownHardware(f"{where}: the device needs a 'name'")
    where = f"{where}, {name}"
    figures = {key: _read_figure(entry.get(key), sources, key, where) for key in FIGURES}
    return Device(
        name=name,
        title=texts["title"] or name,
        maker=texts["maker"],
        kind=texts["kind"] or "own",
        year=_year(entry.get("year"), where),
        aliases=_aliases(entry.get("aliases", []), where),
        note=texts["note"],
        checked=entry.get("checked") is True,
        figures=figures,
    )


def _read_figure(given: Any, sources: Mapping[str, str], name: str, where: str) -> Figure | None:
    """A figure with its source; a bare number, as in a user's own file, has that file as source."""
    if given is None:
        return None
    source: Any = f"the file of {where.rpartition(', ')[2]}"
    value, second = given, dict[str, str | None]()
    if isinstance(given, Mapping):
        value, source = given.get("value"), given.get("source")
        if not isinstance(source, str) or not source:
            raise UnknownHardware(f"{where}: {name!r} needs a 'value' and a 'source'")
        if unknown := set(given) - {"value", "source", *_SECOND}:
            raise UnknownHardware(
                f"{where}: {name!r} has {', '.join(sorted(map(repr, unknown)))}; "
                "known: value, source, also, differs"
            )
        second = {key: _text(given.get(key), f"{where}: {key!r}") for key in _SECOND}
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise UnknownHardware(f"{where}: {name!r} must be a number, got {value!r}")
    low, high = FIGURES[name]
    if not low <= value <= high:
        raise UnknownHardware(
            f"{where}: {name!r} is {value:g}, not between {low:g} and {high:g}; mind the unit"
        )
    also = second.get("also")
    return Figure(
        value=value,
        source=sources.get(source, source),
        also=None if also is None else sources.get(also, also),
        differs=second.get("differs"),
    )


def _text(given: Any, where: str) -> str | None:
    if given is not None and not isinstance(given, str):
        raise UnknownHardware(f"{where} must be a text, got {given!r}")
    return given


def _year(given: Any, where: str) -> int | None:
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int) or not 1990 <= given <= 2100:
        raise UnknownHardware(f"{where}: 'year' must be a year, got {given!r}")
    return given


def _aliases(given: Any, where: str) -> tuple[str, ...]:
    if not isinstance(given, list) or not all(isinstance(alias, str) for alias in given):
        raise UnknownHardware(f"{where}: 'aliases' must be a list of names")
    return tuple(given)


def _plain(name: str) -> str:
    """A name as people write it, without case, spaces and dashes: RTX 4090 is rtx4090."""
    return re.sub(r"[^a-z0-9+]", "", name.lower())


def _starts(device: Device) -> set[str]:
    """Where a word that is meant to find the device may begin."""
    texts = [device.name, device.title, device.kind, device.maker or "", *device.aliases]
    found = {_plain(part) for text in texts for part in (text, *re.split(r"[^\w+]+", text))}
    memory = device.value("memory_bytes")
    size = set() if memory is None else {f"{memory / 2**30:g}gb"}
    return found | size | {str(device.year)} | ({"checked"} if device.checked else set())


def _nearest(wanted: str, devices: Mapping[str, Device]) -> str:
    known = {
        _plain(text): device.name
        for device in devices.values()
        for text in (device.name, device.title, *device.aliases)
    }
    inside: Sequence[str] = sorted(plain for plain in known if wanted and wanted in plain)
    near = list(inside) or difflib.get_close_matches(wanted, list(known), n=3, cutoff=0.5)
    names = list(dict.fromkeys(known[plain] for plain in near))[:5]
    if not names:
        return "trainload devices lists them, and --device ./mine.json describes your own"
    return f"did you mean {' or '.join(names)}?"
