"""Checked construction of frozen specs from JSON values and from `name=value` words.

Standard library only, since the measuring wing builds specs on machines where nothing can be
installed. Knows types and bounds, not what any field means.
"""

import difflib
import math
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Any, Literal, TypeVar

from trainload.errors import WorkloadError

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Inclusive bounds of a number, used as `Annotated[int, Bounds(low=1)]`."""

    low: float | None = None
    high: float | None = None
    above: float | None = None
    """Exclusive lower bound."""
    below: float | None = None
    """Exclusive upper bound."""

    def complaint(self, value: float) -> str | None:
        """What is wrong with `value`, or None."""
        if self.low is not None and value < self.low:
            return f"must be at least {self.low:g}"
        if self.above is not None and value <= self.above:
            return f"must be above {self.above:g}"
        if self.high is not None and value > self.high:
            return f"must be at most {self.high:g}"
        if self.below is not None and value >= self.below:
            return f"must be below {self.below:g}"
        return None


def build_checked(cls: type[T], values: Mapping[str, Any], where: str) -> T:
    """An instance of the dataclass `cls` from JSON values; WorkloadError names the field."""
    assert is_dataclass(cls)
    if not isinstance(values, Mapping):
        raise WorkloadError(f"{where}: expected an object, got {_shown(values)}")
    hints = typing.get_type_hints(cls, include_extras=True)
    known = {f.name: f for f in fields(cls) if f.init}
    for name in values:
        if name not in known:
            raise WorkloadError(f"{where}: unknown name {name!r}{suggest(name, known)}")
    arguments: dict[str, Any] = {}
    for name, spec in known.items():
        if name in values:
            arguments[name] = _check(hints[name], values[name], f"{where}.{name}")
        elif spec.default is MISSING and spec.default_factory is MISSING:
            raise WorkloadError(f"{where}: {name!r} is missing")
    return cls(**arguments)


def parse_word(annotation: Any, text: str, where: str) -> Any:
    """The value that a command-line word means for a field of this type."""
    base, bounds = _unwrap(annotation)
    origin = typing.get_origin(base)
    if origin in (typing.Union, types.UnionType):
        if type(None) in typing.get_args(base) and text.lower() in ("none", "null"):
            return None
        return parse_word(_without_none(base), text, where)
    try:
        if base is bool:
            value: Any = {
                "true": True,
                "yes": True,
                "1": True,
                "false": False,
                "no": False,
                "0": False,
            }[text.lower()]
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
    except (ValueError, KeyError):
        raise WorkloadError(f"{where}: {text!r} is not {_described(base)}") from None
    return _check(typing.Annotated[base, bounds] if bounds else base, value, where)


def suggest(name: str, known: Sequence[str] | Mapping[str, Any]) -> str:
    """The end of a complaint about an unknown name: the nearest known one, or all of them."""
    near = difflib.get_close_matches(name, list(known), n=1)
    if near:
        return f"; did you mean {near[0]!r}?"
    return f"; known: {', '.join(sorted(known))}"


def _check(annotation: Any, value: Any, where: str) -> Any:
    base, bounds = _unwrap(annotation)
    origin = typing.get_origin(base)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in typing.get_args(base):
            return None
        return _check(_without_none(base), value, where)
    if origin is Literal:
        choices = typing.get_args(base)
        if value not in choices:
            options = ", ".join(str(choice) for choice in choices)
            raise WorkloadError(f"{where}: {_shown(value)} is not one of {options}")
        return value
    if origin is tuple:
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise WorkloadError(f"{where}: expected a list, got {_shown(value)}")
        inner = typing.get_args(base)[0]
        return tuple(_check(inner, v, f"{where}[{i}]") for i, v in enumerate(value))
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            raise WorkloadError(f"{where}: expected an object, got {_shown(value)}")
        inner = typing.get_args(base)[1]
        return {str(k): _check(inner, v, f"{where}.{k}") for k, v in value.items()}
    if is_dataclass(base) and isinstance(base, type):
        return value if isinstance(value, base) else build_checked(base, value, where)
    return _check_scalar(base, bounds, value, where)


def _check_scalar(base: Any, bounds: Bounds | None, value: Any, where: str) -> Any:
    if base is Any:
        return value
    if base is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, base) or (base is int and isinstance(value, bool)):
        raise WorkloadError(f"{where}: expected {_described(base)}, got {_shown(value)}")
    if isinstance(value, float) and not math.isfinite(value):
        raise WorkloadError(f"{where}: {value} is not a finite number")
    complaint = bounds.complaint(value) if bounds and isinstance(value, int | float) else None
    if complaint:
        raise WorkloadError(f"{where}: {_shown(value)} {complaint}")
    return value


def _unwrap(annotation: Any) -> tuple[Any, Bounds | None]:
    if typing.get_origin(annotation) is typing.Annotated:
        base, *extras = typing.get_args(annotation)
        return base, next((e for e in extras if isinstance(e, Bounds)), None)
    return annotation, None


def _without_none(union: Any) -> Any:
    remaining = [a for a in typing.get_args(union) if a is not type(None)]
    assert len(remaining) == 1, "specs use X | None, no wider union"
    return remaining[0]


def _described(base: Any) -> str:
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
    return names.get(base, getattr(base, "__name__", str(base)))


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
