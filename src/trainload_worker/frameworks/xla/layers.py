"""Tells which layers an instruction of a compiled XLA program works for; knows no framework.

A scope names the layer and the pass: `jvp(NAME)` is its forward, `transpose(jvp(NAME))` its
backward. Instructions that XLA made itself have no scope: they belong to what uses their result,
else to what made their operands, else to the loop they stand in.
"""

from __future__ import annotations

import re
from typing import Collection, Dict, Iterable, Mapping, NamedTuple

from trainload_worker.frameworks.xla.text import Computation, Instruction, count_flop, parse_program

LOSS_SCOPE, INPUT_SCOPE, UPDATE_SCOPE = "trainload:loss", "trainload:input", "trainload:update"
"""Scopes of what is no layer's; no layer has such a name, which is made of identifiers."""
LEAST_SHARE = 0.001
"""A smaller part of a fusion is not worth telling."""

_PASS = re.compile(r"(transpose\()?jvp\(([^()]*)\)")
_PARAMETER = re.compile(r"\['layers'\]\['([^']+)'\]")


class Owner(NamedTuple):
    """Whom an instruction works for: a layer, or else `loss`, `input` or `update`."""

    kind: str
    layer: str | None
    phase: str


Weights = Dict[Owner, float]
"""Owners with the part of each; the parts of an instruction sum to 1."""
_UPDATE, _GRADIENT = Owner("update", None, "update"), Owner("update", None, "backward")
"""Until the layer is known whose parameters are updated."""
_CALLS = ("fusion", "call", "while", "conditional")


def find_owners(text: str, layers: Collection[str]) -> dict[str, Weights]:
    """The owners of each instruction by name; empty where nobody can be found."""
    return _Program(parse_program(text), layers).find()


def read_scope(scope: str, layers: Collection[str]) -> Owner | None:
    """Whom a scope names, if anyone."""
    for found in _PASS.finditer(scope):
        phase = "backward" if found.group(1) else "forward"
        owner = _name_owner(found.group(2), phase, layers)
        if owner is not None:
            return owner
    # Not differentiated, as the update is. The last name is the operation's, such as `add`.
    path = scope.split("/")
    return _name_owner(path[1], "forward", layers) if len(path) > 2 else None


def _name_owner(name: str, phase: str, layers: Collection[str]) -> Owner | None:
    if name in layers:
        return Owner("layer", name, phase)
    if name == UPDATE_SCOPE:
        return _UPDATE
    kinds = {LOSS_SCOPE: "loss", INPUT_SCOPE: "input"}
    return Owner(kinds[name], None, phase) if name in kinds else None


