"""Blocks of clients with their own Dirichlet α (HiCS-FL): some blocks nearly balanced, others with one label each."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from sortition.core.arrays import Floats, Ids
from sortition.core.errors import bad
from sortition.data.partitions._rule import PartitionRule, by_label, rounded

ATTEMPTS = 64
SMALLEST = 0.2  # redrawn until the smallest client has this share of the mean


class DirichletBlocks(PartitionRule):
    """Equal blocks of clients, one per entry of ``alphas``, each with its slice of every label.

    Inside a block every label is split by Dir(α · 1) over the block's clients; who already holds the mean gets no more
    of the next label; redrawn until the smallest has 20 % of the mean, or (the paper would go on for ever) the best of
    64 attempts, noted.
    """

    alphas: tuple[float, ...] = Field((0.001, 0.01, 0.1, 0.5, 1.0), min_length=1, strict=False)

    def owners(self, labels: Ids, clients: int, rng: np.random.Generator, notes: list[str]) -> Ids:
        """(n,) block after block."""
        if min(self.alphas) <= 0:
            raise bad("partition dirichlet-blocks.alphas", "> 0", min(self.alphas))
        if len(self.alphas) > clients:
            raise bad(
                "partition dirichlet-blocks.alphas", f"at most {clients} values, one client each", len(self.alphas)
            )
        blocks = np.array_split(np.arange(clients), len(self.alphas))
        slices = rounded_cuts(by_label(labels, rng), [len(block) for block in blocks])
        owners = np.empty(len(labels), dtype=np.int64)
        for alpha, block, parts in zip(self.alphas, blocks, slices, strict=True):
            counts, fair = _attempts(alpha, len(block), np.array([len(part) for part in parts]), rng)
            if not fair:
                notes.append(
                    f"α = {alpha:g}: no attempt out of {ATTEMPTS} gave every client {SMALLEST:.0%} of the mean."
                )
            for row, part in zip(counts, parts, strict=True):
                owners[part] = np.repeat(block, row)
        return owners


def rounded_cuts(examples: list[Ids], weights: list[int]) -> list[list[Ids]]:
    """Every label's examples cut in proportion to ``weights``: one list of L pieces per weight."""
    share = np.asarray(weights, float)
    cut = [np.split(part, np.cumsum(rounded(share, len(part)))[:-1]) for part in examples]
    return [list(pieces) for pieces in zip(*cut, strict=True)]


def _attempts(alpha: float, users: int, totals: Ids, rng: np.random.Generator) -> tuple[Ids, bool]:
    """(L, users) counts of the first attempt that is fair enough, else of the best; all attempts advance together."""
    mean = totals.sum() / users
    sizes = np.zeros((ATTEMPTS, users))
    shares = np.empty((len(totals), ATTEMPTS, users))
    for label, total in enumerate(totals):
        drawn = _open_shares(rng.dirichlet(np.full(users, alpha), ATTEMPTS), sizes < mean)
        shares[label] = drawn
        sizes += drawn * total
    smallest = sizes.min(axis=1)
    fair = smallest >= SMALLEST * mean
    chosen = int(np.argmax(fair)) if fair.any() else int(np.argmax(smallest))
    counts = np.stack([rounded(row, int(total)) for row, total in zip(shares[:, chosen], totals, strict=True)])
    return counts, bool(fair.any())


def _open_shares(drawn: Floats, open_: Floats) -> Floats:
    """(attempts, users) shares of those who may still take; where underflow left none of them any, equal shares."""
    masked = np.where(open_, drawn, 0.0)
    void = masked.sum(axis=1) <= 0
    masked[void] = np.where(open_[void].any(axis=1, keepdims=True), open_[void], 1.0)
    return np.asarray(masked / masked.sum(axis=1, keepdims=True))
