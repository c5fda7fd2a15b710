"""Recomputes blocks of a model in its backward pass (activation checkpointing).

Changes how a model is called, not what it computes; for steps that are traced.
"""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.utils.checkpoint import checkpoint

from trainload_worker.frameworks.torch.graph import GraphModule


def checkpoint_blocks(model: Any) -> str | None:
    """Checkpoints the model's blocks; what they are in words, None where it has none."""
    if isinstance(model, GraphModule):
        return _checkpoint_graph(model)
    found = _longest_row(model)
    if found is None:
        return None
    name, blocks = found
    for block in blocks:
        _wrap(block)
    return f"each of the {len(blocks)} modules in {name or type(model).__name__}"


def _longest_row(model: Any) -> tuple[str, list[Any]] | None:
    """The container with the most members, each with parameters of its own."""
    best: tuple[str, list[Any]] | None = None
    for name, module in model.named_modules():
        if isinstance(module, (nn.ModuleList, nn.Sequential)):
            members = [part for part in module if any(True for _ in part.parameters())]
            if len(members) > 1 and (best is None or len(members) > len(best[1])):
                best = name, members
    return best


def _wrap(block: Any) -> None:
    plain = block.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        return _again(plain, *args, **kwargs)

    block.forward = forward


def _again(function: Any, *args: Any, **kwargs: Any) -> Any:
    # No numbers are drawn in a trace, so there is no state of them to keep.
    return checkpoint(function, *args, use_reentrant=False, preserve_rng_state=False, **kwargs)


def _checkpoint_graph(model: Any) -> str | None:
    """Stretches of about the square root of all layers, cut where one value alone goes on."""
    stretches = _stretches(model._calls, model._entry, model._exit)
    if len(stretches) < 2:
        return None

    def forward(rows: Any) -> Any:
        value = rows
        for entry, calls, leave in stretches[:-1]:
            value = _again(_run, value, entry, calls, leave, model._slot_count)
        entry, calls, leave = stretches[-1]
        return _run(value, entry, calls, leave, model._slot_count)

    model.forward = forward
    return f"{len(stretches) - 1} stretches of its layers, the last one left as it is"


def _run(value: Any, entry: int, calls: Any, leave: int, slots: int) -> Any:
    values: list[Any] = [None] * slots
    values[entry] = value
    del value
    for module, sources, target, released in calls:
        values[target] = module(*[values[slot] for slot in sources])
        for slot in released:
            values[slot] = None
    return values[leave]


def _stretches(calls: Any, entry: int, leave: int) -> list[tuple[int, list[Any], int]]:
    """Value that comes in, calls, value that goes out; every other value stays inside."""
    wanted = max(2, round(len(calls) ** 0.5))
    length = len(calls) / wanted
    found: list[tuple[int, list[Any], int]] = []
    live = {entry}
    first, came = 0, entry
    for at, (_, _, target, released) in enumerate(calls):
        live.add(target)
        live.difference_update(released)
        last = at == len(calls) - 1
        if last or (live == {target} and at + 1 - first >= length):
            found.append((came, list(calls[first : at + 1]), leave if last else target))
            first, came = at + 1, target
    return found
