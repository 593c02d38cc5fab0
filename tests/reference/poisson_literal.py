"""Poisson sampling as the paper says it, with loops: a coin a client, and the estimator with a fixed denominator."""

from __future__ import annotations


def sample(users: list[int], q: float, coins: list[float]) -> list[int]:
    """C_t: each user independently with probability q."""
    C = []
    for position, user in enumerate(users):
        if coins[position] < q:
            C.append(user)
    return C


def estimate(C: list[int], w: dict[int, float], q: float) -> dict[int, float]:
    """The weight of each user's update in f̃_f = Σ_{k∈C} w_k Δ_k / (qW)."""
    W = sum(w.values())
    return {k: w[k] / (q * W) for k in C}
