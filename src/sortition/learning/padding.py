"""The plans of several clients laid side by side, padded to one shape: what a stack trains from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import nn

from sortition.core.arrays import Array
from sortition.learning import dropout
from sortition.learning.batches import BatchPlan


def grid(ranked: Sequence[BatchPlan]) -> tuple[Array, Array, list[int]]:
    """Indices (S, k, B), row weights (S, k, B), and how many clients still train in each step."""
    shape = (ranked[0].steps, len(ranked), max(p.index.shape[1] for p in ranked))
    index, counts = np.zeros(shape, np.int64), np.ones(shape[:2], np.int64)
    for j, p in enumerate(ranked):
        index[: p.steps, j, : p.index.shape[1]] = p.index
        counts[: p.steps, j] = p.counts
    real = np.arange(shape[2]) < counts[:, :, None]
    weight = np.where(real, 1 / counts[:, :, None], 0).astype(np.float32)
    steps = np.array([p.steps for p in ranked])
    return index, weight, [int((steps > s).sum()) for s in range(shape[0])]


def words_of(
    layers: Sequence[nn.Module],
    ranked: Sequence[BatchPlan],
    sources: Sequence[np.random.BitGenerator],
    shape: tuple[int, ...],
) -> list[Array]:
    """Per dropout layer the words (S, k, width, B); each client's own are drawn step by step, layer by layer."""
    widths, width = [], 0
    for layer in layers:
        if isinstance(layer, nn.Linear):
            width = layer.out_features
        elif isinstance(layer, nn.Dropout):
            widths.append(width)
    steps, k, rows = shape
    out = [np.zeros((steps, k, w, rows), np.int16) for w in widths]
    for j, (p, bits) in enumerate(zip(ranked, sources, strict=True)):
        own = p.index.shape[1]
        spans = [dropout.words(own * w) for w in widths]
        drawn = dropout.draw(bits, p.steps * sum(spans)).reshape(p.steps, sum(spans))
        start = 0
        for table, w, span in zip(out, widths, spans, strict=True):
            table[: p.steps, j, :, :own] = drawn[:, start : start + own * w].reshape(p.steps, own, w).swapaxes(1, 2)
            start += span
    return out
