"""Tensors without numbers: shape, type and whose storage, nothing computed; records nothing itself.

A fake CUDA tensor is an XLA tensor to torch's C++ half, which a build without CUDA can take through
autograd and autocast; to Python it says that it is on cuda:0.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Any, Callable

import torch

import trainload_worker
from trainload_worker.errors import FrameworkError

CUDA = torch.device("cuda", 0)
_XLA = torch.device("xla", 0)
_CPU = torch.device("cpu")
_DEVICE_TYPE_CUDA, _DEVICE_TYPE_XLA, _DEVICE_TYPE_META, _DEVICE_TYPES = 1, 9, 14, 20
_GUARDS = "_ZN3c104impl26device_guard_impl_registryE"

_KEYS = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCUDA)
"""autocast("cuda") is for XLA tensors too, but they are not on their way to it by themselves."""

_FOREIGN = (
    os.path.dirname(torch.__file__),
    os.path.dirname(os.path.abspath(trainload_worker.__file__)),
    sys.base_prefix,
)
"""Folders of code that is not the user's."""

_wrap = torch.Tensor._make_wrapper_subclass
_plain_data = torch.Tensor.data


class ValueAsked(BaseException):
    """The program asked for a number that decides what it does next; the text says which."""


class Form:
    """Everything about a tensor but its storage; one object for equal forms."""

    __slots__ = ("bytes", "contiguous", "dtype", "offset", "on_cuda", "shape", "strides", "text")

    def __init__(self, shape: Any, strides: Any, dtype: Any, offset: int, on_cuda: bool) -> None:
        self.shape, self.strides, self.dtype = shape, strides, dtype
        self.offset, self.on_cuda = offset, on_cuda
        span = 1
        for size, stride in zip(shape, strides):
            span = 0 if size == 0 or span == 0 else span + (size - 1) * stride
        self.bytes = (offset + span) * dtype.itemsize if span else 0
        self.contiguous = strides == row_major(shape)
        shown = "null" if self.contiguous else _numbers(strides)
        self.text = f'[{_numbers(shape)},"{str(dtype)[6:]}",{shown},'


_forms: dict[Any, Form] = {}


