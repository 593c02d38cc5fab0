"""TiFL's Algorithm 2 and its profiling with loops and the paper's symbols; the tier is drawn by a number given."""

from __future__ import annotations

import math


class TiFL:
    def __init__(self, n_clients, m, I, credits, sync_rounds, T_max, printed):  # noqa: E741
        self.N, self.m, self.I, self.start = n_clients, m, I, credits
        self.sync_rounds, self.T_max, self.printed = sync_rounds, T_max, printed
        self.RT, self.measured = [0.0] * n_clients, [0] * n_clients
        self.P = [1 / m] * m
        self.Credits = [credits] * m
        self.A = [0.0] * m
        self.current, self.looked = None, None

    def to_profile(self, available):
        return [i for i in available if self.measured[i] < self.sync_rounds]

    def profile(self, asked, T):
        for i in asked:
            if i in T:
                self.RT[i] += min(T[i], self.T_max)
                self.measured[i] += 1
            elif self.T_max < math.inf:
                self.RT[i] += self.T_max
                self.measured[i] += 1

    def tiers(self):
        """Client → tier, without dropouts."""
        ok = [i for i in range(self.N) if self.measured[i] >= self.sync_rounds]
        ok = [i for i in ok if self.T_max == math.inf or self.RT[i] < self.sync_rounds * self.T_max * (1 - 1e-9)]
        ok.sort(key=lambda i: (float(f"{self.RT[i] / self.measured[i]:.9g}"), i))
        tiers = {}
        for rank, i in enumerate(ok):
            tiers[i] = rank * self.m // len(ok)
        return tiers

    def looks(self, r):
        return self.looked is None or r - self.looked >= self.I

    def evaluate(self, r, tiers, accuracies, sizes):
        """The accuracies of those who answered; then perhaps ChangeProbs."""
        now = list(self.A)
        for t in range(self.m):
            members = [i for i in accuracies if tiers[i] == t]
            if members:
                now[t] = sum(sizes[i] * accuracies[i] for i in members) / sum(sizes[i] for i in members)
        if self.current is not None and now[self.current] <= self.A[self.current] * (1 + 1e-9):
            self.change_probs(now)
        self.A, self.looked = now, r

    def change_probs(self, A):
        alive = [t for t in range(self.m) if self.Credits[t] > 0]
        alive.sort(key=lambda t: (float(f"{A[t]:.9g}"), t))
        n = len(alive)
        self.P = [0.0] * self.m
        for i, t in enumerate(alive, start=1):
            if self.printed and n > 1:
                self.P[t] = (n - i) / (n * (n - 1) / 2)
            else:
                self.P[t] = (n - (i - 1)) / (n * (n + 1) / 2)

    def tier(self, there, u):
        """The tier at the number u in [0, 1)."""
        usable = [t for t in there if self.Credits[t] > 0]
        if not usable:
            self.Credits = [self.start] * self.m
            usable = list(there)
        weight = [self.P[t] if t in usable else 0.0 for t in range(self.m)]
        if sum(weight) == 0:
            weight = [1.0 if t in usable else 0.0 for t in range(self.m)]
        at, passed = u * sum(weight), 0.0
        for t in range(self.m):
            passed += weight[t]
            if at < passed:
                self.current = t
                break
        self.Credits[self.current] -= 1
        return self.current
