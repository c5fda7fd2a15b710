"""Reads and sets the weights of a torch model and what its optimizer keeps; needs no NumPy."""

from __future__ import annotations

import ctypes
from typing import Any, Iterator, Mapping

import torch

from trainload_worker.protocol.spec import TrainSpec
from trainload_worker.training.ranks import dropout_seed
from trainload_worker.training.safetensors_file import Tensor, Tensors
from trainload_worker.training.state import RUNNING, SLOTS, epoch_seed, find_tensor, slot_name


class TorchState:
    """The state of one model and its optimizer."""

    def __init__(self, spec: TrainSpec, model: Any, optimizer: Any) -> None:
        self._model, self._optimizer = model, optimizer
        self._slots = SLOTS[spec.training.optimizer.name]
        self._seed = dropout_seed(spec)

    def read(self) -> Tensors:
        """Views of what lies in host memory, copies of what a device holds."""
        tensors = {name: _to_tensor(values) for name, values in self._weights()}
        for name, parameter in self._trained():
            kept = self._optimizer.state.get(parameter, {})
            for slot in self._slots:
                if kept.get(slot) is not None:
                    tensors[slot_name(slot, name)] = _to_tensor(kept[slot])
        return tensors

    def load(self, tensors: Mapping[str, Tensor], steps: int) -> None:
        """Copies every value into the model, and makes the optimizer's own."""
        with torch.no_grad():
            for name, values in self._weights():
                found = find_tensor(tensors, name, values.shape)
                assert found is not None, "a missing weight has been refused"
                values.copy_(_from_tensor(found))
        for name, parameter in self._trained():
            kept = {}
            for slot in self._slots:
                found = find_tensor(tensors, slot_name(slot, name), parameter.shape)
                if found is not None:
                    kept[slot] = _from_tensor(found).clone().to(parameter.device)
            if len(kept) == len(self._slots):
                # Every optimizer but sgd counts its steps, on the host.
                kept["step"] = torch.tensor(float(steps))
                self._optimizer.state[parameter] = kept

    def begin_epoch(self, epoch: int) -> None:
        """Seeds dropout; the first epoch goes on from the seed that the model was built with."""
        if epoch:
            torch.manual_seed(epoch_seed(self._seed, epoch))

    def _trained(self) -> Iterator[tuple[str, Any]]:
        for name, parameter in self._model.named_parameters():
            if parameter.requires_grad:
                yield name, parameter

    def _weights(self) -> Iterator[tuple[str, Any]]:
        yield from self._trained()
        for name, values in self._model.named_buffers():
            if name.rpartition(".")[2] in RUNNING:
                yield name, values


def _to_tensor(values: Any) -> Tensor:
    host = values.detach().to("cpu", torch.float32).contiguous()
    data = (ctypes.c_uint8 * (4 * host.numel())).from_address(host.data_ptr())
    return Tensor(shape=tuple(host.shape), data=data, owner=host)


def _from_tensor(tensor: Tensor) -> Any:
    return torch.frombuffer(tensor.data, dtype=torch.float32).view(tensor.shape)
