"""Fed-CBS's measure and its sequential draw, in loops and the paper's symbols."""

from __future__ import annotations

import math


def qcid(counts, M):
    """Σ_b (Σ_{n∈M} q_n α_{n,b} / Σ_{n∈M} q_n − 1/B)²."""
    B = len(counts[0])
    q = sum(sum(counts[n]) for n in M)
    return sum((sum(counts[n][b] for n in M) / q - 1 / B) ** 2 for b in range(B))


def probabilities(counts, drawn, candidates, picks, k, beta, lam, floor):
    """P(c) of the next draw, after the paper's three expressions; factors that cancel are kept."""
    m = len(drawn) + 1

    def power(M, order):
        return max(qcid(counts, M), floor) ** (-beta * order)

    def first(c):
        return power([c], 1) + lam * math.sqrt(3 * math.log(k) / (2 * max(picks[c], 1)))

    if m == 1:
        weight = {c: first(c) for c in candidates}
    elif m == 2:
        weight = {c: power([*drawn, c], 2) / first(drawn[0]) for c in candidates}
    else:
        weight = {c: power([*drawn, c], m) / power(drawn, m - 1) for c in candidates}
    total = sum(weight.values())
    return {c: w / total for c, w in weight.items()}
