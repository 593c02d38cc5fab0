"""Blocks of clients with their own Dirichlet α (HiCS-FL): some blocks nearly balanced, others with one label each."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from pydantic import Field

from sortition.core.arrays import Floats, Ids
from sortition.core.errors import bad
from sortition.data.partitions._rule import PartitionRule, apportion, shuffle_by_label

Mask = npt.NDArray[np.bool_]
WORK = 40_000  # numbers drawn for a block before its attempts end
BATCH = 32  # attempts that advance together
FAIR_SHARE = 0.2  # redrawn until the smallest client has this share of the mean size


class DirichletBlocks(PartitionRule):
    """Equal blocks of clients, one per entry of ``alphas``, each with its slice of every label.

    Inside a block every label is split by Dir(α · 1) over the block's clients; a client that already holds the mean
    gets no more of the next label. The split is redrawn until the smallest client has 20 % of the mean, as in the
    paper; where that does not happen (few labels, many clients, small α) the best of a bounded number of attempts is
    taken, and a note says so.

    Attributes:
        alphas: α of each block.
    """

    alphas: tuple[float, ...] = Field((0.001, 0.01, 0.1, 0.5, 1.0), min_length=1, strict=False)

    def owners(self, labels: Ids, clients: int, rng: np.random.Generator, notes: list[str]) -> Ids:
        """Return owners (n,), drawn block after block."""
        if min(self.alphas) <= 0:
            raise bad("partition dirichlet-blocks.alphas", "> 0", min(self.alphas))
        if len(self.alphas) > clients:
            rule = f"at most {clients} values, one client each"
            raise bad("partition dirichlet-blocks.alphas", rule, len(self.alphas))
        blocks = np.array_split(np.arange(clients), len(self.alphas))
        blocks_of_examples = _cut_labels(shuffle_by_label(labels, rng), [len(block) for block in blocks])
        owners = np.empty(len(labels), dtype=np.int64)
        for alpha, block, examples_by_label in zip(self.alphas, blocks, blocks_of_examples, strict=True):
            totals = np.array([len(examples) for examples in examples_by_label])
            counts, is_fair = _draw_counts(alpha, len(block), totals, rng)
            if not is_fair:
                notes.append(
                    f"α = {alpha:g}: no attempt gave every client {FAIR_SHARE:.0%} of the mean; the best was taken."
                )
            for label_counts, examples in zip(counts, examples_by_label, strict=True):
                owners[examples] = np.repeat(block, label_counts)
        return owners


def _cut_labels(examples_by_label: list[Ids], weights: list[int]) -> list[list[Ids]]:
    """Cut every label's examples in proportion to ``weights``; return one list of L pieces per weight."""
    shares = np.asarray(weights, float)
    pieces_by_label = []
    for examples in examples_by_label:
        ends = np.cumsum(apportion(shares, len(examples)))
        pieces_by_label.append(np.split(examples, ends[:-1]))
    return [list(pieces) for pieces in zip(*pieces_by_label, strict=True)]


def _draw_counts(alpha: float, clients: int, totals: Ids, rng: np.random.Generator) -> tuple[Ids, bool]:
    """Draw counts (L, clients): of the first attempt that is fair enough, else of the best; and whether it is fair."""
    attempts_left = int(np.clip(WORK // (clients * len(totals)), 8, 1000))
    best_fairness = -1.0
    best_shares = np.empty((len(totals), clients))
    while attempts_left > 0 and best_fairness < FAIR_SHARE:
        n_attempts = min(attempts_left, BATCH)
        fairness, shares = _attempt_shares(alpha, clients, totals, n_attempts, rng=rng)
        best = int(np.argmax(np.minimum(fairness, FAIR_SHARE)))
        if fairness[best] > best_fairness:
            best_fairness = float(fairness[best])
            best_shares = shares[:, best]
        attempts_left -= n_attempts
    counts = np.stack([apportion(row, int(total)) for row, total in zip(best_shares, totals, strict=True)])
    return counts, best_fairness >= FAIR_SHARE


def _attempt_shares(
    alpha: float, clients: int, totals: Ids, n_attempts: int, *, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Return the smallest size over the mean, (attempts,), and the shares of each label, (L, attempts, clients)."""
    mean_size = totals.sum() / clients
    sizes = np.zeros((n_attempts, clients))
    shares = np.empty((len(totals), n_attempts, clients))
    for label, total in enumerate(totals):
        shares[label] = _draw_shares(alpha, sizes < mean_size, rng)
        sizes += shares[label] * total
    return sizes.min(axis=1) / mean_size, shares


def _draw_shares(alpha: float, may_take: Mask, rng: np.random.Generator) -> Floats:
    """Draw Dir(α · 1) over the clients that may still take, (attempts, clients).

    In logarithms, since at α = 0.001 the shares themselves underflow: ln G = ln Gamma(α + 1) − Exp(1) / α.
    """
    may_take = may_take | ~may_take.any(axis=1, keepdims=True)
    logs = np.log(rng.standard_gamma(alpha + 1, may_take.shape)) - rng.standard_exponential(may_take.shape) / alpha
    logs = np.where(may_take, logs, -np.inf)
    shares = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))
