"""Says to which layer and phase an operation of a step belongs; reads no profile.

A layer's operations stand in its scope, those of its gradient in that scope under `gradient_tape`.
Where the name tells nothing, the graph does: a sum of gradients belongs to whom it feeds. Where
TensorFlow fused several operations into one, it is shared out by their floating-point operations.
"""

from __future__ import annotations

import functools
import math
import re
from typing import Any, Collection, Mapping, Sequence

from trainload_worker.windows.labelled_events import (
    INPUT,
    UNKNOWN,
    UPDATE,
    Owner,
    layer,
    loss,
    share,
)

PREPARE, LOSS, OPTIMIZER, GRADIENT, ENDING = "prepare", "loss", "optimizer", "gradient", "ending"
"""Scopes of a step outside of the model; GRADIENT is inside a variable's."""
VARIABLE = "variable"
"""Begins the scope of one variable's update; its number follows."""

_TAPE = "gradient_tape"
_UPDATE = re.compile(rf"\b{OPTIMIZER}(?:_\d+)?/{VARIABLE}(\d+)/({GRADIENT}/)?")
_MADE_UNIQUE = re.compile(r"_\d+$")
_PREFIX = re.compile(r"^_(?:Mkl)?(?:Native)?")
"""Of kinds that oneDNN runs in place of TensorFlow's own."""
_FREE = frozenset(
    ("Cast", "Const", "ExpandDims", "Identity", "Placeholder", "ReadVariableOp", "Reshape", "Shape",
     "Squeeze", "StopGradient", "StridedSlice")
)  # fmt: skip
"""Kinds that may leave no trace by themselves, fused or not."""
_COMPOSED = "/unary_ops_composition"
"""Appended to the last of several functions of one value that TensorFlow made one."""
_FARTHEST = 8
"""Operations between a nameless one and the one that it feeds."""


class Owners:
    """Owners of the operations of one traced step.

    `scopes` gives the layer of each scope inside the model's, such as `lenet5_1/conv1_1`, and
    `variables` the layer of each variable in the optimizer's order.
    """

    def __init__(
        self, graph: Any, scopes: Mapping[str, str], variables: Sequence[str | None]
    ) -> None:
        self._step = graph
        self._scopes = dict(scopes)
        self._roots = {scope.partition("/")[0] for scope in scopes}
        self._variables = variables

    @functools.cached_property
    def _graph(self) -> dict[str, Any]:
        # Owners are made while training, and asked after it.
        return {operation.name: operation for operation in self._step.get_operations()}

    def find(self, name: str, kind: str, executed: Collection[str]) -> Owner:
        """Whose an operation is; `executed` holds the original names of all that ran."""
        operation = self._graph.get(original_name(name))
        if operation is not None and _PREFIX.sub("", kind) != _PREFIX.sub("", operation.type):
            parts = self._parts(operation, executed)
            return self._share(parts) or self._by_name(name)
        owner = self._by_name(name)
        if owner is UNKNOWN and operation is not None:
            owner = self._by_graph(operation)
        return owner

    def _by_name(self, name: str) -> Owner:
        parts = name.split("/")
        phase = "backward" if _TAPE in parts else "forward"
        for place, part in enumerate(parts[:-1]):
            if part in self._roots:
                # What the model does outside of its layers is its own.
                return layer(self._scopes.get(f"{part}/{parts[place + 1]}", ""), phase)
        update = _UPDATE.search(name)
        if update is not None:
            owner = self._variables[int(update[1])]
            phase = "backward" if update[2] else "update"
            return UPDATE if owner is None else layer(owner, phase)
        scopes = {_MADE_UNIQUE.sub("", part) for part in parts[:-1]}
        if LOSS in scopes:
            return loss(phase)
        if PREPARE in scopes:
            return INPUT
        return UPDATE if OPTIMIZER in scopes or ENDING in scopes else UNKNOWN

    def _by_graph(self, operation: Any) -> Owner:
        """The owner of what it feeds, and else of what feeds it."""
        for follow in (_consumers, _producers):
            near, seen = [operation], {operation.name}
            for _ in range(_FARTHEST):
                near = [found for one in near for found in follow(one) if found.name not in seen]
                seen.update(one.name for one in near)
                owners = [owner for owner in map(self._by_name, _names(near)) if owner]
                if owners:
                    return _as_gradient(owners[0])
        return UNKNOWN

    def _parts(self, operation: Any, executed: Collection[str]) -> list[Any]:
        """The operation and those before it that did not run by themselves."""
        parts, names, pending = [], {operation.name}, [operation]
        while pending:
            one = pending.pop()
            parts.append(one)
            for before in _producers(one):
                absorbed = before.name not in executed and before.type not in _FREE
                if absorbed and before.name not in names:
                    names.add(before.name)
                    pending.append(before)
        return parts

    def _share(self, parts: Sequence[Any]) -> Owner:
        weights: dict[tuple[str, str], float] = {}
        for part in parts:
            owner = self._by_name(part.name)
            if "layer" in owner:
                key = (owner["layer"], owner["phase"])
                weights[key] = weights.get(key, 0.0) + flop_per_row(part)
        return share([(*key, weight) for key, weight in sorted(weights.items())])


def original_name(name: str) -> str:
    """The name that an operation, or the last of those it was made from, had in the step."""
    return name[: -len(_COMPOSED)] if name.endswith(_COMPOSED) else name


def flop_per_row(operation: Any) -> float:
    """Floating-point operations for one row: products twice, else one for each value given."""
    values = _size(operation.outputs[0].shape) if operation.outputs else 0.0
    if operation.type in ("Conv2D", "DepthwiseConv2dNative"):
        return 2.0 * values * _size(operation.inputs[1].shape[:3])
    if operation.type in ("MatMul", "BatchMatMul", "BatchMatMulV2"):
        turned = operation.get_attr("transpose_a" if operation.type == "MatMul" else "adj_x")
        return 2.0 * values * _size(operation.inputs[0].shape[-2 if turned else -1 :][:1])
    return values


def _size(shape: Any) -> float:
    """Values of a shape; dimensions known only while training, as the batch, count as one."""
    sides = [] if shape.rank is None else shape.as_list()
    return float(math.prod(side or 1 for side in sides))


def _consumers(operation: Any) -> list[Any]:
    return [one for output in operation.outputs for one in output.consumers()]


def _producers(operation: Any) -> list[Any]:
    return [value.op for value in operation.inputs]


def _names(operations: Sequence[Any]) -> list[str]:
    return [operation.name for operation in operations]


def _as_gradient(owner: Owner) -> Owner:
    """What prepares a layer's update outside of the optimizer is its gradient."""
    return layer(owner["layer"], "backward") if owner.get("phase") == "update" else owner
