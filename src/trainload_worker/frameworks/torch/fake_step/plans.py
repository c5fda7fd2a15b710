"""What an operation gives, worked out once for each combination of forms; allocates nothing.

By a rule of `shapes`, else by torch itself on its meta device.
"""

from __future__ import annotations

import json
from typing import Any

import torch

from trainload_worker.errors import FrameworkError
from trainload_worker.frameworks.torch.fake_step.answers import KNOWING
from trainload_worker.frameworks.torch.fake_step.arguments import META, attributes, with_metas
from trainload_worker.frameworks.torch.fake_step.shapes import RULES
from trainload_worker.frameworks.torch.fake_step.tensors import FakeTensor, ValueAsked, form_of

_SHARING = {"_unsafe_view", "unsafe_split", "unsafe_split_with_sizes", "unsafe_chunk"}
"""Operations whose results share the input's storage though their schema does not say so."""


class Traits:
    """What an operation's schema says, read once."""

    __slots__ = (
        *("answer", "drawn", "factory", "foreach", "in_place", "name", "plain", "shares"),
        *("sized", "text", "written"),
    )

    def __init__(self, func: Any) -> None:
        schema = func._schema
        self.plain = schema.name.partition("::")[2]
        self.name = str(func)
        self.text = json.dumps(self.name)
        writes = [r for r in schema.returns if r.alias_info is not None and r.alias_info.is_write]
        mutable = any(a.alias_info is not None and a.alias_info.is_write for a in schema.arguments)
        self.in_place = (len(schema.returns) == len(writes) and len(writes) <= 1) and mutable
        self.shares = self.plain in _SHARING or any(
            r.alias_info is not None and not r.alias_info.is_write for r in schema.returns
        )
        self.written = tuple(
            (place, a.name)
            for place, a in enumerate(schema.arguments)
            if a.alias_info is not None and a.alias_info.is_write
        )
        """Places and names of the arguments that it writes."""
        self.drawn = torch.Tag.nondeterministic_seeded in func.tags or "empty" in self.plain
        """Whether its numbers are chance or nobody's."""
        self.sized = torch.Tag.dynamic_output_shape in func.tags and self.plain != "index"
        """Whether the size of what it gives depends on numbers."""
        names = [a.name for a in schema.arguments]
        self.factory = "device" in names
        self.foreach = self.plain.startswith("_foreach_") and not self.in_place
        self.answer = self.plain in KNOWING


class Plan:
    """What an operation gives for one combination of forms."""

    __slots__ = ("attributes", "outputs", "quiet", "single")

    def __init__(self, outputs: list[Any], single: bool, quiet: bool, attributes: str) -> None:
        self.outputs = outputs
        """Each a form and whose storage it takes (-1: its own), a list of such, or a value."""
        self.single, self.quiet, self.attributes = single, quiet, attributes


def make_plan(
    func: Any,
    traits: Traits,
    args: Any,
    kwargs: Any,
    fakes: list[FakeTensor],
    *,
    on_cuda: bool,
    elsewhere: bool,
) -> Plan:
    """The plan by the operation's own rule or by torch's; `elsewhere`: no part of the trace.

    ValueAsked where its size depends on numbers, FrameworkError where nobody knows its shape.
    """
    text = attributes(args, kwargs)
    rule = RULES.get(traits.plain)
    if rule is not None:
        forms = rule(*args, **kwargs)
        if forms is not None:
            outputs: list[Any] = [_own(form, on_cuda) for form in forms]
            return Plan(outputs, len(outputs) == 1, elsewhere, text)
    metas: dict[int, Any] = {}
    changed_args = with_metas(args, metas)
    changed = {name: with_metas(value, metas) for name, value in kwargs.items()}
    if "device" in changed:
        changed["device"] = META
    changed.pop("pin_memory", None)
    if "generator" in changed:
        changed["generator"] = None
    result = _ask_torch(func, changed_args, changed)
    single = not isinstance(result, (tuple, list))
    flat = [result] if single else list(result)
    if isinstance(result, list):
        flat, single = [flat], True
    owners = [metas.get(id(fake)) for fake in fakes]
    outputs = [_describe(value, owners, fakes, traits, on_cuda) for value in flat]
    quiet = traits.shares and all(_is_shared(o) for o in outputs)
    return Plan(outputs, single, quiet or elsewhere, text)


def _ask_torch(func: Any, args: Any, kwargs: Any) -> Any:
    try:
        return func(*args, **kwargs)
    except NotImplementedError as error:
        if _depends_on_values(func):
            raise ValueAsked(f"the size of what {func} gives depends on numbers") from error
        raise FrameworkError(
            f"{func} has no fake implementation (torch.library.register_fake gives it one); "
            "or measure a few real steps instead: --measure"
        ) from error


def _depends_on_values(func: Any) -> bool:
    tags = (torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output)
    return any(tag in func.tags for tag in tags) or str(func).startswith("aten.")


def _own(form: Any, on_cuda: bool) -> Any:
    if form is None:
        return None
    if isinstance(form, list):
        return [_own(one, on_cuda) for one in form]
    return (form_of(form.shape, form.strides, form.dtype, 0, on_cuda), -1)


def _describe(
    value: Any, owners: list[Any], fakes: list[FakeTensor], traits: Traits, on_cuda: bool
) -> Any:
    if isinstance(value, (list, tuple)):
        return [_describe(one, owners, fakes, traits, on_cuda) for one in value]
    if not isinstance(value, torch.Tensor):
        return value
    if traits.shares:
        held = value.untyped_storage()._cdata
        for index, owner in enumerate(owners):
            if owner is not None and owner.untyped_storage()._cdata == held:
                side = fakes[index].form.on_cuda
                shape, strides = value.shape, value.stride()
                return (form_of(shape, strides, value.dtype, value.storage_offset(), side), index)
    form = form_of(value.shape, value.stride(), value.dtype, 0, on_cuda)
    return (form, -1)


def _is_shared(output: Any) -> bool:
    if type(output) is list:
        return all(_is_shared(one) for one in output)
    return type(output) is tuple and output[1] != -1
