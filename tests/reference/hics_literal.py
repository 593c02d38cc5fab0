"""HiCS-FL as its paper writes it, with loops: equations 7, 9 and 10, the warm-up and the draw. Slow."""

from __future__ import annotations

import math


def H_hat(delta_b, Temp):
    """Eq. 7: Shannon's entropy of softmax(Δb / Temp)."""
    top = max(delta_b)
    exps = [math.exp((value - top) / Temp) for value in delta_b]
    Z = sum(exps)
    H = 0.0
    for e in exps:
        p = e / Z
        if p > 0:
            H -= p * math.log(p)
    return H


def angle(u, k):
    """arccos of the cosine; of a zero update π/2, of two of them 0."""
    dot = sum(a * b for a, b in zip(u, k, strict=True))
    norm_u, norm_k = math.sqrt(sum(a * a for a in u)), math.sqrt(sum(b * b for b in k))
    if norm_u == 0 or norm_k == 0:
        return 0.0 if norm_u == norm_k else math.pi / 2
    return math.acos(max(-1.0, min(1.0, dot / (norm_u * norm_k))))


def Dist(delta_b, H, lam):
    """Eq. 9 between all pairs."""
    n = len(delta_b)
    table = [[0.0] * n for _ in range(n)]
    for u in range(n):
        for k in range(n):
            if u != k:
                table[u][k] = angle(delta_b[u], delta_b[k]) + lam * abs(H[u] - H[k])
    return table


def ward(points, M):
    """Merge the two groups whose union adds least to the sum of squares, until M are left."""
    groups = [[i] for i in range(len(points))]

    def centre(group):
        return [sum(points[i][d] for i in group) / len(group) for d in range(len(points[0]))]

    while len(groups) > M:
        best = None
        for a in range(len(groups)):
            for b in range(a + 1, len(groups)):
                A, B = groups[a], groups[b]
                apart = sum((x - y) ** 2 for x, y in zip(centre(A), centre(B), strict=True))
                cost = len(A) * len(B) / (len(A) + len(B)) * apart
                if best is None or cost < best[0]:
                    best = (cost, a, b)
        _, a, b = best
        groups[a] += groups.pop(b)
    return groups


def average(table, M):
    """Merge the two groups with the smallest mean distance between their members, until M are left."""
    groups = [[i] for i in range(len(table))]
    while len(groups) > M:
        best = None
        for a in range(len(groups)):
            for b in range(a + 1, len(groups)):
                pairs = [table[i][j] for i in groups[a] for j in groups[b]]
                cost = sum(pairs) / len(pairs)
                if best is None or cost < best[0]:
                    best = (cost, a, b)
        _, a, b = best
        groups[a] += groups.pop(b)
    return groups


def eq10(groups, H, n_k, gamma_t, by_size=True):
    """π_m · p̃_k of each client: the law of one draw of a group, then of a client in it."""
    H_bar = [sum(H[k] for k in group) / len(group) for group in groups]
    pi = [math.exp(gamma_t * h) for h in H_bar]
    law = {}
    for m, group in enumerate(groups):
        for k in group:
            p = n_k[k] / sum(n_k[i] for i in group) if by_size else 1 / len(group)
            law[k] = pi[m] / sum(pi) * p
    return law


def one_round(t, T, N, K, available, delta_b, n_k, *, Temp, lam, gamma0, M=None, linkage="ward", by_size=True):
    """(clients that may be forced, how many of them are, the law of a further draw or None). t = 1 … T.

    delta_b: {client: Δb} of those that have reported.
    """
    S0 = [k for k in available if k not in delta_b]
    forced = min(K, len(S0))
    if forced == min(K, len(available)) or (t <= math.ceil(N / K) and forced > 0):
        return S0, forced, None
    met = [k for k in available if k in delta_b]
    b = [delta_b[k] for k in met]
    H = [H_hat(row, Temp) for row in b]
    table = Dist(b, H, lam)
    groups = (ward if linkage == "ward" else average)(table, min(M or K, len(met)))
    gamma_t = gamma0 * (1 - t / T)
    law = eq10(groups, H, [n_k[k] for k in met], gamma_t, by_size)
    return S0, forced, {met[i]: p for i, p in law.items()}


def chance_of_set(law, S):
    """P(S_t = S) of "while |S_t| < K: draw k, S_t ∪= {k}": a draw of somebody chosen before changes nothing."""
    if not S:
        return 1.0

    def go(chosen, left):
        if not left:
            return 1.0
        new = 1 - sum(law[k] for k in chosen)  # the draws that change S_t
        return sum(law[k] / new * go([*chosen, k], [j for j in left if j != k]) for k in left)

    return go([], list(S))
