"""CS-UCB-Q (Xia et al. 2020) in loops and the paper's symbols."""

from __future__ import annotations

import math


class CSUCBQ:
    def __init__(self, K, c, beta, tau_max):
        self.K, self.c, self.beta, self.tau_max = K, c, beta, tau_max
        self.D = [0.0] * K
        self.b = [0] * K
        self.taus = [[] for _ in range(K)]
        self.t = 0

    def skip(self):
        """A round in which nobody is there."""
        self._advance()
        self.b = [0] * self.K

    def _advance(self):
        self.t += 1
        for k in range(self.K):
            self.D[k] = max(self.D[k] + self.c[k] - self.b[k], 0.0)

    def choose(self, available, m):
        self._advance()
        score = {}
        for k in available:
            z = len(self.taus[k])
            if z == 0:
                y = 1.0
            else:
                reward = sum(1 - min(tau, self.tau_max) / self.tau_max for tau in self.taus[k]) / z
                y = min(reward + math.sqrt(2 * math.log(self.t) / z), 1.0)
            score[k] = round((1 - self.beta) * y + self.beta * self.D[k], 9)
        chosen = sorted(available, key=lambda k: (-score[k], k))[:m]
        self.b = [1 if k in chosen else 0 for k in range(self.K)]
        return chosen

    def learn(self, taus):
        for k, tau in taus.items():
            self.taus[k].append(tau)
