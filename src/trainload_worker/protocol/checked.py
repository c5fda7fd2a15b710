"""The one checker: frozen dataclasses from JSON values and from words, and back to JSON.

Knows types and bounds, not what any field means. Its types are evaluated, by Python 3.8 too:
dataclasses that it builds spell `Optional[int]` and `Tuple[int, ...]` where that runs.
"""

from __future__ import annotations

import math
import sys
import types
import typing
from dataclasses import MISSING, field, fields, is_dataclass
from functools import lru_cache
from typing import (
    Any,
    Callable,
    Iterable,
    List,
    Literal,
    Mapping,
    Optional,
    Sequence,
    Type,
    TypeVar,
    Union,
)

from trainload_worker.protocol.bounds import Annotated as Annotated
from trainload_worker.protocol.bounds import Bounds as Bounds
from trainload_worker.protocol.bounds import unwrap

T = TypeVar("T")
_UNIONS = (Union, getattr(types, "UnionType", Union))
_NOT_WRITTEN = "not_written"


class CheckError(ValueError):
    """A value that does not fit its type; the text is one line and says where it stands."""


def not_written(factory: Callable[[], Any]) -> Any:
    """A dataclass field that `to_json` leaves out; `factory` makes its default."""
    kept = {_NOT_WRITTEN: True}
    return field(default_factory=factory, compare=False, repr=False, metadata=kept)


def build_checked(cls: Type[T], values: Any, where: str) -> T:
    """An instance of the dataclass `cls` from JSON values; CheckError names the field."""
    return _Reader(where).build(cls, values, "")


def read_leniently(cls: Type[T], values: Any, notes: List[str]) -> T:
    """As `build_checked` for what others wrote, now or later.

    Unknown names are passed over. A wrong value becomes missing (None, an empty list or object, or
    a part of which nothing is known), and a line in `notes` says which and why; where its type
    admits no missing value, the whole object around it is missing. CheckError where even `cls`
    itself would be.
    """
    return _Reader("", notes).build(cls, values, "")


def parse_word(annotation: Any, text: str, where: str) -> Any:
    """The value that a command-line word means for a field of this type."""
    base, _ = unwrap(annotation)
    origin = typing.get_origin(base)
    if origin in _UNIONS:
        if type(None) in typing.get_args(base) and text.lower() in ("none", "null"):
            return None
        return parse_word(_without_none(base), text, where)
    try:
        if base is bool:
            value: Any = _TRUTHS[text.lower()]
        elif base is int:
            value = int(text.replace("_", ""))
        elif base is float:
            value = float(text)
        elif origin is tuple:
            inner = typing.get_args(base)[0]
            value = tuple(parse_word(inner, word.strip(), where) for word in text.split(","))
        elif origin is Literal:
            value = next((a for a in typing.get_args(base) if str(a) == text), text)
        else:
            value = text
    except CheckError:
        raise  # of one word in a list
    except (ValueError, KeyError):
        raise CheckError(f"{where}: {text!r} is not {_described(base)}") from None
    return check_value(annotation, value, where)


def check_value(annotation: Any, value: Any, where: str) -> Any:
    """The value as a field of this type holds it; CheckError where it does not fit."""
    return _Reader(where).check(annotation, value, "")


def suggest(name: str, known: Iterable[str]) -> str:
    """The end of a complaint about an unknown name: the nearest known one, or all of them."""
    import difflib

    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    if near:
        return f"; did you mean {near[0]!r}?"
    return f"; known: {', '.join(sorted(names))}"


def to_json(value: Any) -> Any:
    """A checked value as JSON has it: dataclasses and mappings as objects, tuples as lists."""
    if is_dataclass(value):
        return {
            spec.name: to_json(getattr(value, spec.name))
            for spec in fields(value)
            if not spec.metadata.get(_NOT_WRITTEN)
        }
    if isinstance(value, Mapping):
        return {key: to_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    return value


_TRUTHS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_PLAIN: Mapping[Any, set[type]] = {int: {int}, float: {int, float}, str: {str}}
"""Items that need no look one by one where the types are right."""
_LARGEST = 1e300
_NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}