def row_major(shape: Any) -> tuple[int, ...]:
    """The strides of a contiguous tensor of that shape."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(1, size)
    return tuple(reversed(strides))


def form_of(shape: Any, strides: Any, dtype: Any, offset: int, on_cuda: bool) -> Form:
    """The one form with those properties; strides of None mean contiguous."""
    shape = tuple(shape)
    strides = row_major(shape) if strides is None else tuple(strides)
    key = (shape, strides, dtype, offset, on_cuda)
    found = _forms.get(key)
    if found is None:
        found = _forms[key] = Form(*key)
    return found


def _numbers(values: Any) -> str:
    return "[" + ",".join(map(str, values)) + "]"


class Storage:
    """What tensors share; its owner is told when the last of them is gone."""

    __slots__ = ("_freed", "bytes", "known", "number")

    def __init__(self, number: int, size: int, freed: Callable[[int], None] | None) -> None:
        self.number, self.bytes, self._freed = number, size, freed
        self.known: Any = None
        """Its numbers on the host, where the program itself gave them (`known`)."""

    def __del__(self) -> None:
        if self._freed is not None:
            self._freed(self.number)

    def give_up(self) -> None:
        """Frees it now though tensors refer to it: they have been moved to another storage."""
        self.__del__()
        self._freed = None


class FakeTensor(torch.Tensor):  # type: ignore[misc]  # torch is not typed here
    """A tensor that has everything but numbers."""

    __torch_function__ = torch._C._disabled_torch_function_impl
    form: Form
    store: Storage
    answer: Any = None
    """What it is taken for where the program asks; None: it may not decide anything."""
    usually: bool | None = None
    """What a check for something amiss would find: `all` is true and `any` is false."""
    causal: bool | None = None
    """Whether it is a causal mask, where its numbers were known once."""

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, _types: Any, _args: Any = (), _kwargs: Any = None
    ) -> Any:
        raise RuntimeError(f"{func}: a fake tensor was used outside of its trace")

    @property
    def device(self) -> Any:
        """cuda:0 or cpu, as the program takes it."""
        return CUDA if self.form.on_cuda else _CPU

    @property
    def is_cuda(self) -> bool:
        """Whether the program takes it for a CUDA tensor."""
        return self.form.on_cuda

    @property
    def is_xla(self) -> bool:
        """False: the program takes it for a CUDA tensor."""
        return False

    def get_device(self) -> int:
        """The GPU's index, -1 for the CPU."""
        return 0 if self.form.on_cuda else -1

    @property
    def data(self) -> Any:
        """The same storage without autograd."""
        return _plain_data.__get__(self)

    @data.setter
    def data(self, other: Any) -> None:
        if not isinstance(other, FakeTensor):
            raise ValueAsked("a fake tensor was given real numbers by .data")
        _plain_data.__set__(self, other)
        self.form, self.store = other.form, other.store

    def data_ptr(self) -> int:
        """A number in place of an address; differs between storages."""
        return (self.store.number + 1) << 9

    def __bool__(self) -> bool:
        if self.answer is not None:
            return bool(self.answer)
        known = numbers_of(self)
        if known is not None:
            return bool(known)
        if self.usually is not None:
            note_reading(usual)
            return bool(self.usually)
        raise ValueAsked("the step branches on the value of a tensor")

    def __repr__(self, *_args: Any, **_kwargs: Any) -> str:
        return f"tensor(..., size={tuple(self.form.shape)}, dtype={self.form.dtype})"

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if self.dim() == 0 else repr(self)

    def item(self) -> Any:
        """A constant, 1 unless the answer is known; the line that asked is noted."""
        return read_value(self)

    def tolist(self) -> Any:
        """Its numbers where they are known, else constants in the tensor's shape."""
        known = numbers_of(self)
        if known is not None:
            return known.tolist()
        return _nested(self.form.shape, read_value(self))

    def numpy(self, *_args: Any, **_kwargs: Any) -> Any:
        """Constants in the tensor's shape."""
        return torch._C._TensorBase.numpy(self._stand_in())

    def __array__(self, *args: Any) -> Any:
        return self._stand_in().__array__(*args)

    def _stand_in(self) -> Any:
        known = numbers_of(self)
        if known is not None:
            return known
        note_reading()
        with torch.utils._python_dispatch._disable_current_modes():
            return torch.ones(1, dtype=self.form.dtype).expand(self.form.shape).clone()

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) in memo:
            return memo[id(self)]
        with torch.no_grad():
            copied = self.clone()
        copied.requires_grad_(self.requires_grad)
        for name in ("_is_param", "_is_buffer"):
            if hasattr(self, name):
                setattr(copied, name, getattr(self, name))
        memo[id(self)] = copied
        return copied


readings: dict[str, None] = {}
"""Lines of the user's code that asked for the numbers of a tensor, in order."""


largest: dict[str, None] = {}
"""Lines that made a size of unknown numbers, which was taken for the largest that it can be."""
usual: dict[str, None] = {}
"""Lines that branched on `all` or `any` of unknown numbers, answered as where nothing is amiss."""


def read_value(tensor: FakeTensor) -> Any:
    """What a program is told that asks for a tensor's number; where it asked is noted."""
    if tensor.answer is not None:
        return tensor.answer
    known = numbers_of(tensor)
    if known is not None and known.numel() == 1:
        return known.item()
    note_reading()
    return constant(tensor.form.dtype)


def numbers_of(tensor: FakeTensor) -> Any:
    """A copy on the host of the numbers that are known of it; None where they are not."""
    if tensor.store.known is None:
        return None
    with torch.utils._python_dispatch._disable_current_modes(), torch.no_grad():
        return seen(tensor).clone()


