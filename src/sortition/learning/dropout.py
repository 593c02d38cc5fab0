"""Dropout whose masks belong to (seed, purpose, t, client): the same for a client trained alone or in any cohort.

One 16-bit word decides one unit, so a rate is exact to 1/65536. Every step draws for a full batch of the client.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from sortition.core.streams import stream


def words(units: int) -> int:
    """Words that are drawn for so many units: whole 64-bit draws."""
    return -(-units // 4) * 4


def source(seed: int, purpose: str, t: int, client: int) -> np.random.BitGenerator:
    """Where the words of one client's round come from."""
    return stream(seed, f"{purpose}-dropout", t, client).bit_generator


def draw(bits: np.random.BitGenerator, count: int) -> npt.NDArray[np.int16]:
    """``count`` words (a multiple of 4), uniform over all int16."""
    return bits.random_raw(count // 4).view(np.int16)


def threshold(rate: float) -> int:
    """A unit is kept when its word is at least this: P(dropped) = rate."""
    return min(round(rate * 65536) - 32768, 32767)


def keep_mask(words: torch.Tensor, rate: float) -> torch.Tensor:
    """Kept units, scaled by 1 / (1 − rate) so that the expectation stays: float32, the shape of ``words``."""
    return (words >= threshold(rate)).float().mul_(1 / (1 - rate) if rate < 1 else 0.0)


class KeyedDropout(nn.Module):
    """Stands in for a ``nn.Dropout`` while one client trains: its words come from that client's source."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate
        self.rows = 0
        self.bits: np.random.BitGenerator | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``x`` (rows, …) with units dropped in training, unchanged in evaluation."""
        if not self.training or self.rate == 0 or self.bits is None:
            return x
        units = max(self.rows, len(x)) * x[0].numel()
        drawn = torch.from_numpy(draw(self.bits, words(units))[: x.numel()]).view(x.shape)
        return x * keep_mask(drawn.to(x.device), self.rate)


def keyed(model: nn.Module) -> list[KeyedDropout]:
    """Replace every ``nn.Dropout`` inside ``model`` by a keyed one, in place, and list them.

    One that stands in several places stays one.
    """
    made: dict[nn.Module, KeyedDropout] = {}
    for parent in list(model.modules()):
        for name, child in parent._modules.items():  # named_children passes over the second place of a module
            if type(child) is nn.Dropout:
                parent._modules[name] = made.setdefault(child, KeyedDropout(child.p))
    return [m for m in model.modules() if isinstance(m, KeyedDropout)]
