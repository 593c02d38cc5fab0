"""Dropout whose masks belong to (seed, purpose, t, client): the same for a client trained alone or in any cohort.

One 16-bit word decides one unit, so a rate is exact to 1/65536. Every step draws for a full batch of the client.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from sortition.core.streams import stream


def n_words_for(units: int) -> int:
    """Return how many words are words_by_step for so many units: whole 64-bit draws."""
    return -(-units // 4) * 4


def word_source(seed: int, purpose: str, t: int, client: int) -> np.random.BitGenerator:
    """Return the generator of the words of one client's round."""
    return stream(seed, f"{purpose}-dropout", t, client).bit_generator


def draw_words(source: np.random.BitGenerator, count: int) -> npt.NDArray[np.int16]:
    """Draw ``count`` words (a multiple of 4), uniform over all int16."""
    return source.random_raw(count // 4).view(np.int16)


def draw_step_words(
    source: np.random.BitGenerator, *, steps: int, rows: int, widths: Sequence[int]
) -> list[npt.NDArray[np.int16]]:
    """Draw the words of some steps of one client, (steps, rows, width) for each dropout layer.

    They are words_by_step step by step and layer by layer, for a full batch in every step.
    """
    spans = [n_words_for(rows * width) for width in widths]
    words_by_step = draw_words(source, steps * sum(spans)).reshape(steps, sum(spans))
    tables = []
    start = 0
    for width, span in zip(widths, spans, strict=True):
        tables.append(words_by_step[:, start : start + rows * width].reshape(steps, rows, width))
        start += span
    return tables


def keep_threshold(rate: float) -> int:
    """Return the least word whose unit is kept, such that P(dropped) = rate."""
    return min(round(rate * 65536) - 32768, 32767)


def keep_mask(words: torch.Tensor, rate: float) -> torch.Tensor:
    """Return the mask of kept units, scaled by 1 / (1 − rate) so that the expectation stays (float32)."""
    scale = 1 / (1 - rate) if rate < 1 else 0.0
    return (words >= keep_threshold(rate)).float().mul_(scale)


class KeyedDropout(nn.Module):
    """Stands in for a ``nn.Dropout`` while one client trains.

    Attributes:
        rate: the share of units that are dropped.
        rows: examples of the client's full batch.
        source: where the client's words come from; None drops nothing.
        masks: of the next calls of all dropout layers, in place of a source, where many clients train at once.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate
        self.rows = 0
        self.source: np.random.BitGenerator | None = None
        self.masks: Iterator[torch.Tensor] | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return ``x`` (rows, …) with units dropped in training, unchanged in evaluation."""
        if not self.training or self.rate == 0:
            return x
        if self.masks is not None:
            return x * next(self.masks)
        if self.source is None:
            return x
        units = max(self.rows, len(x)) * x[0].numel()
        unit_words = draw_words(self.source, n_words_for(units))[: x.numel()]
        mask = keep_mask(torch.from_numpy(unit_words).view(x.shape).to(x.device), self.rate)
        return x * mask


def replace_dropouts(model: nn.Module) -> list[KeyedDropout]:
    """Replace every ``nn.Dropout`` below ``model`` by a keyed one, in place, and return all keyed ones.

    Subclasses and other kinds, such as ``nn.Dropout2d``, stay as they are, and so does ``model`` itself. A module that
    stands in several places is replaced by one module.
    """
    replacements: dict[nn.Module, KeyedDropout] = {}
    for parent in list(model.modules()):
        for name, child in parent._modules.items():  # named_children passes over the second place of a module
            if type(child) is nn.Dropout:
                parent._modules[name] = replacements.setdefault(child, KeyedDropout(child.p))
    return [module for module in model.modules() if isinstance(module, KeyedDropout)]
