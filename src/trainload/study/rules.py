"""Rules over the levels of a cell, such as `hidden_units * batch_size <= 65536`; pure.

A rule is one expression of comparisons, `and`, `or`, `not`, `in` and arithmetic over factors'
names: its text is taken apart, never run as a program.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from trainload_worker.protocol.checked import suggest

_BINARY: Mapping[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda one, many: one in many,
    ast.NotIn: lambda one, many: one not in many,
}


class RuleError(ValueError):
    """A rule that cannot be read, or says nothing of a cell; one line."""


@dataclass(frozen=True)
class Rule:
    """One rule, checked to be an expression over known names."""

    text: str
    tree: ast.expr

    def holds(self, levels: Mapping[str, Any]) -> bool:
        """Whether the rule is true of these levels; RuleError where they cannot be compared."""
        try:
            return bool(_value(self.tree, levels))
        except (TypeError, ZeroDivisionError) as error:
            raise RuleError(f"{self.text!r}: {error}") from None


def parse_rule(text: str, names: Mapping[str, Any]) -> Rule:
    """The rule of a text; RuleError names what is wrong in it."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise RuleError(f"{text!r} is no rule; write it as: batch_size <= 256") from None
    _check(tree, text, names)
    return Rule(text, tree)


def _check(node: ast.AST, text: str, names: Mapping[str, Any]) -> None:
    if isinstance(node, ast.Name):
        if node.id not in names:
            raise RuleError(f"{text!r}: no factor {node.id!r}{suggest(node.id, names)}")
    elif isinstance(node, ast.Constant):
        if not isinstance(node.value, str | int | float | bool | type(None)):
            raise RuleError(f"{text!r}: {node.value!r} is no level")
    elif isinstance(node, ast.Compare):
        known = all(type(one) in _BINARY for one in node.ops)
        _check_all([node.left, *node.comparators], known, text, names)
    elif isinstance(node, ast.BinOp):
        _check_all([node.left, node.right], type(node.op) in _BINARY, text, names)
    elif isinstance(node, ast.UnaryOp):
        _check_all([node.operand], isinstance(node.op, ast.Not | ast.USub), text, names)
    elif isinstance(node, ast.BoolOp):
        _check_all(node.values, True, text, names)
    elif isinstance(node, ast.List | ast.Tuple):
        _check_all(node.elts, True, text, names)
    else:
        _check_all([], False, text, names)


def _check_all(nodes: list[ast.expr], known: bool, text: str, names: Mapping[str, Any]) -> None:
    if not known:
        raise RuleError(f"{text!r}: only comparisons, and, or, not, in and + - * / % are rules")
    for one in nodes:
        _check(one, text, names)


def _value(node: ast.expr, levels: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Name):
        return levels[node.id]
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.BoolOp):
        each = (_value(one, levels) for one in node.values)
        return all(each) if isinstance(node.op, ast.And) else any(each)
    if isinstance(node, ast.UnaryOp):
        inner = _value(node.operand, levels)
        return not inner if isinstance(node.op, ast.Not) else -inner
    if isinstance(node, ast.BinOp):
        return _BINARY[type(node.op)](_value(node.left, levels), _value(node.right, levels))
    if isinstance(node, ast.Compare):
        left = _value(node.left, levels)
        for sign, comparator in zip(node.ops, node.comparators, strict=True):
            right = _value(comparator, levels)
            if not _BINARY[type(sign)](left, right):
                return False
            left = right
        return True
    assert isinstance(node, ast.List | ast.Tuple), "checked when it was read"
    return [_value(one, levels) for one in node.elts]
