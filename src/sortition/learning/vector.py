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

    Buffers travel and are averaged like parameters, as in FedAvg on a ``state_dict``; they have no gradient.
    """

    shapes: tuple[tuple[int, ...], ...]
    trainable: int
    names: tuple[str, ...]

    @classmethod
    def of(cls, model: nn.Module) -> Layout:
        """The layout of ``model``."""
        frozen = [name for name, p in model.named_parameters() if not p.requires_grad]
        if frozen:
            raise bad("model", "made of trainable parameters", f"{frozen[0]} without gradient")
        named = [*model.named_parameters(), *_buffers(model)]
        trainable = len(list(model.parameters()))
        return cls(tuple(tuple(p.shape) for _, p in named), trainable, tuple(name for name, _ in named))

    @cached_property
    def sizes(self) -> list[int]:
        """Numbers per tensor."""
        return [int(np.prod(shape)) for shape in self.shapes]

    @cached_property
    def size(self) -> int:
        """P."""
        return sum(self.sizes)

    @cached_property
    def weights(self) -> int:
        """How many of the P numbers have a gradient: the first ones."""
        return sum(self.sizes[: self.trainable])

    def head(self, classes: int) -> tuple[slice, slice | None]:
        """Where the output layer's weight (classes, d) and bias (classes,) lie; None for a layer without bias."""
        last = self.trainable - 1
        biased = self.shapes[last] == (classes,)
        weight = last - 1 if biased else last
        if weight < 0 or len(self.shapes[weight]) < 2 or self.shapes[weight][0] != classes:
            raise bad("model", f"closed by a layer with {classes} outputs", f"{self.names[last]} {self.shapes[last]}")
        start = sum(self.sizes[:weight])
        end = start + self.sizes[weight]
        return slice(start, end), slice(end, end + classes) if biased else None

    def split(self, flat: torch.Tensor) -> list[torch.Tensor]:
        """Views of ``flat`` (…, P), one per tensor, each of shape (…, *shape)."""
        parts = torch.split(flat, self.sizes, dim=-1)
        return [p.view(*flat.shape[:-1], *shape) for p, shape in zip(parts, self.shapes, strict=True)]


def tensor(array: npt.ArrayLike, kind: type, device: torch.device) -> torch.Tensor:
    """Examples or labels on the device; on a CPU they share the array's memory, which is read and never written."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.as_tensor(np.ascontiguousarray(array, dtype=kind), device=device)


def tensors(model: nn.Module) -> list[torch.Tensor]:
    """The model's own tensors in the order of its layout."""
    return [*(p.data for p in model.parameters()), *(b for _, b in _buffers(model))]


def flatten(model: nn.Module) -> Vector:
    """The model's vector (P,), a copy."""
    return torch.cat([p.detach().reshape(-1) for p in tensors(model)]).cpu().numpy().astype(np.float32, copy=True)


@torch.no_grad()
def load_into(model: nn.Module, layout: Layout, flat: torch.Tensor) -> None:
    """Copy a vector (P,) into the model."""
    for own, part in zip(tensors(model), layout.split(flat), strict=True):
        own.copy_(part)


def _buffers(model: nn.Module) -> list[tuple[str, torch.Tensor]]:
    return [(name, b) for name, b in model.named_buffers() if b.is_floating_point()]
