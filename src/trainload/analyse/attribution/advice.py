"""What to do next, judged from the partition by named thresholds; the words are the report's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from trainload.analyse.attribution.types import Advice, LayerNode, RankLayers, Topic

INPUT_WAIT_FRACTION = 0.10
HOST_BOUND_FRACTION = 0.15
SYNCHRONISING_FRACTION = 0.05
COPIES_FRACTION = 0.10
COMMUNICATION_FRACTION = 0.20
STRAGGLER_FRACTION = 0.10
UPDATE_FRACTION = 0.25
DOMINANT_LAYER_FRACTION = 0.40
REMAINDER_FRACTION = 0.05
MEMORY_FRACTION = 0.40
FEWEST_LAYERS = 3
"""A model with fewer layers at work always has a dominant one."""

_PARTS: tuple[tuple[Topic, float, tuple[str, ...]], ...] = (
    ("input_wait", INPUT_WAIT_FRACTION, ("input", "idle: input")),
    ("host_bound", HOST_BOUND_FRACTION, ("idle: host",)),
    ("synchronising", SYNCHRONISING_FRACTION, ("idle: synchronise",)),
    ("copies", COPIES_FRACTION, ("copy",)),
    ("communication", COMMUNICATION_FRACTION, ("communication",)),
    ("update_heavy", UPDATE_FRACTION, ("update",)),
    ("remainder", REMAINDER_FRACTION, ("remainder",)),
)


def advise(ranks: Sequence[RankLayers]) -> tuple[Advice, ...]:
    """Advice on what to change, the largest share of a step first; empty where nothing stands out.

    With several ranks an advice is taken from the rank it fits best, and `subject` names that rank.
    """
    timed = [rank for rank in ranks if rank.step_s > 0]
    if not timed:
        return ()
    found = [*_by_part(timed), *_straggler(timed), *_dominant(timed), *_memory(timed)]
    # A share of memory is no share of the step: it comes after them.
    return tuple(sorted(found, key=lambda a: (a.topic == "memory_heavy", -a.fraction)))


def _by_part(ranks: Sequence[RankLayers]) -> Iterator[Advice]:
    for topic, threshold, parts in _PARTS:
        shares = {
            rank.rank: sum(rank.parts.get(part, 0.0) for part in parts) / rank.step_s
            for rank in ranks
        }
        worst = max(shares, key=lambda rank: shares[rank])
        if shares[worst] >= threshold:
            subject = f"rank {worst}" if len(ranks) > 1 else None
            yield Advice(topic=topic, fraction=shares[worst], subject=subject)


def _straggler(ranks: Sequence[RankLayers]) -> Iterator[Advice]:
    """The rank whose own time, communication left out, is longest beside the others'."""
    if len(ranks) < 2:
        return
    own = {rank.rank: rank.step_s - rank.parts.get("communication", 0.0) for rank in ranks}
    slowest = max(own, key=lambda rank: own[rank])
    others = median(time for rank, time in own.items() if rank != slowest)
    step_s = max(rank.step_s for rank in ranks)
    fraction = (own[slowest] - others) / step_s
    if fraction >= STRAGGLER_FRACTION:
        yield Advice(topic="straggler", fraction=fraction, subject=f"rank {slowest}")


def _dominant(ranks: Sequence[RankLayers]) -> Iterator[Advice]:
    rank = ranks[0]
    working = [node for node in rank.nodes if node.exclusive_s > 0]
    if len(working) < FEWEST_LAYERS:
        return
    largest = max(working, key=lambda node: node.exclusive_s)
    fraction = largest.exclusive_s / rank.step_s
    if fraction >= DOMINANT_LAYER_FRACTION:
        yield Advice(topic="dominant_layer", fraction=fraction, subject=_label(largest))


def _memory(ranks: Sequence[RankLayers]) -> Iterator[Advice]:
    if not any(node.memory and node.memory.activation_bytes for node in ranks[0].nodes):
        # Parameters alone are not what a layer holds.
        return
    sizes = [(node, _bytes(node)) for node in ranks[0].nodes]
    total = sum(size for _, size in sizes)
    if total <= 0 or sum(size > 0 for _, size in sizes) < FEWEST_LAYERS:
        return
    node, size = max(sizes, key=lambda pair: pair[1])
    if size / total >= MEMORY_FRACTION:
        yield Advice(topic="memory_heavy", fraction=size / total, subject=_label(node))


def _label(node: LayerNode) -> str:
    return node.layer or node.root


def _bytes(node: LayerNode) -> int:
    memory = node.memory
    if memory is None:
        return 0
    known = memory.gradient_bytes, memory.optimizer_bytes, memory.activation_bytes
    return memory.parameter_bytes + sum(part for part in known if part is not None)
