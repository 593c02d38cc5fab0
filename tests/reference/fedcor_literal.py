"""FedCor as its paper prints it: dense covariance, loops, the paper's symbols. Slow, and of nothing but numpy.

What the paper leaves open is as in the released code: σ² on the diagonal, X drawn from N(0, 1/d), embeddings kept in
single precision. A sample is a dictionary {client: Δl_k}.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

Sample = dict[int, float]


def algorithm_1(mu: np.ndarray, Sigma: np.ndarray, alpha: np.ndarray, p: np.ndarray, U: list[int], C: int) -> list[int]:
    """Client selection strategy with GP: C clients of U. The sum of line 7 runs over everybody."""
    N, mu, Sigma = len(p), mu.copy(), Sigma.copy()
    K: list[int] = []
    P = list(U)
    while len(K) < C and P:
        best, k_star, mu_star = math.inf, -1, mu
        for k in P:
            if Sigma[k, k] <= 0:
                continue
            change = mu[k] - alpha[k] * math.sqrt(Sigma[k, k])  # line 4, eq. 9
            mu_tilde = np.array([mu[i] + Sigma[i, k] / Sigma[k, k] * (change - mu[k]) for i in range(N)])  # line 5
            objective = sum(p[i] * mu_tilde[i] for i in range(N))  # line 7, eq. 10
            if objective < best:
                best, k_star, mu_star = objective, k, mu_tilde
        K.append(k_star)
        P.remove(k_star)
        Sigma_tilde = Sigma.copy()
        for i in range(N):
            for j in range(N):
                Sigma_tilde[i, j] = Sigma[i, j] - Sigma[i, k_star] * Sigma[k_star, j] / Sigma[k_star, k_star]
        mu, Sigma = mu_star, Sigma_tilde  # line 9, eq. 11
    return K


def log_p(sample: Sample, X: np.ndarray, sigma: float) -> float:
    """log p(Δl | X) of the observed clients; X holds a row a client."""
    rows = sorted(sample)
    y = np.array([sample[k] for k in rows])
    Sigma = X[rows] @ X[rows].T + sigma**2 * np.eye(len(rows))
    return float(
        -0.5 * (len(rows) * math.log(2 * math.pi) + np.linalg.slogdet(Sigma)[1] + y @ np.linalg.inv(Sigma) @ y)
    )


def update(X: np.ndarray, samples: list[tuple[float, Sample]], sigma: float, rate: float, steps: int) -> np.ndarray:
    """Eq. 16: Adam from X on Φ(X) = Σ γ^m log p(Δl | X) (eq. 17), with its dense gradient."""
    X, m, v = X.astype(float), np.zeros_like(X, float), np.zeros_like(X, float)
    for step in range(1, steps + 1):
        gradient = np.zeros_like(X)
        for discount, sample in samples:
            rows = sorted(sample)
            y = np.array([sample[k] for k in rows])
            inverse = np.linalg.inv(X[rows] @ X[rows].T + sigma**2 * np.eye(len(rows)))
            G = inverse - np.outer(inverse @ y, inverse @ y)
            gradient[rows] -= discount * (G @ X[rows])
        for k in range(len(X)):
            for j in range(X.shape[1]):
                g = gradient[k, j]
                m[k, j] = 0.9 * m[k, j] + 0.1 * g
                v[k, j] = 0.999 * v[k, j] + 0.001 * g * g
                X[k, j] += rate * (m[k, j] / (1 - 0.9**step)) / (math.sqrt(v[k, j] / (1 - 0.999**step)) + 1e-8)
    return X


class FedCorLiteral:
    """Algorithm 2 with a warm-up. ``loss(ids, S)`` gives {k: l_k} under w^t or, with a cohort S, under w^{t+1}(S)."""

    def __init__(self, n: list[int], d: int, W: int, dt: int, beta: float, M: tuple[int, int], theta: float,
                 sigma: float, rate: float, steps: tuple[int, int], each_round: bool) -> None:  # fmt: skip
        self.p = np.array(n) / sum(n)
        self.X = np.zeros((len(n), d), np.float32)
        self.met: set[int] = set()
        self.tau = [0] * len(n)
        self.samples: list[tuple[int, Sample]] = []
        self.last: Sample | None = None
        self.W, self.dt, self.beta, self.M, self.theta = W, dt, beta, M, theta
        self.sigma, self.rate, self.steps, self.each_round = sigma, rate, steps, each_round

    def round(
        self,
        t: int,
        U: list[int],
        C: int,
        rng: np.random.Generator,
        loss: Callable[[list[int], list[int] | None], Sample],
    ) -> list[int]:
        """K_t for 0-based t."""
        C = min(C, len(U))
        few = sum(any(k in sample for _, sample in self.samples) or k in self.met for k in U) < C
        collects = t >= self.W and (t % self.dt == 0 or few)
        fresh = False
        if t <= self.W or collects:
            now = loss(U, None)
            if self.last is not None:
                both = [k for k in U if k in self.last]
                if both:
                    self.samples.append((t, {k: now[k] - self.last[k] for k in both}))
                    fresh = True
            self.last = now if t < self.W else None
            if collects:  # lines 4 to 7, S = 1
                S = self.draw(U, C, rng)
                trial = loss(U, S)
                self.samples.append((t, {k: trial[k] - now[k] for k in U}))
                fresh = True
        if (fresh or (self.samples and not self.met)) and (self.each_round or t >= self.W):
            self.train(t, rng)
            self.tau = [0] * len(self.tau)  # line 9
        if t < self.W:
            return self.draw(U, C, rng)
        alpha = np.array([self.beta**tau for tau in self.tau])
        X = self.X.astype(float)
        Sigma = X @ X.T + self.sigma**2 * np.eye(len(X))  # line 12
        K = algorithm_1(np.zeros(len(X)), Sigma, alpha, self.p, U, C)
        for k in K:
            self.tau[k] += 1  # line 14
        return K

    def train(self, t: int, rng: np.random.Generator) -> None:
        """Line 11."""
        phase = 0 if t <= self.W or not self.met else 1
        self.samples = self.samples[-1 - self.M[phase] :]
        newest = self.samples[-1][0]
        for k in sorted({k for _, sample in self.samples for k in sample} - self.met):
            self.X[k] = rng.standard_normal(self.X.shape[1]) / math.sqrt(self.X.shape[1])
            self.met.add(k)
        weighted = [(self.theta ** (newest - at), sample) for at, sample in self.samples]
        self.X = update(self.X, weighted, self.sigma, self.rate, self.steps[phase]).astype(np.float32)

    @staticmethod
    def draw(U: list[int], C: int, rng: np.random.Generator) -> list[int]:
        """A uniform subset."""
        if len(U) <= C:
            return list(U)
        return [U[i] for i in rng.choice(len(U), size=C, replace=False, shuffle=False)]
