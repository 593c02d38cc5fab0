"""F3AST as its paper says it, with loops: rates of participation, the largest marginals, weights p_k / r_k."""

from __future__ import annotations


class F3AST:
    def __init__(self, n: list[int], beta: float, K: int, released: bool = False) -> None:
        self.p = [size / sum(n) for size in n]
        self.beta, self.K, self.released = beta, K, released
        self.r = [p if released else min(1.0, K * p) for p in self.p]

    def round(self, A: list[int]) -> tuple[list[int], list[float]]:
        """S_t and the weights of Δ_k, in the order of choice."""
        S: list[int] = []
        while len(S) < min(self.K, len(A)):
            best, best_score = None, -1.0
            for k in A:
                score = self.p[k] ** 2 / self.r[k] ** 2  # −∂H/∂r_k
                if k not in S and score > best_score * (1 + 1e-9):
                    best, best_score = k, score
            S.append(best)
        for k in range(len(self.r)):
            self.r[k] = (1 - self.beta) * self.r[k] + (self.beta if k in S else 0.0)
        return S, [self.p[k] / self.r[k] / (self.K if self.released else 1) for k in S]
