"""Answers every torch operation with fake tensors and notes it in the log; computes no number.

What an operation gives for a combination of forms is worked out once, on torch's meta device or by
`fake_shapes_torch`, and kept. Layers, phases and marks are told by `op_trace_layers_torch`.
"""

from __future__ import annotations

import json
import sys
from typing import Any, Callable

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from trainload_worker.errors import FrameworkError
from trainload_worker.frameworks.torch.fake_step.log import UNTOLD, OpTraceLog
from trainload_worker.frameworks.torch.fake_step.recurrent import answer_backward
from trainload_worker.frameworks.torch.fake_step.shapes import RULES
from trainload_worker.frameworks.torch.fake_step.tensors import (
    FakeTensor,
    Form,
    Storage,
    ValueAsked,
    form_of,
    make,
    means_cuda,
    read_value,
    reshape_in_place,
    to_meta,
)

aten = torch.ops.aten

_SHARING = {"_unsafe_view", "unsafe_split", "unsafe_split_with_sizes", "unsafe_chunk"}
"""Operations whose results share the input's storage though their schema does not say so."""

_ANSWERS = {"isnan": False, "isinf": False, "isneginf": False, "isposinf": False}
_PASS_ANSWER = {"any", "all", "_to_copy", "clone", "sum", "alias", "view", "detach", "select"}
_TURN_ANSWER = {"logical_not", "bitwise_not"}

_SMALL_BYTES = 64 * 1024
"""Numbers on the CPU below this stay real: programs shuffle, count and print with them."""

_META = torch.device("meta")


class Traits:
    """What an operation's schema says, read once."""

    __slots__ = ("answer", "factory", "foreach", "in_place", "name", "plain", "shares", "text")

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
        names = [a.name for a in schema.arguments]
        self.factory = "device" in names
        self.foreach = self.plain.startswith("_foreach_") and not self.in_place
        self.answer = self.plain in _ANSWERS or self.plain in _PASS_ANSWER | _TURN_ANSWER


class Plan:
    """What an operation gives for one combination of forms."""

    __slots__ = ("attributes", "outputs", "quiet", "single")

    def __init__(self, outputs: list[Any], single: bool, quiet: bool, attributes: str) -> None:
        self.outputs = outputs
        """Each a form and whose storage it takes (-1: its own), a list of such, or a value."""
        self.single, self.quiet, self.attributes = single, quiet, attributes


