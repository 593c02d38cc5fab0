"""In which numbers a model computes: float32, or bf16 for the forward and backward pass of a training.

Parameters, updates, losses and what the optimiser remembers are float32 either way.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch

PRECISIONS = ("float32", "bf16")


def forward_precision(device: torch.device, precision: str) -> AbstractContextManager[object]:
    """Return the context in which a training calls the model."""
    if precision == "float32":
        return nullcontext()
    return torch.autocast(device.type, dtype=torch.bfloat16)
