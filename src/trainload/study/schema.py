"""JSON schemas of run and study files, from the very types that check them; for editors."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Literal

from trainload.study.factors import Range
from trainload.study.file import StudyKeys
from trainload.study.keys import RunKeys, all_hints
from trainload.workload import MODELS
from trainload_worker.protocol.checked import Bounds
from trainload_worker.protocol.offers import list_offers

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_SCALARS = {int: "integer", float: "number", bool: "boolean", str: "string"}


def run_schema() -> dict[str, Any]:
    """The schema of a run file: every key of any model, and of how it is run."""
    return {
        "$schema": _DRAFT,
        "title": "A run of trainload",
        **_run_object(),
        "oneOf": [{"required": ["model"]}, {"required": ["script"]}],
    }


def study_schema() -> dict[str, Any]:
    """The schema of a study file."""
    keys = _object(StudyKeys)
    properties = keys["properties"]
    workload = _run_object()
    properties["workload"] = {**workload, "description": properties["workload"]["description"]}
    properties["factors"] = {**properties["factors"], "additionalProperties": _factor()}
    kind = properties["design"]["properties"]["kind"]
    properties["design"] = {"anyOf": [kind, properties["design"]]}
    properties["folds"] = {"anyOf": [{"type": "integer", "minimum": 2}, properties["folds"]]}
    for name in ("where", "priority"):
        properties[name] = {**properties[name], "type": ["array", "string"]}
    for name in ("cool_down", "other_load"):
        properties[name] = {"anyOf": [{"const": False}, properties[name]]}
    quick = {name: one for name, one in properties.items() if name not in ("name", "quick")}
    properties["quick"] = {"type": "object", "properties": quick, "additionalProperties": False}
    return {"$schema": _DRAFT, "title": "A study of trainload", **keys}


def _factor() -> dict[str, Any]:
    level = {"type": "object", "required": ["level"]}
    scalar = {"type": ["string", "number", "boolean", "null", "array"]}
    levels = {"type": "array", "minItems": 1, "items": {"anyOf": [scalar, level]}}
    return {"anyOf": [levels, _object(Range)]}


def _run_object() -> dict[str, Any]:
    told = _object(RunKeys)["properties"]
    properties = {name: _schema(hint) for name, hint in sorted(all_hints().items())}
    properties.update(told)
    properties["model"] = {"enum": sorted(MODELS), "description": told["model"]["description"]}
    properties["framework"] = {
        "enum": [offer.name for offer in list_offers()],
        "description": told["framework"]["description"],
    }
    properties["arguments"] = {
        "type": ["array", "string"],
        "items": {"type": ["string", "number", "boolean"]},
        "description": told["arguments"]["description"],
    }
    properties["environment"] = {
        "type": "object",
        "additionalProperties": {"type": ["string", "number", "boolean"]},
        "description": told["environment"]["description"],
    }
    del properties["fake"]
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _object(cls: Any) -> dict[str, Any]:
    """A dataclass; the text below a field, where there is one, describes it."""
    hints, words = typing.get_type_hints(cls, include_extras=True), _field_words(cls)
    properties = {
        spec.name: {
            **_schema(hints[spec.name]),
            **({"description": words[spec.name]} if spec.name in words else {}),
        }
        for spec in fields(cls)
    }
    needed = [
        spec.name
        for spec in fields(cls)
        if spec.default is MISSING and spec.default_factory is MISSING
    ]
    found = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**found, "required": needed} if needed else found


def _schema(hint: Any) -> dict[str, Any]:
    bounds = None
    if typing.get_origin(hint) is typing.Annotated:
        hint, *extras = typing.get_args(hint)
        bounds = next((one for one in extras if isinstance(one, Bounds)), None)
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        members = [_schema(one) for one in inner if one is not type(None)]
        return members[0] if len(members) == 1 else {"anyOf": members}
    if origin is Literal:
        return {"enum": list(inner)}
    if origin is tuple:
        return {"type": "array", "items": _schema(inner[0])}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object"}
    if isinstance(hint, type) and is_dataclass(hint):
        return _object(hint)
    found: dict[str, Any] = {"type": _SCALARS[hint]} if hint in _SCALARS else {}
    if bounds is not None:
        limits = {
            "minimum": bounds.low,
            "exclusiveMinimum": bounds.above,
            "maximum": bounds.high,
            "exclusiveMaximum": bounds.below,
        }
        found.update({name: limit for name, limit in limits.items() if limit is not None})
    return found


def _field_words(cls: Any) -> dict[str, str]:
    """The text that stands below each field in the source."""
    import ast
    import inspect
    import textwrap

    body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    assert isinstance(body, ast.ClassDef)
    found: dict[str, str] = {}
    for field_node, text_node in zip(body.body, body.body[1:], strict=False):
        is_text = isinstance(text_node, ast.Expr) and isinstance(text_node.value, ast.Constant)
        if isinstance(field_node, ast.AnnAssign) and is_text:
            assert isinstance(field_node.target, ast.Name) and isinstance(text_node, ast.Expr)
            assert isinstance(text_node.value, ast.Constant)
            found[field_node.target.id] = " ".join(str(text_node.value.value).split())
    return found
