"""Models as flat float32 vectors (P,): what clients and server exchange, and what a checkpoint holds."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from sortition.core.errors import bad

Vector = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Layout:
    """Where each tensor of a model lies in its vector: parameters first, then floating buffers (running statistics).

    Buffers are sent and averaged like parameters, as in FedAvg on a ``state_dict``; they have no gradient.

    Attributes:
        shapes: of each tensor.
        trainable: how many of the tensors are parameters: the first ones.
        names: of each tensor.
    """

    shapes: tuple[tuple[int, ...], ...]
    trainable: int
    names: tuple[str, ...]

    @classmethod
    def of(cls, model: nn.Module) -> Layout:
        """Return the layout of ``model``; all its parameters must be trainable."""
        frozen = [name for name, parameter in model.named_parameters() if not parameter.requires_grad]
        if frozen:
            raise bad("model", "made of trainable parameters", f"{frozen[0]} without gradient")
        named_tensors = [*model.named_parameters(), *_named_buffers(model)]
        return cls(
            shapes=tuple(tuple(tensor.shape) for _, tensor in named_tensors),
            trainable=len(list(model.parameters())),
            names=tuple(name for name, _ in named_tensors),
        )

    @cached_property
    def sizes(self) -> list[int]:
        """Return how many numbers each tensor has."""
        return [int(np.prod(shape)) for shape in self.shapes]

    @cached_property
    def size(self) -> int:
        """Return P, the length of the vector."""
        return sum(self.sizes)

    @cached_property
    def weights(self) -> int:
        """Return how many of the P numbers have a gradient: the first ones."""
        return sum(self.sizes[: self.trainable])

    def head(self, classes: int) -> tuple[slice, slice | None]:
        """Return where the output layer's weight (classes, d) and bias (classes,) lie; None for a missing bias."""
        last = self.trainable - 1
        has_bias = self.shapes[last] == (classes,)
        weight = last - 1 if has_bias else last
        if weight < 0 or len(self.shapes[weight]) < 2 or self.shapes[weight][0] != classes:
            raise bad("model", f"closed by a layer with {classes} outputs", f"{self.names[last]} {self.shapes[last]}")
        start = sum(self.sizes[:weight])
        end = start + self.sizes[weight]
        bias_slice = slice(end, end + classes) if has_bias else None
        return slice(start, end), bias_slice

    def split(self, flat: torch.Tensor) -> list[torch.Tensor]:
        """Return views of ``flat`` (…, P), one per tensor, each of shape (…, *shape)."""
        parts = torch.split(flat, self.sizes, dim=-1)
        return [part.view((*flat.shape[:-1], *shape)) for part, shape in zip(parts, self.shapes, strict=True)]


def put_on_device(array: npt.ArrayLike, kind: type, device: torch.device) -> torch.Tensor:
    """Put examples or labels on the device; on a CPU they share the array's memory, which is never written."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.as_tensor(np.ascontiguousarray(array, dtype=kind), device=device)


def flatten_rows(tensor: torch.Tensor) -> torch.Tensor:
    """Return what belongs to k clients (k, …) as (k, numbers); one number of each is a column."""
    return tensor.reshape(len(tensor), -1)


def model_tensors(model: nn.Module) -> list[torch.Tensor]:
    """Return the model's own tensors in the order of its layout."""
    return [*(parameter.data for parameter in model.parameters()), *floating_buffers(model)]


def floating_buffers(model: nn.Module) -> list[torch.Tensor]:
    """Return the buffers that are exchanged like parameters."""
    return [buffer for _, buffer in _named_buffers(model)]


def flatten(model: nn.Module) -> Vector:
    """Return a copy of the model as a vector (P,)."""
    flat = torch.cat([tensor.detach().reshape(-1) for tensor in model_tensors(model)])
    return flat.cpu().numpy().astype(np.float32, copy=True)


@torch.no_grad()
def load_into(model: nn.Module, layout: Layout, flat: torch.Tensor) -> None:
    """Copy a vector (P,) into the model."""
    for target, part in zip(model_tensors(model), layout.split(flat), strict=True):
        target.copy_(part)


def _named_buffers(model: nn.Module) -> list[tuple[str, torch.Tensor]]:
    """List the floating buffers, which are exchanged like parameters."""
    return [(name, buffer) for name, buffer in model.named_buffers() if buffer.is_floating_point()]
