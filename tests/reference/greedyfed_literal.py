"""GreedyFed and Shapley values with loops: all permutations, and GTG-Shapley as its pseudo-code has it."""

from __future__ import annotations

from itertools import permutations


def shapley_by_permutations(v, n):
    """The mean marginal of each player over all n! orders."""
    orders, SV = list(permutations(range(n))), [0.0] * n
    for order in orders:
        before = frozenset()
        for k in order:
            SV[k] += (v(before | {k}) - v(before)) / len(orders)
            before = before | {k}
    return SV


def gtg_shapley(v, n, permutation, eps_b, eps_i, most):
    """``permutation(players)`` shuffles; the last ten running means are compared player by player."""
    v0, vN = v(frozenset()), v(frozenset(range(n)))
    if abs(vN - v0) <= eps_b:
        return [0.0] * n
    marginals, means = [], []
    while True:
        for k in range(n):
            pi = [k, *permutation([i for i in range(n) if i != k])]
            row, before, members = [0.0] * n, v0, frozenset()
            for j in pi:
                if abs(vN - before) >= eps_i:
                    members = members | {j}
                    after = v(members)
                else:
                    after = before
                row[j] = after - before
                before = after
            marginals.append(row)
            means.append([sum(m[i] for m in marginals) / len(marginals) for i in range(n)])
        if len(marginals) + n > most:
            return means[-1]
        if len(marginals) >= max(30, n):
            last, largest = means[-1], 0.0
            for one in means[-10:]:
                change = sum(abs(last[i] - one[i]) / (abs(last[i]) + 1e-12) for i in range(n)) / n
                largest = max(largest, change)
            if largest <= 0.05:
                return last


class GreedyFed:
    def __init__(self, N, M, alpha=None):
        self.SV, self.c, self.used = [0.0] * N, [0] * N, [False] * N
        self.M, self.alpha = M, alpha

    def select(self, available):
        """S_t, where no values tie."""
        S = [k for k in available if not self.used[k]][: self.M]
        rest = sorted((k for k in available if self.used[k]), key=lambda k: -self.SV[k])
        return S + rest[: self.M - len(S)]

    def update(self, S, values):
        for k in S:
            self.used[k] = True
            if k in values:
                self.c[k] += 1
                if self.alpha is None:
                    self.SV[k] = ((self.c[k] - 1) * self.SV[k] + values[k]) / self.c[k]
                else:
                    self.SV[k] = self.alpha * self.SV[k] + (1 - self.alpha) * values[k]
