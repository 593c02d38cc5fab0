"""Clustered sampling's two algorithms with loops and fractions, and the second as it was released. Slow."""

from __future__ import annotations

from fractions import Fraction


def algorithm_1(n, m):
    """Pour m·p_i of each client, the largest first, into m urns of capacity 1. Returns r[k][i]."""
    M = sum(n)
    r = [[Fraction(0)] * len(n) for _ in range(m)]
    k = 0
    for i in sorted(range(len(n)), key=lambda i: -n[i]):
        left = Fraction(m * n[i], M)
        while left > 0:
            u = min(1 - sum(r[k]), left)
            r[k][i] += u
            left -= u
            if sum(r[k]) == 1:
                k += 1
    return r


def ward_merges(points):
    """The merges of Ward's method, each (left, right) with new groups numbered n, n + 1, …"""
    n = len(points)
    alive = {i: [i] for i in range(n)}
    merges = []

    def centre(group):
        return [sum(points[i][d] for i in group) / len(group) for d in range(len(points[0]))]

    while len(alive) > 1:
        best = None
        for a in alive:
            for b in alive:
                if a < b:
                    A, B = alive[a], alive[b]
                    apart = sum((x - y) ** 2 for x, y in zip(centre(A), centre(B), strict=True))
                    cost = len(A) * len(B) / (len(A) + len(B)) * apart
                    if best is None or cost < best[0]:
                        best = (cost, a, b)
        _, a, b = best
        alive[n + len(merges)] = alive.pop(a) + alive.pop(b)
        merges.append((a, b))
    return merges


def cut(merges, q, capacity):
    """The largest subtrees whose weight Σ q_i is at most the capacity (single clients always)."""
    n = len(merges) + 1
    members = {i: [i] for i in range(n)}
    for step, (a, b) in enumerate(merges):
        members[n + step] = members[a] + members[b]
    parent = {}
    for step, (a, b) in enumerate(merges):
        parent[a] = parent[b] = n + step
    fits = {node: node < n or sum(q[i] for i in group) <= capacity for node, group in members.items()}
    return [sorted(members[node]) for node in members if fits[node] and not fits.get(parent.get(node), False)]


def algorithm_2(n, m, merges):
    """Groups of weight at most 1/m; the heaviest open an urn each, members of the others fill the room left.

    A client with m p_i ≥ 1 has ⌊m p_i⌋ urns of its own before. Members of a group are taken in the order of their ids.
    """
    M = sum(n)
    mass = [Fraction(m * size, M) for size in n]
    r = []
    for i, own in enumerate(mass):
        r += [[Fraction(int(j == i)) for j in range(len(n))]] * int(own)
        mass[i] = own - int(own)
    urns = m - len(r)
    groups = cut(merges, mass, 1)
    groups.sort(key=lambda group: (sum(mass[i] for i in group), group[0]))
    seeds, others = groups[len(groups) - urns :], groups[: len(groups) - urns]
    shared = [[mass[i] if i in seed else Fraction(0) for i in range(len(n))] for seed in seeds]
    k = 0
    for group in others:
        for i in group:
            left = mass[i]
            while left > 0:
                u = min(1 - sum(shared[k]), left)
                shared[k][i] += u
                left -= u
                if sum(shared[k]) == 1:
                    k += 1
    return r + shared


def algorithm_2_as_released(n, m, merges):
    """Without urns of their own for large clients; each urn is scaled to 1 in the end, whatever it holds."""
    M = sum(n)
    mass = [Fraction(m * size, M) for size in n]
    groups = cut(merges, mass, 1)
    groups.sort(key=lambda group: (sum(mass[i] for i in group), group[0]))
    seeds, others = groups[len(groups) - m :], groups[: len(groups) - m]
    r = [[mass[i] if i in seed else Fraction(0) for i in range(len(n))] for seed in seeds]
    k = 0
    for group in others:
        for i in group:
            left = mass[i]
            while left > 0 and k < m:
                u = min(max(1 - sum(r[k]), 0), left)
                r[k][i] += u
                left -= u
                if sum(r[k]) >= 1:
                    k += 1
    return [[value / sum(row) for value in row] for row in r]
