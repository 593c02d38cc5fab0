"""DivFL as its paper says it: greedy facility location on stored gradients, with loops."""

from __future__ import annotations

import math


class DivFL:
    def __init__(self):
        self.gradient = {}  # last known gradient of every client met

    def refresh(self, gradients):
        self.gradient.update(gradients)

    def distance(self, i, j):
        return math.sqrt(sum((a - b) ** 2 for a, b in zip(self.gradient[i], self.gradient[j], strict=True)))

    def G(self, S):
        return sum(min(self.distance(k, i) for i in S) for k in self.gradient)

    def select(self, available, K):
        S, R = [], [c for c in available if c in self.gradient]
        while R and len(S) < K:
            best, least = None, math.inf
            for c in R:
                value = self.G([*S, c])
                if value < least - 1e-9:
                    best, least = c, value
            S.append(best)
            R.remove(best)
        return S
