"""Reads the text of a compiled XLA program: computations, instructions, their work in FLOPs.

Knows no layers and no framework.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Iterator, Mapping, Sequence, Tuple

Shape = Tuple[str, Tuple[int, ...]]
"""Type of element and dimensions of an array."""

TRANSCENDENTAL_FLOP = 10
"""Of one exponential, logarithm, root and the like: about what its polynomial takes."""
_TRANSCENDENTAL = frozenset(
    (
        *("exponential", "exponential-minus-one", "log", "log-plus-one", "logistic", "power"),
        *("tanh", "tan", "sine", "cosine", "atan2", "erf", "sqrt", "rsqrt", "cbrt"),
    )
)
MOVES = frozenset(
    (
        *("parameter", "constant", "iota", "tuple", "get-tuple-element", "after-all"),
        *("copy", "copy-start", "copy-done", "bitcast", "bitcast-convert", "convert", "reshape"),
        *("transpose", "broadcast", "slice", "dynamic-slice", "dynamic-update-slice", "gather"),
        *("concatenate", "pad", "reverse", "optimization-barrier", "opt-barrier"),
        *("partition-id", "replica-id"),
    )
)
"""Opcodes that compute nothing."""
_BYTES = {"pred": 1, "c64": 8, "c128": 16, "token": 0, "opaque": 0}
_ARRAY = re.compile(r"(\w+)\[([\d,<=?]*)\]")
_NAME = re.compile(r"%([\w.\-]+)")
_CALLED = re.compile(
    r"\b(?:calls|to_apply|body|condition|branch_computations|true_computation|"
    r"false_computation|called_computations)=(\{[^}]*\}|%[\w.\-]+)"
)
_HEAD = re.compile(r"^(ENTRY )?%([\w.\-]+) \(")
_LINE = re.compile(r"^  (ROOT )?%([\w.\-]+) = ")
_SCOPE = re.compile(r'metadata=\{[^}]*?\bop_name="((?:[^"\\]|\\.)*)"')
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')
_ESCAPE = re.compile(r"\\([0-7]{3}|.)")


@dataclass(frozen=True)
class Instruction:
    """One line of a computation."""

    name: str
    opcode: str
    shapes: Sequence[Shape]
    operands: Sequence[str]
    called: Sequence[str]
    """Computations it calls: what a fusion fuses, the body of a loop."""
    scope: str
    """The path JAX gave to it, such as `jit(step)/jvp(conv1)/add`; empty where it has none."""
    attributes: str

    @property
    def elements(self) -> int:
        """Values in what it gives."""
        return sum(math.prod(dimensions) for _, dimensions in self.shapes)

    @property
    def bytes(self) -> int:
        """Size of what it gives."""
        return sum(_width(kind) * math.prod(dimensions) for kind, dimensions in self.shapes)


@dataclass(frozen=True)
class Computation:
    """Instructions by name, in the order they are run."""

    name: str
    is_entry: bool
    instructions: dict[str, Instruction] = field(default_factory=dict)


def parse_program(text: str) -> list[Computation]:
    """The computations in their order: what is called stands before what calls it."""
    found: list[Computation] = []
    for line in text.splitlines():
        head = _HEAD.match(line)
        if head is not None:
            found.append(Computation(head.group(2), head.group(1) is not None))
        elif found and _LINE.match(line):
            instruction = _parse_instruction(line)
            found[-1].instructions[instruction.name] = instruction
    return found


def count_flop(
    instruction: Instruction, siblings: Mapping[str, Instruction], called: Mapping[str, float]
) -> float:
    """The work of one instruction; `called` gives that of whole computations by name."""
    opcode = instruction.opcode
    if opcode in MOVES:
        return 0.0
    if opcode in ("fusion", "call", "while", "conditional", "async-start"):
        return trip_count(instruction) * sum(called.get(name, 0.0) for name in instruction.called)
    if opcode == "dot":
        return 2.0 * instruction.elements * _contracted(instruction, siblings)
    if opcode == "convolution":
        return 2.0 * instruction.elements * _taps(instruction, siblings)
    if opcode == "reduce":
        return float(_operand_elements(instruction, siblings, 0))
    if opcode == "reduce-window":
        return float(instruction.elements * _window(instruction))
    if opcode == "select-and-scatter":
        return float(_operand_elements(instruction, siblings, 1) * _window(instruction))
    if opcode == "scatter":
        return float(_operand_elements(instruction, siblings, -1))
    each = TRANSCENDENTAL_FLOP if opcode in _TRANSCENDENTAL else 1
    return float(each * instruction.elements)


def trip_count(instruction: Instruction) -> int:
    """How often a loop runs, where XLA knows; else 1."""
    found = _TRIPS.search(instruction.attributes) if instruction.opcode == "while" else None
    return int(found.group(1)) if found else 1


def _parse_instruction(line: str) -> Instruction:
    match = _LINE.match(line)
    assert match is not None
    rest = line[match.end() :]
    shape_end = _closing(rest, 0) + 1 if rest.startswith("(") else rest.index(" ")
    shape, rest = rest[:shape_end], rest[shape_end:].lstrip()
    begin = rest.index("(")
    opcode = rest[:begin]
    # The text of a constant may hold anything; it has no operands.
    end = _closing(rest, begin) if opcode != "constant" else begin
    operands = _NAME.findall(rest[begin:end])
    attributes = rest[end + 1 :]
    scope = _SCOPE.search(attributes)
    return Instruction(
        name=match.group(2),
        opcode=opcode,
        shapes=tuple(_parse_shapes(shape)),
        operands=tuple(operands),
        called=tuple(name for some in _CALLED.findall(attributes) for name in _NAME.findall(some)),
        scope=unescape(scope.group(1)) if scope else "",
        attributes=attributes,
    )


def _parse_shapes(text: str) -> Iterator[Shape]:
    for kind, dimensions in _ARRAY.findall(text):
        yield kind, tuple(int(size) for size in re.findall(r"\d+", dimensions))


def unescape(text: str) -> str:
    """A quoted text as it was: XLA writes quotes with a backslash, other bytes in octal."""
    if "\\" not in text:
        return text
    plain = _ESCAPE.sub(
        lambda match: chr(int(match.group(1), 8)) if len(match.group(1)) == 3 else match.group(1),
        text,
    )
    return plain.encode("latin-1", "replace").decode("utf-8", "replace")


def _closing(text: str, begin: int) -> int:
    """Where the parenthesis at `begin` is closed."""
    depth = 0
    for match in re.compile(r"[()]").finditer(text, begin):
        depth += 1 if match.group() == "(" else -1
        if depth == 0:
            return match.start()
    return len(text)


def _width(kind: str) -> int:
    """Bytes of one element: `f32`, `bf16`, `f8e4m3`; less than a byte counts as one."""
    if kind in _BYTES:
        return _BYTES[kind]
    bits = re.match(r"[a-z]+(\d+)", kind)
    return max(1, int(bits.group(1)) // 8) if bits else 1


def _operand_elements(
    instruction: Instruction, siblings: Mapping[str, Instruction], place: int
) -> int:
    """Values in one operand; those of the result where it is not known."""
    try:
        return siblings[instruction.operands[place]].elements
    except (IndexError, KeyError):
        return instruction.elements


def _contracted(instruction: Instruction, siblings: Mapping[str, Instruction]) -> int:
    found = re.search(r"lhs_contracting_dims=\{([\d,]*)\}", instruction.attributes)
    left = siblings.get(instruction.operands[0])
    if found is None or left is None:
        return 1
    sizes = left.shapes[0][1]
    return math.prod(sizes[int(place)] for place in found.group(1).split(",") if place)


def _taps(instruction: Instruction, siblings: Mapping[str, Instruction]) -> float:
    """Products in one value of a convolution: its kernel's elements by output feature."""
    labels = re.search(r"dim_labels=\w+_(\w+)->", instruction.attributes)
    kernel = siblings.get(instruction.operands[1])
    if labels is None or kernel is None:
        return 1.0
    sizes = kernel.shapes[0][1]
    return math.prod(sizes) / max(1, sizes[labels.group(1).index("o")])


def _window(instruction: Instruction) -> int:
    found = re.search(r"window=\{size=([\dx]+)", instruction.attributes)
    return math.prod(int(size) for size in found.group(1).split("x")) if found else 1
