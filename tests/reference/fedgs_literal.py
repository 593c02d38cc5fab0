"""FedGS as its paper writes it (Algorithm 1, eq. 10 to 18, Appendix C), with loops and the paper's symbols.

``edges="released"`` and ``normalisation="selected"`` are what the released code does instead.
"""

from __future__ import annotations

from itertools import combinations
from math import exp, inf, sqrt


def dot(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def f_sim(a: list[float], b: list[float], similarity: str) -> float:
    if similarity == "dot":
        return dot(a, b)
    size = sqrt(dot(a, a)) * sqrt(dot(b, b))
    return dot(a, b) / size if size > 0 else 0.0


def similarities(U: list[list[float]], similarity: str, edges: str) -> list[list[float]]:
    """V in [0, 1]."""
    N = len(U)
    V = [[f_sim(U[i], U[j], similarity) for j in range(N)] for i in range(N)]
    if edges == "paper" and similarity == "cosine":  # eq. 11, 12
        return [[max(value, 0.0) for value in row] for row in V]
    if edges == "released":  # the table is filled for i ≠ j only
        for i in range(N):
            V[i][i] = 0.0
    low = min(min(row) for row in V)
    high = max(max(row) for row in V)
    if high <= low:
        return [[1.0] * N for _ in range(N)]
    return [[(value - low) / (high - low) for value in row] for row in V]


def adjacency(V: list[list[float]], edges: str, epsilon: float, sigma2: float) -> list[list[float]]:
    N = len(V)
    R = [[0.0] * N for _ in range(N)]
    for i in range(N):
        for j in range(N):
            if i == j:
                continue
            if edges == "paper":
                R[i][j] = exp(-V[i][j] / sigma2) if V[i][j] >= epsilon else inf
            else:
                R[i][j] = exp(-(V[i][j] ** 2) / sigma2) if V[i][j] > epsilon else inf
    return R


def floyd(R: list[list[float]]) -> list[list[float]]:
    """H, then scaled by its largest finite entry, with that largest where no path leads (released)."""
    N = len(R)
    H = [row[:] for row in R]
    for k in range(N):
        for i in range(N):
            for j in range(N):
                if H[i][k] + H[k][j] < H[i][j]:
                    H[i][j] = H[i][k] + H[k][j]
    largest = max((h for row in H for h in row if h < inf), default=0.0) or 1.0
    return [[h / largest if h < inf else 1.0 for h in row] for row in H]


def graph(U: list[list[float]], similarity: str, edges: str, epsilon: float, sigma2: float) -> list[list[float]]:
    return floyd(adjacency(similarities(U, similarity, edges), edges, epsilon, sigma2))


class FedGS:
    """Counts and graph of N clients."""

    def __init__(self, H: list[list[float]], alpha: float, normalisation: str) -> None:
        self.H, self.alpha, self.normalisation = H, alpha, normalisation
        self.N = len(H)
        self.v = [0] * self.N

    def objective(self, S: list[int], M: int) -> float:
        """Eq. 14, or the released code's."""
        v_bar = sum(self.v) / self.N
        z = [2 * (self.v[k] - v_bar - M / self.N) + 1 for k in range(self.N)]
        pairs = 0.0
        for i in S:
            for j in S:
                if i != j:
                    pairs += self.H[i][j]
        if self.normalisation == "population":
            spread = pairs / (self.N * (self.N - 1))
        else:
            spread = pairs / (M * (M - 1)) if M > 1 else 0.0
        return self.alpha * spread - sum(z[k] for k in S) / (self.N - 1)

    def best(self, A: list[int], M: int) -> tuple[float, list[list[int]]]:
        """The optimum over all sets of min(M, |A|) available clients, and every set that has it."""
        M = min(M, len(A))
        values = [(self.objective(list(S), M), list(S)) for S in combinations(A, M)]
        top = max(value for value, _ in values)
        return top, [S for value, S in values if value > top - 1e-9]

    def weights(self, S: list[int], n: list[int]) -> list[float]:
        """Eq. 18."""
        return [n[k] / sum(n[i] for i in S) for k in S]

    def count(self, S: list[int]) -> None:
        for k in S:
            self.v[k] += 1