class _Program:
    """The computations of one program while their instructions find their owners."""

    def __init__(self, computations: list[Computation], layers: Collection[str]) -> None:
        self._computations = computations
        self._by_name = {computation.name: computation for computation in computations}
        self._layers = layers
        self._flop: dict[str, float] = {}
        """Work of whole computations."""
        self._parts: dict[str, Weights] = {}
        """Work of whole computations by owner; bytes where there is no work."""
        self._owners: dict[str, Weights] = {}
        self._sources: dict[str, dict[str, float]] = {}
        """Layers whose parameters or state an instruction is made from, with the bytes of each."""

    def find(self) -> dict[str, Weights]:
        for computation in self._computations:
            self._visit(computation)
        # Callers stand after what they call: they are known first when going back.
        for computation in reversed(self._computations):
            for instruction in computation.instructions.values():
                self._hand_down(instruction)
        return self._owners

    def _visit(self, computation: Computation) -> None:
        instructions = computation.instructions
        work: dict[str, float] = {}
        for name, instruction in instructions.items():
            work[name] = count_flop(instruction, instructions, self._flop)
            parts = self._own(instruction)
            self._sources[name] = self._find_sources(instruction, parts, work[name])
            self._owners[name] = _scale(self._name_updates(instruction, parts))
        self._ask_users(instructions, work)
        self._ask_makers(instructions.values())
        self._flop[computation.name] = sum(work.values())
        parts = self._sum_parts(instructions.values(), work)
        if not parts:
            sizes = {name: float(instruction.bytes) for name, instruction in instructions.items()}
            parts = self._sum_parts(instructions.values(), sizes)
        self._parts[computation.name] = parts

    def _sum_parts(
        self, instructions: Iterable[Instruction], weights: Mapping[str, float]
    ) -> Weights:
        parts: Weights = {}
        for instruction in instructions:
            weight = weights[instruction.name]
            if weight and instruction.opcode not in ("parameter", "constant", "tuple"):
                for owner, part in self._owners[instruction.name].items():
                    parts[owner] = parts.get(owner, 0.0) + weight * part
        return parts

    def _own(self, instruction: Instruction) -> Weights:
        """What the instruction's own text tells: what it fuses, else its scope."""
        parts: Weights = {}
        if instruction.opcode in _CALLS:
            for name in instruction.called:
                for owner, part in self._parts.get(name, {}).items():
                    parts[owner] = parts.get(owner, 0.0) + part
        scoped = read_scope(instruction.scope, self._layers)
        if not parts and scoped is not None:
            parts = {scoped: 1.0}
        return _as_recomputed(parts) if instruction.opcode == "fusion" else parts

    def _name_updates(self, instruction: Instruction, parts: Weights) -> Weights:
        """An update belongs to the layer whose parameters it reads."""
        sources = self._sources[instruction.name]
        whole = sum(sources.values())
        named: Weights = {}
        for owner, part in parts.items():
            if owner not in (_UPDATE, _GRADIENT) or not sources:
                named[owner] = named.get(owner, 0.0) + part
                continue
            for layer, size in sources.items():
                found = Owner("layer", layer, owner.phase)
                named[found] = named.get(found, 0.0) + part * size / whole
        return named

    def _find_sources(
        self, instruction: Instruction, parts: Weights, work: float
    ) -> dict[str, float]:
        if instruction.opcode == "parameter":
            found = _PARAMETER.search(instruction.scope)
            known = found is not None and found.group(1) in self._layers
            return {found.group(1): float(instruction.bytes)} if found and known else {}
        if (parts or work) and not any(owner.kind == "update" for owner in parts):
            # An activation or a gradient: made from parameters, and no longer one of them.
            return {}
        sources: dict[str, float] = {}
        for name in instruction.operands:
            for layer, size in self._sources.get(name, {}).items():
                sources[layer] = sources.get(layer, 0.0) + size
        return sources

    def _ask_users(
        self, instructions: Mapping[str, Instruction], work: Mapping[str, float]
    ) -> None:
        """What has no owner belongs to the first instruction that uses it, and has one."""
        users: dict[str, list[str]] = {}
        for name, instruction in instructions.items():
            for operand in instruction.operands:
                users.setdefault(operand, []).append(name)
        for name in reversed(list(instructions)):
            if self._owners[name] or instructions[name].opcode == "parameter":
                continue
            for user in users.get(name, ()):
                if self._owners[user]:
                    self._owners[name] = self._as_made_for(instructions[name], user, work[name])
                    break

    def _as_made_for(self, instruction: Instruction, user: str, work: float) -> Weights:
        owner = _largest(self._owners[user])
        moved = owner.layer is not None and instruction.operands
        if owner.phase == "update" and (work or (moved and not self._sources[instruction.name])):
            # What an update takes, and was not made from parameters alone, is a gradient.
            owner = owner._replace(phase="backward")
        return {owner: 1.0}

    def _ask_makers(self, instructions: Iterable[Instruction]) -> None:
        """What is used by nobody with an owner belongs to what made its first operand."""
        for instruction in instructions:
            if not self._owners[instruction.name] and instruction.opcode != "parameter":
                for operand in instruction.operands:
                    if self._owners.get(operand):
                        self._owners[instruction.name] = {_largest(self._owners[operand]): 1.0}
                        break

    def _hand_down(self, instruction: Instruction) -> None:
        """Instructions of a loop's body that still have no owner have the loop's."""
        if instruction.opcode == "fusion" or not self._owners[instruction.name]:
            return
        owner = _largest(self._owners[instruction.name])
        for name in instruction.called:
            for inner in self._by_name[name].instructions if name in self._by_name else ():
                if not self._owners[inner]:
                    self._owners[inner] = {owner: 1.0}


def _as_recomputed(parts: Weights) -> Weights:
    """Forward work fused with backward work is done again for it, and counts as backward."""
    if not any(owner.phase == "backward" for owner in parts):
        return parts
    turned: Weights = {}
    for owner, part in parts.items():
        again = owner._replace(phase="backward") if owner.phase == "forward" else owner
        turned[again] = turned.get(again, 0.0) + part
    return turned


def _scale(parts: Weights) -> Weights:
    whole = sum(parts.values())
    kept = {owner: part for owner, part in parts.items() if part >= LEAST_SHARE * whole > 0}
    whole = sum(kept.values())
    return {owner: part / whole for owner, part in kept.items()}


def _largest(parts: Weights) -> Owner:
    return max(parts, key=lambda owner: parts[owner])
