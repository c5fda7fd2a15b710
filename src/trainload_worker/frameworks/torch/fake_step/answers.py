"""Operations whose answer no shape rule gives: numbers asked for, tensors moved or reshaped.

Each takes the dispatch mode that asks and answers NotImplemented where no fake tensor is meant.
"""

from __future__ import annotations

from typing import Any, Callable

import torch

from trainload_worker.errors import FrameworkError
from trainload_worker.frameworks.torch.fake_step.known import all_known, work_out
from trainload_worker.frameworks.torch.fake_step.recurrent import answer_backward
from trainload_worker.frameworks.torch.fake_step.tensors import (
    FakeTensor,
    ValueAsked,
    form_of,
    make,
    numbers_of,
    read_value,
    reshape_in_place,
    to_meta,
)

aten = torch.ops.aten

_ANSWERS = {"isnan": False, "isinf": False, "isneginf": False, "isposinf": False}
_PASS_ANSWER = {"any", "all", "_to_copy", "clone", "sum", "alias", "view", "detach", "select"}
_USUALLY = {"any": False, "all": True, "_is_any_true": False, "_is_all_true": True}
"""What a program that checks its numbers expects to find."""
_TURN_ANSWER = {"logical_not", "bitwise_not"}
KNOWING = _PASS_ANSWER | _TURN_ANSWER | set(_ANSWERS) | set(_USUALLY)
"""Operations that give or hand on an answer which is known without numbers."""

_RESHAPING = {"as_strided_", "resize_", "resize_as_", "squeeze_", "unsqueeze_"}
_RESHAPING |= {"swapaxes_", "swapdims_", "t_", "transpose_"}


def pass_answer(name: str, fakes: list[FakeTensor], result: Any) -> None:
    """Gives the result what is known of it: nothing is NaN, and a copy of true is true."""
    if not isinstance(result, FakeTensor):
        return
    if name in _ANSWERS:
        result.answer = _ANSWERS[name]
        return
    source = fakes[0]
    turned = name in _TURN_ANSWER
    if source.answer is not None:
        result.answer = not source.answer if turned else source.answer
    if name in _USUALLY:
        result.usually = _USUALLY[name]
    elif source.usually is not None:
        result.usually = not source.usually if turned else source.usually


def _value(_mode: Any, _func: Any, args: Any, _kwargs: Any) -> Any:
    if not isinstance(args[0], FakeTensor):
        return NotImplemented
    return read_value(args[0])


def _refuse_comparison(_mode: Any, func: Any, args: Any, _kwargs: Any) -> Any:
    fakes = [a for a in args if isinstance(a, FakeTensor)]
    if fakes and all_known(fakes):
        return work_out(func, args, {})
    if any(isinstance(a, FakeTensor) for a in args):
        raise ValueAsked("the step compares the numbers of two tensors")
    return NotImplemented


def _unpin(_mode: Any, func: Any, args: Any, _kwargs: Any) -> Any:
    return False if func is aten.is_pinned.default else args[0]


def _set(_mode: Any, func: Any, args: Any, _kwargs: Any) -> Any:
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


def _index(mode: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """CUDA makes indices of a mask before it looks up what they point to."""
    source, indices = args[0], args[1]
    if not any(_is_mask(one) for one in indices):
        return NotImplemented
    places: list[Any] = []
    for one in indices:
        if not _is_mask(one):
            places.append(one)
            continue
        found = mode.again(aten.nonzero.default, mode.adopt(one))
        places += [mode.again(aten.select.int, found, 1, side) for side in range(one.dim())]
    return mode.again(func, source, places, *args[2:], **kwargs)


def _pack(mode: Any, func: Any, args: Any, _kwargs: Any) -> Any:
    """The steps of sequences one after the other; lengths that nobody knows are the longest."""
    source, lengths, batch_first = args
    if not isinstance(source, FakeTensor):
        return NotImplemented
    rows, steps = source.shape[:2] if batch_first else (source.shape[1], source.shape[0])
    # A batch's tensors come to the GPU where they meet it, lengths among them.
    told = numbers_of(lengths) if isinstance(lengths, FakeTensor) else lengths
    known = [steps] * rows if told is None else told.tolist()
    sizes = torch.tensor([sum(n > step for n in known) for step in range(max(known))])
    form = form_of((sum(known), *source.shape[2:]), None, source.dtype, 0, source.form.on_cuda)
    made: list[Any] = []

    def create() -> list[Any]:
        made.append(make(form, mode.storage(form)))
        return made

    mode.note_created(func, args, create)
    return made[0], sizes


def _is_mask(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in (torch.bool, torch.uint8)


def _flatten_rnn(mode: Any, _func: Any, args: Any, _kwargs: Any) -> Any:
    """cuDNN keeps all weights of a recurrent network in one buffer."""
    weights = args[0]
    if not all(isinstance(w, FakeTensor) for w in weights):
        return NotImplemented
    form = form_of((sum(w.numel() for w in weights),), None, weights[0].dtype, 0, mode.on_cuda)
    buffer = make(form, mode.storage(form))
    for weight in weights:
        # Their first places stay with the allocator and are taken again in the step.
        mode.log.remember(weight.store.number)
        weight.store.give_up()
        weight.store = buffer.store
    return buffer


def reshape(name: str, func: Any, target: FakeTensor, args: Any, kwargs: Any) -> None:
    """Gives the target its new form where the operation changes that in place, as `squeeze_`."""
    if name not in _RESHAPING:
        return
    meta = to_meta(target)
    func(meta, *[to_meta(a) if isinstance(a, torch.Tensor) else a for a in args[1:]], **kwargs)
    form = form_of(
        meta.shape, meta.stride(), meta.dtype, meta.storage_offset(), target.form.on_cuda
    )
    if form is not target.form:
        reshape_in_place(target, form)


SPECIAL: dict[Any, Callable[..., Any]] = {
    aten._local_scalar_dense.default: _value,
    aten.equal.default: _refuse_comparison,
    aten.index.Tensor: _index,
    aten._pack_padded_sequence.default: _pack,
    aten.is_pinned.default: _unpin,
    aten._pin_memory.default: _unpin,
    aten.set_.source_Tensor: _set,
    aten.set_.source_Storage: _set,
    aten.set_.source_Storage_storage_offset: _set,
    aten._cudnn_rnn_flatten_weight.default: _flatten_rnn,
    aten._cudnn_rnn_backward.default: answer_backward,
}