class _Reader:
    """One reading of one document: strict, or with notes of what was wrong in it."""

    def __init__(self, where: str, notes: Optional[List[str]] = None) -> None:
        self._where = where
        self._notes = notes

    def build(self, cls: Type[T], values: Any, path: str) -> T:
        if not isinstance(values, Mapping):
            raise self._wrong(path, f"expected an object, got {_shown(values)}")
        known: Mapping[str, Any] = _fields_of(cls)  # type: ignore[arg-type]
        if self._notes is None:
            for name in values:
                if name not in known:
                    raise self._wrong(path, f"unknown name {name!r}{suggest(name, known)}")
        arguments: typing.Dict[str, Any] = {}
        for name, (hint, needed) in known.items():
            if name in values:
                below = f"{path}.{name}" if path else name
                arguments[name] = self._check_or_miss(hint, values[name], below)
            elif needed:
                raise self._wrong(path, f"{name!r} is missing")
        return cls(**arguments)

    def check(self, annotation: Any, value: Any, path: str) -> Any:
        base, bounds = unwrap(annotation)
        origin = typing.get_origin(base)
        if origin in _UNIONS:
            if value is None and type(None) in typing.get_args(base):
                return None
            return self.check(self._choose(base, value, path), value, path)
        if origin is Literal:
            choices = typing.get_args(base)
            if not any(value == one and type(value) is type(one) for one in choices):
                options = ", ".join(str(choice) for choice in choices)
                raise self._wrong(path, f"{_shown(value)} is not one of {options}")
            return value
        if origin is tuple:
            return self._check_items(typing.get_args(base), value, path)
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return self._check_entries(typing.get_args(base)[1], value, path)
        if isinstance(base, type) and is_dataclass(base):
            return value if isinstance(value, base) else self.build(base, value, path)
        return self._check_scalar(base, bounds, value, path)

    def _check_or_miss(self, annotation: Any, value: Any, path: str) -> Any:
        try:
            return self.check(annotation, value, path)
        except CheckError as error:
            missing = _missing_of(annotation)
            if self._notes is None or missing is _NEVER_MISSING:
                raise
            self._notes.append(str(error))
            return missing

    def _check_items(self, inner: Any, value: Any, path: str) -> Any:
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise self._wrong(path, f"expected a list, got {_shown(value)}")
        if len(inner) == 1 or inner[1] is not Ellipsis:
            if len(value) != len(inner):
                raise self._wrong(path, f"expected {len(inner)} values, got {len(value)}")
            return tuple(
                self.check(i, v, f"{path}[{n}]") for n, (i, v) in enumerate(zip(inner, value))
            )
        item = inner[0]
        whole = _check_together(item, value)  # long lists of numbers, the usual case
        if whole is not None:
            return whole
        found = []
        for position, one in enumerate(value):
            try:
                found.append(self.check(item, one, f"{path}[{position}]"))
            except CheckError as error:  # noqa: PERF203 - each is judged alone
                # A part of its own may be left out; a list of numbers stands or falls as a whole.
                if self._notes is None or not is_dataclass(unwrap(item)[0]):
                    raise
                self._notes.append(str(error))
        return tuple(found)

    def _check_entries(self, inner: Any, value: Any, path: str) -> Any:
        if not isinstance(value, Mapping):
            raise self._wrong(path, f"expected an object, got {_shown(value)}")
        found = {}
        for key, one in value.items():
            try:
                found[str(key)] = self.check(inner, one, f"{path}.{key}")
            except CheckError as error:  # noqa: PERF203 - as above
                if self._notes is None:
                    raise
                self._notes.append(str(error))
        return found

    def _check_scalar(self, base: Any, bounds: Optional[Bounds], value: Any, path: str) -> Any:
        if base is Any:
            return value
        if base is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value) if abs(value) < 1 << 1000 else math.inf
        if not isinstance(value, base) or (base is int and isinstance(value, bool)):
            raise self._wrong(path, f"expected {_described(base)}, got {_shown(value)}")
        if isinstance(value, float) and not math.isfinite(value):
            raise self._wrong(path, f"{value} is not a finite number")
        complaint = bounds.complaint(value) if bounds and isinstance(value, (int, float)) else None
        if complaint:
            raise self._wrong(path, f"{_shown(value)} {complaint}")
        return value

    def _choose(self, union: Any, value: Any, path: str) -> Any:
        """The one member that may be meant: by its words of choice, then by what it needs."""
        members = [one for one in typing.get_args(union) if one is not type(None)]
        if len(members) == 1:
            return members[0]
        if not isinstance(value, Mapping):
            found = next((one for one in members if isinstance(value, one)), None)
            if found is None:
                raise self._wrong(path, f"expected an object, got {_shown(value)}")
            return found
        words: typing.Dict[str, List[str]] = {}
        fitting = []
        for member in members:
            fits = True
            for name, (hint, _) in _fields_of(member).items():
                if typing.get_origin(hint) is Literal and name in _choosing(members):
                    words.setdefault(name, []).extend(map(str, typing.get_args(hint)))
                    fits = fits and value.get(name) in typing.get_args(hint)
            needed = [name for name, (_, need) in _fields_of(member).items() if need]
            if fits:
                fitting.append((member, all(name in value for name in needed)))
        for member, whole in sorted(fitting, key=lambda one: not one[1]):
            if whole or words:
                return member
        for name, known in words.items():
            said = _shown(value.get(name))
            raise self._wrong(
                f"{path}.{name}" if path else name, f"{said} is not one of {', '.join(known)}"
            )
        raise self._wrong(
            path, f"none of the kinds it may be: {', '.join(m.__name__ for m in members)}"
        )

    def _wrong(self, path: str, what: str) -> CheckError:
        where = ".".join(filter(None, (self._where, path))).replace(".[", "[")
        return CheckError(f"{where}: {what}" if where else what)


