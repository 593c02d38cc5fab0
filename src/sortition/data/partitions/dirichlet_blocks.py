"""Blocks of clients with their own Dirichlet α (HiCS-FL): some blocks nearly balanced, others with one label each."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from pydantic import Field

from sortition.core.arrays import Floats, Ids
from sortition.core.errors import bad
from sortition.data.partitions._rule import PartitionRule, by_label, rounded

Mask = npt.NDArray[np.bool_]
WORK = 40_000  # numbers drawn for a block before its attempts end
SMALLEST = 0.2  # redrawn until the smallest client has this share of the mean


class DirichletBlocks(PartitionRule):
    """Equal blocks of clients, one per entry of ``alphas``, each with its slice of every label.

    Inside a block every label is split by Dir(α · 1) over the block's clients; who already holds the mean gets no more
    of the next label. Redrawn until the smallest has 20 % of the mean, as in the paper; where that does not come (few
    labels, many clients, small α) the best of a bounded number of attempts is taken, noted.
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
            counts, fair = _drawn(alpha, len(block), np.array([len(part) for part in parts]), rng)
            if not fair:
                notes.append(
                    f"α = {alpha:g}: no attempt gave every client {SMALLEST:.0%} of the mean; the best was taken."
                )
            for row, part in zip(counts, parts, strict=True):
                owners[part] = np.repeat(block, row)
        return owners


def rounded_cuts(examples: list[Ids], weights: list[int]) -> list[list[Ids]]:
    """Every label's examples cut in proportion to ``weights``: one list of L pieces per weight."""
    share = np.asarray(weights, float)
    cut = [np.split(part, np.cumsum(rounded(share, len(part)))[:-1]) for part in examples]
    return [list(pieces) for pieces in zip(*cut, strict=True)]


def _drawn(alpha: float, users: int, totals: Ids, rng: np.random.Generator) -> tuple[Ids, bool]:
    """(L, users) counts of the first attempt that is fair enough, else of the best, and whether it is fair."""
    left = int(np.clip(WORK // (users * len(totals)), 8, 1000))
    best, shares = -1.0, np.empty((len(totals), users))
    while left > 0 and best < SMALLEST:
        some = min(left, 32)  # so many attempts advance together
        fairness, tried = _attempts(alpha, users, totals, some, rng)
        first = int(np.argmax(np.minimum(fairness, SMALLEST)))
        if fairness[first] > best:
            best, shares = float(fairness[first]), tried[:, first]
        left -= some
    counts = np.stack([rounded(row, int(total)) for row, total in zip(shares, totals, strict=True)])
    return counts, best >= SMALLEST


def _attempts(alpha: float, users: int, totals: Ids, attempts: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """(attempts,) smallest size over the mean, and (L, attempts, users) shares of each label."""
    mean = totals.sum() / users
    sizes = np.zeros((attempts, users))
    shares = np.empty((len(totals), attempts, users))
    for label, total in enumerate(totals):
        shares[label] = _open_shares(alpha, sizes < mean, rng)
        sizes += shares[label] * total
    return sizes.min(axis=1) / mean, shares


def _open_shares(alpha: float, may: Mask, rng: np.random.Generator) -> Floats:
    """(attempts, users) Dir(α · 1) over those who may still take.

    In logarithms, since at α = 0.001 the shares themselves underflow: ln G = ln Gamma(α + 1) − Exp(1) / α.
    """
    may = may | ~may.any(axis=1, keepdims=True)
    logs = np.log(rng.standard_gamma(alpha + 1, may.shape)) - rng.standard_exponential(may.shape) / alpha
    logs = np.where(may, logs, -np.inf)
    shares = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))
