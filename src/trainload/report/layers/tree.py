"""The module tree made small enough to read: who is below whom, and what is folded away.

Chooses and arranges; times come from `analyse` and are only summed where layers are folded.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from trainload.analyse.attribution.types import LayerMemory, LayerNode

LEAST_CONTAINER = 0.05
"""Of all layers' time, what a container has to hold to be told of its own."""
FILLED = 0.95
"""Of a container's time in one layer, above which that layer tells the same."""


@dataclass(frozen=True, kw_only=True)
class TreeLine:
    """One line of a pruned tree: a layer, or several layers folded into one line."""

    depth: int
    node: LayerNode | None
    """None for a line of folded layers."""
    label: str
    """The layer's path below the line it hangs from; empty for folded layers."""
    parent: int | None
    """Position of the line it hangs from."""
    folded: int = 0
    """How many layers a folded line stands for."""
    folded_s: float = 0.0


def parents_of(nodes: Sequence[LayerNode]) -> list[int | None]:
    """For each node the position of its nearest ancestor in the list; None where there is none."""
    known: dict[tuple[str, str], int] = {}
    parents: list[int | None] = []
    for at, node in enumerate(nodes):
        path, parent = node.layer, None
        while path and parent is None:
            path = path.rpartition(".")[0]
            parent = known.get((node.root, path))
        parents.append(parent)
        known.setdefault((node.root, node.layer), at)
    return parents


def with_totals(nodes: Sequence[LayerNode]) -> list[LayerNode]:
    """The same layers, each with the times and memory of everything below it added to its own.

    The highest peak of memory stays what it is: the highest of them all.
    """
    parents = parents_of(nodes)
    found = list(nodes)
    for at in range(len(nodes) - 1, -1, -1):
        above = parents[at]
        if above is not None:
            found[above] = _joined(found[above], found[at])
    return found


def _joined(above: LayerNode, node: LayerNode) -> LayerNode:
    names = ("forward_s", "backward_s", "update_s", "idle_s", "calls")
    times = {name: getattr(above, name) + getattr(node, name) for name in names}
    return replace(above, **times, memory=_joined_memory(above.memory, node.memory))


def _joined_memory(above: LayerMemory | None, node: LayerMemory | None) -> LayerMemory | None:
    if above is None or node is None:
        return above or node
    sums: dict[str, int | None] = {}
    for one in fields(LayerMemory):
        known = [v for v in (getattr(above, one.name), getattr(node, one.name)) if v is not None]
        join = max if one.name == "peak_bytes" else sum
        sums[one.name] = join(known) if known else None
    return replace(above, **sums)  # type: ignore[arg-type]  # None only where either may be None


def costliest_lines(
    nodes: Sequence[LayerNode], most: int, *, containers: bool = False
) -> list[TreeLine]:
    """The `most` layers that take longest themselves, under the ancestors where they part.

    An ancestor on the way to one of them only is left out; the path of the layer names it. With
    `containers` as many of the longest that divide their time stand there too, for their totals.
    """
    parents = parents_of(nodes)
    shown = set(sorted(range(len(nodes)), key=lambda at: -nodes[at].exclusive_s)[:most])
    if containers:
        shown |= _telling(nodes, parents, most)
    shown |= {at for at in _above(shown, parents) if parents[at] is None}
    leading = [0] * len(nodes)
    for at in range(len(nodes) - 1, -1, -1):
        parent = parents[at]
        if leading[at] > 1:
            shown.add(at)
        if parent is not None and (at in shown or leading[at]):
            leading[parent] += 1
    return _lay_out(nodes, parents, shown)


def _telling(nodes: Sequence[LayerNode], parents: Sequence[int | None], most: int) -> set[int]:
    """The longest containers, those of little time and those that one layer fills left out."""
    whole_s = sum(node.inclusive_s for at, node in enumerate(nodes) if parents[at] is None)
    largest_s: dict[int, float] = {}
    for at, parent in enumerate(parents):
        if parent is not None:
            largest_s[parent] = max(largest_s.get(parent, 0.0), nodes[at].inclusive_s)
    found = [
        at
        for at, child_s in largest_s.items()
        if nodes[at].inclusive_s >= LEAST_CONTAINER * whole_s
        and child_s <= FILLED * nodes[at].inclusive_s
    ]
    return set(sorted(found, key=lambda at: -nodes[at].inclusive_s)[:most])


def prune_tree(nodes: Sequence[LayerNode], most: int) -> list[TreeLine]:
    """The `most` longest subtrees with all their ancestors."""
    parents = parents_of(nodes)
    shown = set(sorted(range(len(nodes)), key=lambda at: -nodes[at].inclusive_s)[:most])
    return _lay_out(nodes, parents, shown | _above(shown, parents))


def _above(chosen: set[int], parents: Sequence[int | None]) -> set[int]:
    """All ancestors of some nodes."""
    found: set[int] = set()
    for at in chosen:
        parent = parents[at]
        while parent is not None and parent not in found:
            found.add(parent)
            parent = parents[parent]
    return found


def _lay_out(
    nodes: Sequence[LayerNode], parents: Sequence[int | None], shown: set[int]
) -> list[TreeLine]:
    """Lines of the shown nodes in order of the model, each followed by what it hides."""
    below: dict[int | None, list[int]] = {}
    nearest: list[int | None] = []
    sizes = [1] * len(nodes)
    for at, parent in enumerate(parents):
        nearest.append(parent if parent is None or parent in shown else nearest[parent])
        if at in shown:
            below.setdefault(nearest[at], []).append(at)
    for at in range(len(nodes) - 1, -1, -1):
        above = parents[at]
        if above is not None:
            sizes[above] += sizes[at]
    lines: list[TreeLine] = []
    waiting: list[tuple[int | None, TreeLine]] = []

    def add_below(at: int | None, depth: int, line: int | None) -> None:
        children = below.get(at, [])
        entries: list[tuple[int | None, TreeLine]] = [
            (child, _line(nodes, child, at, depth, line)) for child in children
        ]
        within = [at] if at is not None else [n for n, p in enumerate(parents) if p is None]
        folded = sum(sizes[n] for n in within) - sum(sizes[child] for child in children)
        folded -= 0 if at is None else 1
        if folded > 0:
            rest_s = sum(nodes[n].inclusive_s for n in within)
            rest_s -= 0.0 if at is None else nodes[at].exclusive_s
            rest_s -= sum(nodes[child].inclusive_s for child in children)
            entries.append((None, _folded_line(folded, rest_s, depth, line)))
        waiting.extend(reversed(entries))

    add_below(None, 0, None)
    while waiting:
        child, entry = waiting.pop()
        lines.append(entry)
        if child is not None:
            add_below(child, entry.depth + 1, len(lines) - 1)
    return lines


def _line(
    nodes: Sequence[LayerNode], at: int, above: int | None, depth: int, parent: int | None
) -> TreeLine:
    label = _label(nodes[at], nodes[above] if above is not None else None)
    return TreeLine(depth=depth, node=nodes[at], label=label, parent=parent)


def _folded_line(folded: int, rest_s: float, depth: int, parent: int | None) -> TreeLine:
    return TreeLine(
        depth=depth,
        node=None,
        label="",
        parent=parent,
        folded=folded,
        folded_s=max(rest_s, 0.0),  # a difference of floats may fall below nothing
    )


def _label(node: LayerNode, above: LayerNode | None) -> str:
    if above is None:
        return f"{node.root}.{node.layer}" if node.layer else node.root
    return node.layer.removeprefix(f"{above.layer}.") if above.layer else node.layer
