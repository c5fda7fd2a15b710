"""The arguments of an operation: their tensors, what a result depends on, and how they are written.

Reads arguments alone; what an operation gives is worked out elsewhere.
"""

from __future__ import annotations

import json
from typing import Any

import torch

from trainload_worker.frameworks.torch.fake_step.tensors import FakeTensor, to_meta

META = torch.device("meta")


def scan(values: Any, key: list[Any], fakes: list[FakeTensor]) -> None:
    """Adds to a key what the result depends on, and collects the fake tensors in order."""
    for value in values:
        kind = type(value)
        if kind is FakeTensor:
            key.append(value.form)
            fakes.append(value)
        elif kind in (list, tuple) or isinstance(value, (list, tuple)):
            key.append(len(value))
            scan(value, key, fakes)
        elif isinstance(value, torch.Tensor):
            key.append((tuple(value.shape), value.stride(), value.dtype))
        else:
            key.append(kind)
            key.append(value)


def collect(values: Any, fakes: list[FakeTensor]) -> None:
    """Collects the fake tensors in order, those in lists too."""
    for value in values:
        if type(value) is FakeTensor:
            fakes.append(value)
        elif isinstance(value, (list, tuple)):
            collect(value, fakes)


def has_tensors(values: Any) -> bool:
    """Whether any of the values is a tensor, real or fake."""
    return any(isinstance(value, torch.Tensor) for value in values)


def unpinned(kwargs: Any) -> dict[str, Any]:
    """The same options without pinned memory, which needs a real GPU."""
    return {name: value for name, value in kwargs.items() if name != "pin_memory"}


def with_metas(value: Any, metas: dict[int, Any]) -> Any:
    """The same arguments with meta tensors in place of all others, each kept by its `id`."""
    if isinstance(value, torch.Tensor):
        if id(value) not in metas:
            metas[id(value)] = to_meta(value)
        return metas[id(value)]
    if isinstance(value, (list, tuple)):
        changed = [with_metas(one, metas) for one in value]
        return tuple(changed) if type(value) is tuple else changed
    return META if isinstance(value, torch.device) else value


def attributes(args: Any, kwargs: Any) -> str:
    """Arguments that are no tensors, as JSON for the trace; of a long list the first 32 values."""
    plain = [_plain(value) for value in (*args, *kwargs.values()) if not _is_tensors(value)]
    return json.dumps(plain, separators=(",", ":"))


def _is_tensors(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return bool(value) and isinstance(value[0], torch.Tensor)
    return isinstance(value, torch.Tensor)


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value[:32]]
    return str(value)