class FakeDispatch(TorchDispatchMode):  # type: ignore[misc]  # torch is not typed here
    """Takes every operation while it is entered."""

    def __init__(
        self,
        log: OpTraceLog,
        where: Callable[[], tuple[str, str]],
        *,
        on_cuda: bool,
        adopts: bool,
    ) -> None:
        super().__init__()
        self._log = log
        self._where = where
        self._on_cuda = on_cuda
        self._adopts = adopts and on_cuda
        """Whether a CPU tensor that meets one on the GPU is taken as if it had been moved there."""
        self._adopted: dict[Any, tuple[Any, Storage]] = {}
        self._traits: dict[Any, Traits] = {}
        self._plans: dict[Any, Plan] = {}
        self.check: Callable[[], None] | None = None
        """Asked at every operation; raises where the trace must end."""
        self.notes: list[str] = []

    def _dispatch(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is _DETACH:
            source = args[0]
            if type(source) is FakeTensor:
                return make(source.form, source.store)
            return func(source)
        if self.check is not None:
            self.check()
        kwargs = kwargs or {}
        traits = self._traits.get(func)
        if traits is None:
            traits = self._traits[func] = Traits(func)
        if self._adopts:
            args = self._with_adopted(args)
        special = _SPECIAL.get(func)
        if special is not None:
            answer = special(self, func, args, kwargs)
            if answer is not NotImplemented:
                return answer
        fakes: list[FakeTensor] = []
        if traits.in_place or traits.foreach:
            _collect(args, fakes)
            _collect(kwargs.values(), fakes)
            if not fakes:
                return func(*args, **kwargs)
            return self._write(func, traits, args, kwargs, fakes)
        key: list[Any] = [func]
        _scan(args, key, fakes)
        for name, value in kwargs.items():
            key.append(name)
            _scan((value,), key, fakes)
        if not fakes:
            return self._create(func, traits, args, kwargs, key)
        place = tuple(key)
        plan = self._plans.get(place)
        if plan is None:
            plan = self._plans[place] = self._plan(func, traits, args, kwargs, fakes)
        result = self._give(plan, traits, fakes)
        if traits.answer:
            _pass_answer(traits, fakes, result)
        return result

    # Tensors of an example batch that nobody moved to the GPU.

    def _with_adopted(self, args: Any) -> Any:
        """The same arguments, those on the CPU on the GPU where both are among them."""
        there = here = False
        for value in args:
            if type(value) is FakeTensor and value.form.on_cuda:
                there = True
            elif isinstance(value, torch.Tensor):
                here = here or value.dim() > 0
                there = there or value.is_cuda  # of a module that was on a real GPU
        if not (there and here):
            return args
        return tuple(self.adopt(a) if isinstance(a, torch.Tensor) else a for a in args)

    def adopt(self, tensor: Any) -> Any:
        """The tensor on the device of the step; its storage is moved there once."""
        fake = isinstance(tensor, FakeTensor)
        if (fake and tensor.form.on_cuda == self._on_cuda) or not tensor.dim():
            return tensor
        whole = tensor.store if fake else tensor.untyped_storage()
        place = id(whole) if fake else whole._cdata
        if place not in self._adopted:
            size = whole.bytes if fake else whole.nbytes()
            form = form_of((size,), None, torch.uint8, 0, self._on_cuda)
            self._adopted[place] = (whole, self.storage(form, "input"))
        offset = tensor.storage_offset()
        form = form_of(tensor.shape, tensor.stride(), tensor.dtype, offset, self._on_cuda)
        return make(form, self._adopted[place][1])

    # Operations that write into what they were given.

    def _write(
        self, func: Any, traits: Traits, args: Any, kwargs: Any, fakes: list[FakeTensor]
    ) -> Any:
        if traits.foreach:
            return self._give_foreach(traits, args, kwargs, fakes)
        target = kwargs.get("out", args[0] if args else None)
        if isinstance(target, FakeTensor) and traits.plain in _RESHAPING:
            _reshape(func, target, args, kwargs)
        self._note(traits, fakes, [target], _attributes(args, kwargs))
        return target if func._schema.returns else None

    def _give_foreach(self, traits: Traits, args: Any, kwargs: Any, fakes: list[FakeTensor]) -> Any:
        first = args[0]
        if traits.plain in ("_foreach_norm", "_foreach_max"):
            forms = [form_of((), (), t.dtype, 0, isinstance(t, FakeTensor)) for t in first]
        else:
            forms = [
                form_of(t.shape, t.stride(), t.dtype, 0, isinstance(t, FakeTensor)) for t in first
            ]
        plan = Plan([[(form, -1) for form in forms]], True, False, _attributes(args, kwargs))
        return self._give(plan, traits, fakes)

    # New tensors.

    def _create(self, func: Any, traits: Traits, args: Any, kwargs: Any, key: list[Any]) -> Any:
        """A tensor made of nothing, or of real ones."""
        if not traits.factory:
            return func(*args, **kwargs)
        device = kwargs.get("device")
        on_cuda = self._on_cuda and means_cuda(device)
        real_inputs = _has_tensors(args)
        if device is not None and device.type == "meta" and not on_cuda:
            return func(*args, **kwargs)
        if not on_cuda and real_inputs:
            return func(*args, **_unpinned(kwargs))
        place = tuple(key)
        plan = self._plans.get(place)
        if plan is None:
            changed = {**_unpinned(kwargs), "device": _META}
            if "generator" in changed:
                changed["generator"] = None
            metas = [to_meta(a) if isinstance(a, torch.Tensor) else a for a in args]
            found = func(*metas, **changed)
            form = form_of(found.shape, found.stride(), found.dtype, 0, on_cuda)
            elsewhere = self._on_cuda and not on_cuda
            plan = Plan([(form, -1)], True, elsewhere, _attributes(args, kwargs))
            self._plans[place] = plan
        form = plan.outputs[0][0]
        if not on_cuda and not self.stays_fake(form):
            return func(*args, **_unpinned(kwargs))
        category = "input" if on_cuda and real_inputs else UNTOLD
        return self._give(plan, traits, [], category)

    def stays_fake(self, form: Form) -> bool:
        """Whether a new tensor on the CPU has no numbers."""
        return form.dtype.is_floating_point and form.bytes >= _SMALL_BYTES

    def storage(self, form: Form, category: str = UNTOLD) -> Storage:
        """A new storage that holds a tensor of that form."""
        if form.on_cuda or not self._on_cuda:
            number = self._log.allocate(form.bytes, category)
            return Storage(number, form.bytes, self._log.free)
        return Storage(-1, form.bytes, None)

    def fresh(self, shape: Any, dtype: Any, category: str) -> FakeTensor:
        """A new tensor on the step's device, without numbers however small it is."""
        form = form_of(shape, None, dtype, 0, self._on_cuda)
        return make(form, self.storage(form, category))

    # Everything else.

    def _plan(
        self, func: Any, traits: Traits, args: Any, kwargs: Any, fakes: list[FakeTensor]
    ) -> Plan:
        """Works out what the operation gives, by its own rule or by torch's."""
        on_cuda = self._chosen_side(kwargs, fakes)
        # Work of the host is no part of what runs on the GPU.
        elsewhere = self._on_cuda and not on_cuda and not any(f.form.on_cuda for f in fakes)
        attributes = _attributes(args, kwargs)
        rule = RULES.get(traits.plain)
        if rule is not None:
            forms = rule(*args, **kwargs)
            if forms is not None:
                outputs: list[Any] = [_own(form, on_cuda) for form in forms]
                return Plan(outputs, len(outputs) == 1, elsewhere, attributes)
        metas: dict[int, Any] = {}
        changed_args = _swap(args, metas)
        changed = {name: _swap(value, metas) for name, value in kwargs.items()}
        if "device" in changed:
            changed["device"] = _META
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
        return Plan(outputs, single, quiet or elsewhere, attributes)

    def _chosen_side(self, kwargs: Any, fakes: list[FakeTensor]) -> bool:
        device = kwargs.get("device")
        if device is not None:
            return self._on_cuda and means_cuda(device)
        return any(fake.form.on_cuda for fake in fakes)

    def _give(
        self, plan: Plan, traits: Traits, fakes: list[FakeTensor], category: str = UNTOLD
    ) -> Any:
        """The results of a plan, noted in the log: the operation first, then its storages."""
        if plan.quiet:
            results = [self._result(output, fakes, category, None) for output in plan.outputs]
            return results[0] if plan.single else tuple(results)
        if traits.plain == "add" and len(fakes) == 2 and self._adds_in_place(fakes, plan):
            self._note(_ADD_IN_PLACE, fakes, [fakes[0]], "[]")
            return make(fakes[0].form, fakes[0].store)
        self._log.operation("")
        slot = self._log.last
        moved = traits.plain == "_to_copy" and fakes and not fakes[0].form.on_cuda
        if moved and category == UNTOLD:
            category = "input"
        made: list[FakeTensor] = []
        results = [self._result(output, fakes, category, made) for output in plan.outputs]
        self._log.complete(slot, self._line(traits, fakes, made, plan.attributes))
        return results[0] if plan.single else tuple(results)

    def _result(
        self, output: Any, fakes: list[FakeTensor], category: str, made: list[FakeTensor] | None
    ) -> Any:
        if type(output) is tuple:
            form, owner = output
            if owner == -1:
                tensor = make(form, self.storage(form, category))
                if made is not None:
                    made.append(tensor)
                return tensor
            return fakes[owner] if form is None else make(form, fakes[owner].store)
        if type(output) is list:
            return [self._result(one, fakes, category, made) for one in output]
        return output

    def _adds_in_place(self, fakes: list[FakeTensor], plan: Plan) -> bool:
        """Whether autograd's engine would have added the second gradient into the first.

        It does so when nobody else holds the first one, but not while a dispatch mode is entered.
        The call comes from the engine itself when no Python stands between; nodes that add for
        themselves are few, and add what others hold.
        """
        if torch._C._current_graph_task_id() == -1:
            return False
        if sys._getframe(3).f_code.co_name != "_engine_run_backward":
            return False
        first, second = fakes
        if first is second or plan.outputs[0][0] is not first.form:
            return False
        return (
            sys.getrefcount(first.store) <= _STORE_REFERENCES
            and first._use_count() <= _TENSOR_REFERENCES
        )

    # The log.

    def note_created(self, func: Any, args: Any, create: Callable[[], list[Any]]) -> None:
        """Notes an operation with the results that `create` allocates and gives."""
        fakes: list[FakeTensor] = []
        _collect(args, fakes)
        self._log.operation("")
        slot = self._log.last
        line = self._line(self._traits[func], fakes, create(), _attributes(args, {}))
        self._log.complete(slot, line)

    def _note(self, traits: Traits, fakes: list[FakeTensor], given: Any, attributes: str) -> None:
        if self._on_cuda and not any(fake.form.on_cuda for fake in fakes):
            return
        self._log.operation(self._line(traits, fakes, given, attributes))

    def _line(self, traits: Traits, fakes: list[FakeTensor], given: Any, attributes: str) -> str:
        layer, phase = self._where()
        takes = ",".join([f"{t.form.text}{t.store.number}]" for t in fakes])
        gives = ",".join(
            [f"{t.form.text}{t.store.number}]" for t in given if isinstance(t, FakeTensor)]
        )
        return (
            f'["o",{traits.text},{layer},"{phase}",{self._log.step},[{takes}],[{gives}],'
            f"{attributes}]"
        )


# Given from outside: torch wraps what stands in the class, at the cost of a second's imports.
FakeDispatch.__torch_dispatch__ = FakeDispatch._dispatch

_DETACH = aten.detach.default
_ADD_IN_PLACE = Traits(aten.add_.Tensor)
_STORE_REFERENCES = 2
"""The tensor's own and that of the call which counts them."""
_TENSOR_REFERENCES = 4
"""Those of a gradient that the engine alone holds, while it is handed to Python."""


def _scan(values: Any, key: list[Any], fakes: list[FakeTensor]) -> None:
    """Adds to a key what the result depends on, and collects the fake tensors in order."""
    for value in values:
        kind = type(value)
        if kind is FakeTensor:
            key.append(value.form)
            fakes.append(value)
        elif kind in (list, tuple) or isinstance(value, (list, tuple)):
            key.append(len(value))
            _scan(value, key, fakes)
        elif isinstance(value, torch.Tensor):
            key.append((tuple(value.shape), value.stride(), value.dtype))
        else:
            key.append(kind)
            key.append(value)


def _collect(values: Any, fakes: list[FakeTensor]) -> None:
    for value in values:
        if type(value) is FakeTensor:
            fakes.append(value)
        elif isinstance(value, (list, tuple)):
            _collect(value, fakes)


def _has_tensors(values: Any) -> bool:
    return any(isinstance(value, torch.Tensor) for value in values)


def _unpinned(kwargs: Any) -> dict[str, Any]:
    return {name: value for name, value in kwargs.items() if name != "pin_memory"}


def _swap(value: Any, metas: dict[int, Any]) -> Any:
    """The same arguments with meta tensors in place of all others."""
    if isinstance(value, torch.Tensor):
        if id(value) not in metas:
            metas[id(value)] = to_meta(value)
        return metas[id(value)]
    if isinstance(value, (list, tuple)):
        return (
            type(value)(_swap(one, metas) for one in value)
            if type(value)
            in (
                list,
                tuple,
            )
            else [_swap(one, metas) for one in value]
        )
    return _META if isinstance(value, torch.device) else value


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


def _pass_answer(traits: Traits, fakes: list[FakeTensor], result: Any) -> None:
    if not isinstance(result, FakeTensor):
        return
    if traits.plain in _ANSWERS:
        result.answer = _ANSWERS[traits.plain]
    elif fakes[0].answer is not None:
        known = fakes[0].answer
        result.answer = not known if traits.plain in _TURN_ANSWER else known


def _attributes(args: Any, kwargs: Any) -> str:
    plain = [_plain(value) for value in (*args, *kwargs.values()) if not _is_tensors(value)]
    return json.dumps(plain, separators=(",", ":"))


def _is_tensors(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return bool(value) and isinstance(value[0], torch.Tensor)
    return isinstance(value, torch.Tensor)


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value[:32]]
    return str(value)


# Operations that need an answer of their own.


def _value(_mode: FakeDispatch, _func: Any, args: Any, _kwargs: Any) -> Any:
    if not isinstance(args[0], FakeTensor):
        return NotImplemented
    return read_value(args[0])


def _refuse_comparison(_mode: FakeDispatch, _func: Any, args: Any, _kwargs: Any) -> Any:
    if any(isinstance(a, FakeTensor) for a in args):
        raise ValueAsked("the step compares the numbers of two tensors")
    return NotImplemented


def _unpin(_mode: FakeDispatch, func: Any, args: Any, _kwargs: Any) -> Any:
    return False if func is aten.is_pinned.default else args[0]


def _set(_mode: FakeDispatch, func: Any, args: Any, _kwargs: Any) -> Any:
    target = args[0]
    if not isinstance(target, FakeTensor):
        return NotImplemented
    if len(args) > 1 and isinstance(args[1], FakeTensor):
        reshape_in_place(target, args[1].form)
        target.store = args[1].store
        return target
    raise FrameworkError(
        f"{func} on a fake tensor cannot be followed; measure a few real steps instead: --measure"
    )


def _flatten_rnn(mode: FakeDispatch, _func: Any, args: Any, _kwargs: Any) -> Any:
    """cuDNN keeps all weights of a recurrent network in one buffer."""
    weights = args[0]
    if not all(isinstance(w, FakeTensor) for w in weights):
        return NotImplemented
    form = form_of((sum(w.numel() for w in weights),), None, weights[0].dtype, 0, mode._on_cuda)
    buffer = make(form, mode.storage(form))
    for weight in weights:
        # Their first places stay with the allocator and are taken again in the step.
        mode._log.remember(weight.store.number)
        weight.store.give_up()
        weight.store = buffer.store
    return buffer


def _reshape(func: Any, target: FakeTensor, args: Any, kwargs: Any) -> None:
    meta = to_meta(target)
    func(meta, *[to_meta(a) if isinstance(a, torch.Tensor) else a for a in args[1:]], **kwargs)
    form = form_of(
        meta.shape, meta.stride(), meta.dtype, meta.storage_offset(), target.form.on_cuda
    )
    if form is not target.form:
        reshape_in_place(target, form)


_RESHAPING = {
    "as_strided_",
    "resize_",
    "resize_as_",
    "squeeze_",
    "swapaxes_",
    "swapdims_",
    "t_",
    "transpose_",
    "unsqueeze_",
}

_SPECIAL: dict[Any, Callable[..., Any]] = {
    aten._local_scalar_dense.default: _value,
    aten.equal.default: _refuse_comparison,
    aten.is_pinned.default: _unpin,
    aten._pin_memory.default: _unpin,
    aten.set_.source_Tensor: _set,
    aten.set_.source_Storage: _set,
    aten.set_.source_Storage_storage_offset: _set,
    aten._cudnn_rnn_flatten_weight.default: _flatten_rnn,
    aten._cudnn_rnn_backward.default: answer_backward,
}
