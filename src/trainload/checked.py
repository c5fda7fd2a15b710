"""Checked construction of frozen specs from JSON values and from `name=value` words.

The checker is the one both halves share; here its complaints are errors of the workload.
"""

from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

from trainload.errors import WorkloadError
from trainload_worker.protocol import checked
from trainload_worker.protocol.checked import Bounds, CheckError, suggest, to_json

__all__ = ["Bounds", "build_checked", "check_value", "parse_word", "suggest", "to_json"]

P = ParamSpec("P")
T = TypeVar("T")


def build_checked(cls: type[T], values: Mapping[str, Any], where: str) -> T:
    """An instance of the dataclass `cls` from JSON values; WorkloadError names the field."""
    return _translated(checked.build_checked, cls, values, where)


def parse_word(annotation: Any, text: str, where: str) -> Any:
    """The value that a command-line word means for a field of this type."""
    return _translated(checked.parse_word, annotation, text, where)


def check_value(annotation: Any, value: Any, where: str) -> Any:
    """The value as a field of this type holds it; WorkloadError where it does not fit."""
    return _translated(checked.check_value, annotation, value, where)


def _translated(function: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    try:
        return function(*arguments, **options)
    except CheckError as error:
        raise WorkloadError(str(error)) from None
