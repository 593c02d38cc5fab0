"""LongFed as its paper says it: Algorithms 1 and 2 with loops and the paper's symbols. Slow on purpose.

One repair: x includes the candidate (read word for word, the fairness term is the same for all candidates).
Two additions of ours for clients that were not there at t = 1: only the available are candidates, and a pair that never
trained together is as far apart as its last known gradients.
"""

from __future__ import annotations

import math
from fractions import Fraction


def norm(g, h):
    return math.sqrt(sum((a - b) ** 2 for a, b in zip(g, h, strict=True)))


class LongFed:
    def __init__(self, N, epsilon, delta, lam, n=None):
        self.V, self.epsilon, self.delta, self.lam = range(N), epsilon, delta, lam
        self.n = n  # data sizes: weights="data"; None: a_j = |C_j|
        self.Z, self.Q = [0.0] * N, [0.0] * N
        self.d = {}  # (i, j) -> distance, eq. 5
        self.g = {}  # last known gradients
        self.count = [0] * N
        self.t = 0

    def distance(self, i, j):
        if i == j:
            return 0.0
        return self.d[i, j] if (i, j) in self.d else norm(self.g[i], self.g[j])

    def learn(self, gradients):
        for i in gradients:
            for j in gradients:
                self.d[i, j] = norm(gradients[i], gradients[j])
            self.g[i] = gradients[i]

    def mass(self, i):
        return 1.0 if self.n is None else self.n[i] / (sum(self.n) / len(self.n))

    def reference(self, i, known):  # eq. 19
        best, widest = None, -1.0
        for j in known:
            gap = abs(Fraction(self.count[i], max(self.t, 1)) - Fraction(self.count[j], max(self.t, 1)))
            if self.distance(i, j) <= self.epsilon and gap > widest:
                best, widest = j, gap
        return best

    def F(self, S, known):  # eq. 23
        farthest = {i: max(self.mass(i) * self.distance(i, j) for j in self.R0) for i in known}  # v0 of eq. 25
        total = 0.0
        for i in known:
            served = min([self.mass(i) * self.distance(i, j) for j in S] + [farthest[i]])
            x_i, x_k = float(i in S), float(self.k[i] in S)
            y, z = x_i - x_k - self.delta, x_k - x_i - self.delta  # eq. 20
            total += served + self.lam * (self.Z[i] * y + self.Q[i] * z)
        return total

    def select(self, available, K):  # Algorithm 1
        known = sorted(self.g)
        self.k = {i: self.reference(i, known) for i in known}
        self.R0 = [c for c in available if c in self.g]
        S, R = [], list(self.R0)
        while R and len(S) < K:
            best, least = None, math.inf
            for c in R:
                value = self.F([*S, c], known)
                if value < least - 1e-9 * (1 + abs(least) if math.isfinite(least) else 0):
                    best, least = c, value
            S.append(best)
            R.remove(best)
        a = dict.fromkeys(S, 0.0)
        for i in known:  # a_j = |C_j|
            nearest = min(S, key=lambda j: (self.distance(i, j), S.index(j)))
            a[nearest] += self.mass(i)
        return S, [a[j] / sum(a.values()) for j in S]

    def first(self, gradients):  # Algorithm 2 at t = 1: all clients
        for i in gradients:
            self.count[i] += 1
        self.t = 1
        self.learn(gradients)

    def observe(self, S, gradients):  # Algorithm 2, after the uploads
        for i in self.k:  # eq. 13, with the k of the selection
            x_i, x_k = float(i in S), float(self.k[i] in S)
            self.Z[i] = max(self.Z[i] + x_i - x_k - self.delta, 0.0)
            self.Q[i] = max(self.Q[i] + x_k - x_i - self.delta, 0.0)
        for i in S:
            self.count[i] += 1
        self.t += 1
        self.learn(gradients)
