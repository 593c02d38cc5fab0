"""Optimal client sampling as its paper says it, with loops: the closed form, AOCS, and the draw."""

from __future__ import annotations


def exact(u: list[float], m: int) -> list[float]:
    """Equation 7; u_i > 0 and n > m."""
    n = len(u)
    by_length = sorted(range(n), key=lambda i: u[i])
    l_best = 0
    for l in range(1, n + 1):  # noqa: E741
        smallest = [u[i] for i in by_length[:l]]
        if 0 < m + l - n <= sum(smallest) / smallest[-1] + 1e-12:
            l_best = l
    p = [1.0] * n
    total = sum(u[i] for i in by_length[:l_best])
    for i in by_length[:l_best]:
        p[i] = (m + l_best - n) * u[i] / total
    return p


def aocs(u: list[float], m: int, j_max: int) -> list[float]:
    """Algorithm 2; of the clients only sums reach the server."""
    n = len(u)
    p = [min(m * one / sum(u), 1.0) for one in u]
    for _ in range(j_max):
        I = sum(1 for one in p if one < 1)  # noqa: E741
        P = sum(one for one in p if one < 1)
        if P == 0:
            return p
        C = (m - n + I) / P
        p = [min(C * one, 1.0) if one < 1 else one for one in p]
        if C <= 1:
            return p
    return p


def drawn(p: list[float], w: list[float], coins: list[float]) -> dict[int, float]:
    """The weight of each client's update in G."""
    return {i: w[i] / p[i] for i in range(len(p)) if coins[i] < p[i]}
