"""DELTA and FedIS as the paper says them, with loops: draws with replacement, weights, the practical update of p."""

from __future__ import annotations

from math import sqrt


class Delta:
    def __init__(self, n: list[int], alpha: float, mix: float, by: str) -> None:
        self.n, self.alpha, self.mix, self.by = n, alpha, mix, by
        self.p = [1 / len(n)] * len(n)

    def draw(self, A: list[int], coins: list[float]) -> dict[int, float]:
        """The weight of each drawn client's update."""
        N, m = len(self.n), len(coins)
        mixed = {i: (1 - self.mix) * self.p[i] + self.mix / N for i in A}
        total, data = sum(mixed.values()), sum(self.n[i] for i in A)
        weights: dict[int, float] = {}
        for coin in coins:
            below = 0.0
            for i in A:
                below += mixed[i]
                if coin * total < below:
                    weights[i] = weights.get(i, 0.0) + (self.n[i] / data) / (mixed[i] / total) / m
                    break
        return weights

    def learn(self, g: dict[int, list[float]], sigma: dict[int, float]) -> None:
        """After a round: gradients and spreads of the participants S."""
        S = list(g)
        if self.by == "norm":
            z = {i: sigma[i] for i in S}  # here the length of the update
        else:
            mean = [sum(g[i][d] for i in S) / len(S) for d in range(len(g[S[0]]))]
            zeta = {i: sqrt(sum((a - b) ** 2 for a, b in zip(g[i], mean, strict=True))) for i in S}
            z = {i: sqrt(self.alpha * zeta[i] ** 2 + (1 - self.alpha) * sigma[i] ** 2) for i in S}
        rest = 1 - sum(p for j, p in enumerate(self.p) if j not in S)
        if sum(z.values()) > 0:
            for i in S:
                self.p[i] = z[i] / sum(z.values()) * rest