def seen(tensor: FakeTensor) -> Any:
    """The known numbers of a tensor's storage in the tensor's own form."""
    form = tensor.form
    plain = torch.empty(0, dtype=form.dtype)
    whole = tensor.store.known.untyped_storage()
    return plain.set_(whole, form.offset, form.shape, form.strides)


def note_reading(notes: dict[str, None] = readings) -> None:
    """Notes the innermost line of the user's own code that is being run."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            name = os.path.basename(frame.f_code.co_filename)
            notes[f"{name} line {frame.f_lineno}"] = None
            return
        frame = frame.f_back


def is_users(path: str) -> bool:
    """Whether a file of code is the user's own, not torch's, Python's or an installed one."""
    path = os.path.abspath(path)
    return os.path.exists(path) and "site-packages" not in path and not path.startswith(_FOREIGN)


def constant(dtype: Any) -> Any:
    """What stands in for an unknown number: one, which nothing is divided by in vain."""
    if dtype is torch.bool:
        return True
    return 1.0 if dtype.is_floating_point else (1j if dtype.is_complex else 1)


def _nested(shape: Any, value: Any) -> Any:
    if not shape:
        return value
    return [_nested(shape[1:], value) for _ in range(shape[0])]


def make(form: Form, store: Storage) -> FakeTensor:
    """A fake tensor on a storage."""
    place = _XLA if form.on_cuda else _CPU
    layout = (form.shape, form.strides, form.offset, None, form.dtype, torch.strided, place)
    keys = _KEYS if form.on_cuda else None
    tensor = _wrap(FakeTensor, *layout, False, False, None, False, False, keys)
    tensor.form, tensor.store = form, store
    return tensor  # type: ignore[no-any-return]


def reshape_in_place(tensor: FakeTensor, form: Form) -> None:
    """Gives a tensor another form on its storage, as `unsqueeze_` and `resize_` do."""
    # torch asks the tensors whether they are of one kind, and they have no answer here.
    with torch._C._DisableTorchDispatch():
        _plain_data.__set__(tensor, make(form, tensor.store))
    tensor.form = form


def to_meta(tensor: Any) -> Any:
    """A tensor of torch's own meta device with the same form."""
    if isinstance(tensor, FakeTensor):
        form = tensor.form
        if form.offset:
            size = max(1, form.bytes // form.dtype.itemsize)
            whole = torch.empty(size, dtype=form.dtype, device="meta")
            return whole.as_strided(form.shape, form.strides, form.offset)
        return torch.empty_strided(form.shape, form.strides, dtype=form.dtype, device="meta")
    return tensor.to("meta")


def open_autograd() -> None:
    """Lets autograd take XLA tensors, and `.to` the word cuda, in a build that has neither.

    torch asks a device's guard which of its devices is meant. It offers no call to set one, so the
    meta device's entry in its table of guards is copied over both. A build for CUDA has an entry
    of its own, which asks the driver: that answers with an error where no driver is, or no GPU.
    """
    folder = os.path.join(os.path.dirname(torch.__file__), "lib")
    name = {"darwin": "libc10.dylib", "win32": "c10.dll"}.get(sys.platform, "libc10.so")
    try:
        library = ctypes.CDLL(os.path.join(folder, name))
        guards = (ctypes.c_void_p * _DEVICE_TYPES).in_dll(library, _GUARDS)
    except (OSError, ValueError) as error:
        raise FrameworkError(
            f"torch {torch.__version__} cannot be traced here: {error}; "
            "measure a few real steps instead: --measure"
        ) from error
    for kind in (_DEVICE_TYPE_CUDA, _DEVICE_TYPE_XLA):
        guards[kind] = guards[_DEVICE_TYPE_META]


def means_cuda(device: Any) -> bool:
    """Whether an operation is told to work on the GPU; the meta device's guard calls it meta."""
    return device is not None and device.type in ("cuda", "xla", "meta")
