"""Answers every torch operation with fake tensors and notes it in the log; computes no number.

What an operation gives for a combination of forms is worked out once by `plans` and kept. Layers,
phases and marks are told by `layers` and `trace`.
"""

from __future__ import annotations

import sys
from typing import Any, Callable

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from trainload_worker.errors import FrameworkError
from trainload_worker.frameworks.torch.fake_step.answers import SPECIAL, pass_answer, reshape
from trainload_worker.frameworks.torch.fake_step.arguments import (
    META,
    attributes,
    collect,
    has_tensors,
    scan,
    unpinned,
)
from trainload_worker.frameworks.torch.fake_step.known import (
    MOST_BYTES,
    all_known,
    begin_whole,
    forget_written,
    keep,
    keep_all,
    work_out,
)
from trainload_worker.frameworks.torch.fake_step.log import UNTOLD, OpTraceLog
from trainload_worker.frameworks.torch.fake_step.plans import Plan, Traits, make_plan
from trainload_worker.frameworks.torch.fake_step.sized import LARGEST
from trainload_worker.frameworks.torch.fake_step.tensors import (
    FakeTensor,
    Form,
    Storage,
    form_of,
    largest,
    make,
    means_cuda,
    note_reading,
    to_meta,
)

aten = torch.ops.aten

_SMALL_BYTES = 64 * 1024
"""Numbers on the CPU below this stay real: programs shuffle, count and print with them."""


