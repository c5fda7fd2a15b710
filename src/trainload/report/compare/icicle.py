"""The icicle of differences: width is the time now (B), colour the change; plain SVG, no script.

A layer that vanished has no time now: it is kept, as wide as it was, hatched, in a row of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from trainload.analyse.compare import Comparison, LayerDifference
from trainload.report.compare.wording import signed
from trainload.report.markup import escape
from trainload.units import render_percent, render_seconds

WIDTH, ROW = 1000.0, 26.0
NARROWEST = 0.8
"""Boxes below, in units of the width's thousandth, are drawn as one grey box."""
_LETTER = 7.2
_DEEPEST = 100
"""Levels beyond which a path is one name."""
_FULL = 0.1
"""Share of the step by which a change has the strongest colour."""


@dataclass(kw_only=True)
class Box:
    """A layer with everything below it."""

    name: str
    path: str
    a_s: float = 0.0
    b_s: float = 0.0
    own: list[LayerDifference] = field(default_factory=list)
    children: dict[str, Box] = field(default_factory=dict)

    @property
    def difference_s(self) -> float:
        """B − A."""
        return self.b_s - self.a_s


def grow_boxes(found: Comparison) -> Box:
    """The parts of the step as a tree by their paths; the root is the step."""
    root = Box(name="step", path="step")
    for part in found.layers:
        place = [root]
        deep = part.path.count(".") > _DEEPEST
        words = [part.path] if part.phase is None or deep else part.path.split(".")
        for at, word in enumerate(words):
            path = ".".join(words[: at + 1])
            place.append(place[-1].children.setdefault(word, Box(name=word, path=path)))
        place[-1].own.append(part)
        for box in place:
            box.a_s += part.a_s
            box.b_s += part.b_s
    return root


def render_icicle(found: Comparison) -> str:
    """The SVG; empty without a time on both sides."""
    root = grow_boxes(found)
    if root.b_s <= 0 or len(found.layers) < 2:
        return ""
    scale = WIDTH / root.b_s
    pieces = list(_boxes(root, 0.0, 0, scale, root.b_s))
    depth = 1 + max(level for level, _ in pieces)
    vanished = [box for box in _leaves(root) if box.b_s <= 0 < box.a_s]
    lost, x = [], 0.0
    for box in sorted(vanished, key=lambda one: -one.a_s):
        width = max(box.a_s * scale, 4.0)
        if x + width > WIDTH:
            break
        lost.append(_rectangle(box, x, depth + 0.5, width, "lost", root.b_s))
        x += width
    height = ROW * (depth + (1.5 if lost else 0))
    label = "Icicle of differences: width is the time now, colour the change"
    return (
        f'<svg class="differences" viewBox="0 0 {WIDTH:.0f} {height:.0f}" role="img" '
        f'aria-label="{label}">{"".join(text for _, text in pieces)}{"".join(lost)}</svg>'
    )


def _boxes(
    box: Box, x: float, level: int, scale: float, step_s: float
) -> Iterator[tuple[int, str]]:
    width = box.b_s * scale
    yield level, _rectangle(box, x, level, width, _colour(box, step_s), step_s)
    hidden = 0.0
    for child in sorted(box.children.values(), key=lambda one: -one.b_s):
        inner = child.b_s * scale
        if inner < NARROWEST:
            hidden += inner
            continue
        yield from _boxes(child, x, level + 1, scale, step_s)
        x += inner
    if hidden >= NARROWEST:
        y = ROW * (level + 1)
        yield (
            level + 1,
            f'<rect class="rest" x="{x:.2f}" y="{y:.1f}" width="{hidden:.2f}" height="{ROW - 1}">'
            "<title>smaller layers</title></rect>",
        )


def _leaves(box: Box) -> Iterator[Box]:
    if not box.children:
        yield box
    for child in box.children.values():
        yield from _leaves(child)


def _colour(box: Box, step_s: float) -> str:
    """Class of a box: how much slower (w1 to w4) or faster (g1 to g4), by share of the step."""
    share = box.difference_s / step_s
    decided = any(part.verdict in ("slower", "faster") for part in box.own)
    if abs(share) < 0.002:
        return "even"
    strength = min(4, 1 + int(3 * abs(share) / _FULL))
    return f"{'w' if share > 0 else 'g'}{strength}{'' if decided or box.children else ' open'}"


def _rectangle(box: Box, x: float, level: float, width: float, style: str, step_s: float) -> str:
    change = signed("step_s", box.difference_s)
    parts = "; ".join(
        f"{part.phase or part.path} {signed('step_s', part.difference_s)}" for part in box.own
    )
    share = render_percent(box.difference_s / step_s)
    title = (
        f"{box.path}: {render_seconds(box.a_s)} → {render_seconds(box.b_s)} "
        f"({change}, {share} of the step) {parts}"
    )
    y = ROW * level
    letters = int((width - 6) / _LETTER)
    words = f"{box.name} {change}"
    shown = words if len(words) <= letters else box.name[: max(letters, 0)]
    text = ""
    if letters >= 3:
        text = f'<text x="{x + 4:.2f}" y="{y + ROW - 9:.1f}">{escape(shown)}</text>'
    return (
        f'<g class="{style}"><rect x="{x:.2f}" y="{y:.1f}" width="{width:.2f}" '
        f'height="{ROW - 1}"><title>{escape(title)}</title></rect>{text}</g>'
    )