_NEVER_MISSING: Any = object()


def _missing_of(annotation: Any) -> Any:
    """What stands for a missing value of that type."""
    base, _ = unwrap(annotation)
    origin = typing.get_origin(base)
    if base is Any or (origin in _UNIONS and type(None) in typing.get_args(base)):
        return None
    if origin is tuple and typing.get_args(base)[-1] is Ellipsis:
        return ()
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {}
    if isinstance(base, type) and is_dataclass(base):
        needed = any(needed for _, needed in _fields_of(base).values())
        return _NEVER_MISSING if needed else base()
    return _NEVER_MISSING


@lru_cache(maxsize=None)
def _fields_of(cls: Any) -> Mapping[str, Any]:
    """Name -> its type, and whether a value must be given."""
    hints = (
        typing.get_type_hints(cls, include_extras=True)
        if sys.version_info >= (3, 9)
        else typing.get_type_hints(cls)
    )
    return {
        spec.name: (hints[spec.name], spec.default is MISSING and spec.default_factory is MISSING)
        for spec in fields(cls)
        if spec.init and not spec.metadata.get(_NOT_WRITTEN)
    }


def _choosing(members: Sequence[Any]) -> set[str]:
    """Names that all members have with words to choose from: those tell them apart."""
    named = [
        {name for name, (hint, _) in _fields_of(one).items() if typing.get_origin(hint) is Literal}
        for one in members
    ]
    return set.intersection(*named)


def _check_together(item: Any, values: Sequence[Any]) -> Optional[typing.Tuple[Any, ...]]:
    """The items where all are plain and within their bounds; None where each needs its own look."""
    base, bounds, optional = _plain_of(item)
    kinds = set(map(type, values))
    if optional:
        kinds.discard(type(None))
    if base is None or not kinds <= _PLAIN[base]:
        return None
    if base is str:
        return tuple(values)
    given = [one for one in values if one is not None] if optional else values
    # Beyond this a whole number is no float, and no bound of ours.
    if given and not (min(given) > -_LARGEST and max(given) < _LARGEST):
        return None
    if float in kinds and not all(map(math.isfinite, given)):
        return None  # comparisons pass over what is no number
    if bounds and given and (bounds.complaint(min(given)) or bounds.complaint(max(given))):
        return None
    if base is float and int in kinds:
        return tuple([None if one is None else float(one) for one in values])
    return tuple(values)


@lru_cache(maxsize=None)
def _plain_of(item: Any) -> typing.Tuple[Any, Optional[Bounds], bool]:
    """The plain type of a list's items, or None, their bounds, and whether one may be missing."""
    base, bounds = unwrap(item)
    optional = False
    if typing.get_origin(base) in _UNIONS:
        members = [one for one in typing.get_args(base) if one is not type(None)]
        optional = len(members) < len(typing.get_args(base))
        if len(members) == 1:
            base, bounds = unwrap(members[0])
    return (base if base in _PLAIN else None), bounds, optional


def _without_none(union: Any) -> Any:
    remaining = [a for a in typing.get_args(union) if a is not type(None)]
    assert len(remaining) == 1, "words mean X | None, no wider union"
    return remaining[0]


def _described(base: Any) -> str:
    return _NAMES.get(base) or str(getattr(base, "__name__", base))


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
