"""Values of any type that the checker knows, drawn from the type itself."""

import dataclasses
import typing
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Union

from hypothesis import strategies as st

from trainload_worker.protocol.checked import Bounds
from trainload_worker.protocol.spec import LaunchSpec

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)  # fmt: skip
_NEVER_EMPTY = {(LaunchSpec, "command"), (LaunchSpec, "ranks")}


def values_of(annotation: Any, least: int = 0) -> st.SearchStrategy[Any]:
    """Values that fit a type as JSON can hold them; lists and tuples of at least `least`."""
    bounds = Bounds()
    if typing.get_origin(annotation) is Annotated:
        annotation, *extras = typing.get_args(annotation)
        bounds = next(one for one in extras if isinstance(one, Bounds))
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Union:
        return st.one_of(*map(values_of, inner))
    if origin is Literal:
        return st.sampled_from(inner)
    if origin is tuple and inner[-1] is Ellipsis:
        return st.lists(values_of(inner[0]), min_size=least, max_size=3).map(tuple)
    if origin is tuple:
        return st.tuples(*map(values_of, inner))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return st.dictionaries(st.text(max_size=6), values_of(inner[1]), max_size=3)
    if dataclasses.is_dataclass(annotation):
        hints = typing.get_type_hints(annotation, include_extras=True)
        names = [spec.name for spec in dataclasses.fields(annotation)]
        drawn = {
            name: values_of(hints[name], least=int((annotation, name) in _NEVER_EMPTY))
            for name in names
        }
        return st.builds(annotation, **drawn)
    if annotation is Any:
        return JSON_VALUES
    if annotation is type(None):
        return st.none()
    if annotation is int:
        return st.integers(bounds.low, bounds.high)
    if annotation is float:
        low, high = bounds.low, bounds.high
        return st.floats(
            low if bounds.above is None else bounds.above,
            high if bounds.below is None else bounds.below,
            exclude_min=bounds.above is not None,
            exclude_max=bounds.below is not None,
            allow_nan=False,
            allow_infinity=False,
        )
    return {bool: st.booleans(), str: st.text(max_size=8)}[annotation]
