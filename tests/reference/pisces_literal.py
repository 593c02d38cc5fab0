"""Pisces's selection with loops and the released code's order of things; draws are given from outside."""

from __future__ import annotations

import math


class Pisces:
    def __init__(self, B, settings):
        self.B, self.s = B, settings
        self.explored, self.U, self.lag_list, self.latency = set(), {}, {}, {}
        self.strikes = [0] * len(B)
        self.recent = []  # (version at the start, client, loss)
        self.epsilon = settings["epsilon"]

    def score(self, i, m, concurrency):
        lags = self.lag_list.get(i, [])[-self.s["lags"] :]
        tau = sum(lags) / len(lags) if lags else 0
        speed = self.latency.get(i, 1.0) ** -(self.s["speed"] * (1 - m / concurrency))
        return self.U[i] * speed / math.pow(tau + 1, self.s["beta"])

    def select(self, A, places, running, binomial, top, sample):
        if self.s["outliers"]:
            A = [i for i in A if self.strikes[i] < self.s["most"]]
        unexplored = [i for i in A if i not in self.explored]
        explored = [i for i in A if i in self.explored]
        m = min(places, len(A))
        planned = min(len(unexplored), binomial(m, self.epsilon))
        self.epsilon = max(self.epsilon * self.s["decay"], min(self.s["least"], self.s["epsilon"]))
        exploit = min(len(explored), m - planned)
        explore = min(len(unexplored), m - exploit)
        scores = [self.score(i, places, places + running) for i in explored]
        return list(top(explored, scores, exploit)) + list(sample(unexplored, explore))

    def feedback(self, cohort, done, loss, lags, durations, version, concurrency):
        for i in cohort:
            if i not in self.explored and i not in done:
                self.explored.add(i)
                self.U[i] = 0.0
        for i in done:
            self.explored.add(i)
            self.U[i] = self.B[i] * loss[i]
            self.lag_list.setdefault(i, []).append(lags[i])
            self.latency[i] = durations[i]
            self.recent = [entry for entry in self.recent if entry[1] != i]
            self.recent.append((version - lags[i], i, loss[i]))
        if self.s["outliers"]:
            records = [(i, x) for start, i, x in self.recent if start > version - 5]
            if len(records) >= concurrency:
                for i in dbscan_noise(records, 0.5, max(1, concurrency // 2)):
                    self.strikes[i] += 1


def dbscan_noise(records, eps, min_samples):
    """Clients in no cluster: neither a core point nor near one."""
    neighbours = {i: [j for j, y in records if abs(x - y) <= eps] for i, x in records}
    core = {i for i in neighbours if len(neighbours[i]) >= min_samples}
    return [i for i in neighbours if not any(j in core for j in neighbours[i])]