class FakeDispatch(TorchDispatchMode):  # type: ignore[misc]  # torch is not typed here
    """Takes every operation while it is entered."""

    def __init__(
        self, log: OpTraceLog, where: Callable[[], tuple[str, str]], *, on_cuda: bool, adopts: bool
    ) -> None:
        super().__init__()
        self.log = log
        self._where = where
        self.on_cuda = on_cuda
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
        special = SPECIAL.get(func)
        if special is not None:
            answer = special(self, func, args, kwargs)
            if answer is not NotImplemented:
                return answer
        fakes: list[FakeTensor] = []
        if traits.in_place or traits.foreach:
            collect(args, fakes)
            collect(kwargs.values(), fakes)
            if not fakes:
                return func(*args, **kwargs)
            return self._write(func, traits, args, kwargs, fakes)
        key: list[Any] = [func]
        scan(args, key, fakes)
        for name, value in kwargs.items():
            key.append(name)
            scan((value,), key, fakes)
        if not fakes:
            return self._create(func, traits, args, kwargs, key)
        known = not traits.drawn and not traits.shares and all_known(fakes)
        numbers = work_out(func, args, kwargs) if known else None
        if numbers is not None and self._goes_to_host(traits, kwargs, fakes):
            return numbers
        if numbers is not None and traits.sized:
            plan = self._plan_sized(args, kwargs, numbers)
        elif traits.plain in LARGEST:
            note_reading(largest)
            forms = LARGEST[traits.plain](*args, **kwargs)
            on_cuda = self._chosen_side(kwargs, fakes)
            outputs: list[Any] = [
                (form_of(one.shape, one.strides, one.dtype, 0, on_cuda), -1) for one in forms
            ]
            plan = Plan(outputs, len(outputs) == 1, False, attributes(args, kwargs))
        else:
            place = tuple(key)
            found = self._plans.get(place)
            if found is None:
                found = self._plans[place] = self._plan(func, traits, args, kwargs, fakes)
            plan = found
        result = self._give(plan, traits, fakes)
        if traits.answer:
            pass_answer(traits.plain, fakes, result)
        if numbers is not None:
            keep_all(result, numbers)
        if traits.written:
            forget_written(traits.written, args, kwargs)
        return result

    def again(self, func: Any, *args: Any, **kwargs: Any) -> Any:
        """An operation that another one is made of."""
        return self._dispatch(func, (), args, kwargs)

    def _goes_to_host(self, traits: Traits, kwargs: Any, fakes: list[FakeTensor]) -> bool:
        """Whether known numbers come back to the host, where they are real."""
        device = kwargs.get("device")
        return (
            traits.plain == "_to_copy"
            and device is not None
            and device.type == "cpu"
            and fakes[0].form.on_cuda
        )

    def _plan_sized(self, args: Any, kwargs: Any, numbers: Any) -> Plan:
        """What an operation gives whose size is known since its numbers are."""
        single = isinstance(numbers, torch.Tensor)
        outputs: list[Any] = [
            (form_of(one.shape, one.stride(), one.dtype, 0, self.on_cuda), -1)
            for one in ([numbers] if single else numbers)
        ]
        return Plan(outputs, single, False, attributes(args, kwargs))

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
        if (fake and tensor.form.on_cuda == self.on_cuda) or not tensor.dim():
            return tensor
        if tensor.layout is not torch.strided:
            raise FrameworkError(
                f"tensors of layout {tensor.layout} cannot be traced: use dense ones"
            )
        whole = tensor.store if fake else tensor.untyped_storage()
        place = id(whole) if fake else whole._cdata
        if place not in self._adopted:
            size = whole.bytes if fake else whole.nbytes()
            form = form_of((size,), None, torch.uint8, 0, self.on_cuda)
            store = self.storage(form, "input")
            self._adopted[place] = (whole, store)
            if not fake and tensor.device.type == "cpu" and size <= MOST_BYTES:
                store.known = torch.empty(0, dtype=torch.uint8).set_(whole).clone()
        offset = tensor.storage_offset()
        form = form_of(tensor.shape, tensor.stride(), tensor.dtype, offset, self.on_cuda)
        return make(form, self._adopted[place][1])

    # Operations that write into what they were given.

    def _write(
        self, func: Any, traits: Traits, args: Any, kwargs: Any, fakes: list[FakeTensor]
    ) -> Any:
        if traits.foreach:
            return self._give_foreach(traits, args, kwargs, fakes)
        target = kwargs.get("out", args[0] if args else None)
        if isinstance(target, FakeTensor):
            reshape(traits.plain, func, target, args, kwargs)
        begin_whole(traits.plain, target, fakes)
        if not traits.shares and not traits.drawn and all_known(fakes):
            if work_out(func, args, kwargs) is None:
                forget_written(traits.written, args, kwargs)
        else:
            forget_written(traits.written, args, kwargs)
        self._note(traits, fakes, [target], attributes(args, kwargs))
        return target if func._schema.returns else None

    def _give_foreach(self, traits: Traits, args: Any, kwargs: Any, fakes: list[FakeTensor]) -> Any:
        first = args[0]
        if traits.plain in ("_foreach_norm", "_foreach_max"):
            forms = [form_of((), (), t.dtype, 0, isinstance(t, FakeTensor)) for t in first]
        else:
            forms = [
                form_of(t.shape, t.stride(), t.dtype, 0, isinstance(t, FakeTensor)) for t in first
            ]
        plan = Plan([[(form, -1) for form in forms]], True, False, attributes(args, kwargs))
        return self._give(plan, traits, fakes)

    # New tensors.

    def _create(self, func: Any, traits: Traits, args: Any, kwargs: Any, key: list[Any]) -> Any:
        """The result of a factory function or of an operation on real tensors alone."""
        if not traits.factory:
            return func(*args, **kwargs)
        device = kwargs.get("device")
        on_cuda = self.on_cuda and means_cuda(device)
        real_inputs = has_tensors(args)
        if device is not None and device.type == "meta" and not on_cuda:
            return func(*args, **kwargs)
        if not on_cuda and real_inputs:
            return func(*args, **unpinned(kwargs))
        place = tuple(key)
        plan = self._plans.get(place)
        if plan is None:
            changed = {**unpinned(kwargs), "device": META}
            if "generator" in changed:
                changed["generator"] = None
            metas = [to_meta(a) if isinstance(a, torch.Tensor) else a for a in args]
            found = func(*metas, **changed)
            form = form_of(found.shape, found.stride(), found.dtype, 0, on_cuda)
            elsewhere = self.on_cuda and not on_cuda
            plan = Plan([(form, -1)], True, elsewhere, attributes(args, kwargs))
            self._plans[place] = plan
        form = plan.outputs[0][0]
        if not on_cuda and not self.stays_fake(form):
            return func(*args, **unpinned(kwargs))
        category = "input" if on_cuda and real_inputs else UNTOLD
        result = self._give(plan, traits, [], category)
        if on_cuda and not traits.drawn and form.bytes <= MOST_BYTES and not _has_weights(args):
            keep(result, work_out(func, args, unpinned(kwargs)))
        return result

    def stays_fake(self, form: Form) -> bool:
        """Whether a new tensor on the CPU has no numbers."""
        return form.dtype.is_floating_point and form.bytes >= _SMALL_BYTES

    def storage(self, form: Form, category: str = UNTOLD) -> Storage:
        """A new storage that holds a tensor of that form."""
        if form.on_cuda or not self.on_cuda:
            number = self.log.allocate(form.bytes, category)
            return Storage(number, form.bytes, self.log.free)
        return Storage(-1, form.bytes, None)

    def fresh(self, shape: Any, dtype: Any, category: str) -> FakeTensor:
        """A new tensor on the step's device, without numbers however small it is."""
        form = form_of(shape, None, dtype, 0, self.on_cuda)
        return make(form, self.storage(form, category))

    # Everything else.

    def _plan(
        self, func: Any, traits: Traits, args: Any, kwargs: Any, fakes: list[FakeTensor]
    ) -> Plan:
        """Works out what the operation gives, by its own rule or by torch's."""
        on_cuda = self._chosen_side(kwargs, fakes)
        # Work of the host is no part of what runs on the GPU.
        elsewhere = self.on_cuda and not on_cuda and not any(f.form.on_cuda for f in fakes)
        return make_plan(func, traits, args, kwargs, fakes, on_cuda=on_cuda, elsewhere=elsewhere)

    def _chosen_side(self, kwargs: Any, fakes: list[FakeTensor]) -> bool:
        device = kwargs.get("device")
        if device is not None:
            return self.on_cuda and means_cuda(device)
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
        self.log.operation("")
        slot = self.log.last
        moved = traits.plain == "_to_copy" and fakes and not fakes[0].form.on_cuda
        if moved and category == UNTOLD:
            category = "input"
        made: list[FakeTensor] = []
        results = [self._result(output, fakes, category, made) for output in plan.outputs]
        self.log.complete(slot, self._line(traits, fakes, made, plan.attributes))
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
        collect(args, fakes)
        self.log.operation("")
        slot = self.log.last
        line = self._line(self._traits[func], fakes, create(), attributes(args, {}))
        self.log.complete(slot, line)

    def _note(self, traits: Traits, fakes: list[FakeTensor], given: Any, attributes: str) -> None:
        if self.on_cuda and not any(fake.form.on_cuda for fake in fakes):
            return
        self.log.operation(self._line(traits, fakes, given, attributes))

    def _line(self, traits: Traits, fakes: list[FakeTensor], given: Any, attributes: str) -> str:
        layer, phase = self._where()
        takes = ",".join([f"{t.form.text}{t.store.number}]" for t in fakes])
        gives = ",".join(
            [f"{t.form.text}{t.store.number}]" for t in given if isinstance(t, FakeTensor)]
        )
        return (
            f'["o",{traits.text},{layer},"{phase}",{self.log.step},[{takes}],[{gives}],'
            f"{attributes}]"
        )


def _has_weights(args: Any) -> bool:
    return any(isinstance(a, torch.nn.Parameter) or getattr(a, "requires_grad", 0) for a in args)


# Given from outside: torch wraps what stands in the class, at the cost of a second's imports.
FakeDispatch.__torch_dispatch__ = FakeDispatch._dispatch

_DETACH = aten.detach.default
_ADD_IN_PLACE = Traits(aten.add_.Tensor)
_STORE_REFERENCES = 2
"""The tensor's own and that of the call which counts them."""
_TENSOR_REFERENCES = 4
"""Those of a gradient that the engine alone holds, while it is handed to Python."""
