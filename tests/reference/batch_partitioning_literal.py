"""Batch partitioning by enumeration of all legal sets, in the paper's symbols, and the formula of the mean cohort."""

from __future__ import annotations

from itertools import combinations
from math import comb


def legal_sets(batches, K):
    """All unions of K/T whole batches."""
    T = len(batches[0])
    return [frozenset().union(*some) for some in combinations(map(frozenset, batches), K // T)]


def candidates(batches, K, available, counts, rule):
    """The sets of users that a rule may choose; empty if the round is skipped."""
    legal = [users for users in legal_sets(batches, K) if users <= set(available)]
    if not legal or rule == "random":
        return legal
    if rule == "least-used":
        fewest = min(sum(counts[u] for u in users) for users in legal)
        return [users for users in legal if sum(counts[u] for u in users) == fewest]
    there = [u for batch in batches if set(batch) <= set(available) for u in batch]
    fewest = min(counts[u] for u in there)
    return [users for users in legal if any(counts[u] == fewest for u in users)]


def mean_cohort(N, K, T, p):
    """C = K (1 − Σ_{i > N/T − K/T} C(N/T, i) q^i (1 − q)^{N/T − i}), q = 1 − (1 − p)^T."""
    q, n, k = 1 - (1 - p) ** T, N // T, K // T
    return K * (1 - sum(comb(n, i) * q**i * (1 - q) ** (n - i) for i in range(n - k + 1, n + 1)))
