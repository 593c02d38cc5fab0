"""FedDance's utility with loops, a client at a time."""

from __future__ import annotations

import math


class FedDance:
    def __init__(self, N, settings):
        self.s, self.N = settings, N
        self.checkins = {m: [] for m in range(N)}  # one entry a round since the first
        self.loss, self.accuracy, self.J = {}, {m: [] for m in range(N)}, {}
        self.mean_I = self.mean_A = 1.0
        self.R = 0

    def slope(self, m):
        hist = self.accuracy[m][-self.s["beta"] :]
        if len(hist) < 2:
            return None
        A = (hist[-1] - hist[0]) / (len(hist) - 1)
        return max(abs(A) if self.s["falling"] == "size" else A, 1e-6)

    def utility(self, m):
        history = self.checkins[m][-self.s["K_h"] :]
        rate = sum(history) / len(history) if history else 0.5
        V = 1 - math.exp(-rate * self.s["K"])
        I = self.loss.get(m, self.mean_I)  # noqa: E741
        A = self.slope(m)
        A = self.mean_A if A is None else A
        return V * I * A * (1 + math.log10(self.R + 1) / (10 * (1 + self.J.get(m, 0))))

    def select(self, available, n, top, at_work=()):
        self.R += 1
        chosen = top(available, [self.utility(m) for m in available], n)
        for m in range(self.N):
            there = m in available or m in at_work
            if self.checkins[m] or there:
                self.checkins[m].append(int(there))
        return chosen

    def feedback(self, cohort, done, loss, accuracy):
        for m in cohort:
            self.J[m] = self.R
        for m in done:
            self.loss[m] = loss[m]
            self.accuracy[m].append(accuracy[m])
        if done:
            self.mean_I = sum(loss[m] for m in done) / len(done)
        slopes = [self.slope(m) for m in done if self.slope(m) is not None]
        if slopes:
            self.mean_A = sum(slopes) / len(slopes)
