"""CA-Fed as its paper says it, with loops: estimates from counts, ε(q) over all clients, two passes of pruning."""

from __future__ import annotations


def epsilon(q, pi, alpha, F, kappa):
    """Σ p_k F_k + κ Γ d_TV(α, p)², p_k = π_k q_k / Σ π_h q_h."""
    total = sum(pi[k] * q[k] for k in range(len(q)))
    p = [pi[k] * q[k] / total for k in range(len(q))]
    d_tv = 0.5 * sum(abs(alpha[k] - p[k]) for k in range(len(q)))
    return sum(p[k] * F[k] for k in range(len(q))) + kappa * max(F) * d_tv**2


def prune(q, order, pi, alpha, F, kappa, tol):
    for k in order:
        without = list(q)
        without[k] = 0.0
        if not any(pi[h] * without[h] > 1e-9 for h in range(len(q))):
            continue
        now, then = epsilon(q, pi, alpha, F, kappa), epsilon(without, pi, alpha, F, kappa)
        if q[k] > 0 and now - then >= tol + 1e-9 * abs(now):
            q = without
    return q


class CAFed:
    def __init__(self, n, kappa, tol, s):
        self.alpha = [size / sum(n) for size in n]
        self.kappa, self.tol, self.s = kappa, tol, s
        self.F = [None] * len(n)
        self.history = []  # the sets of available clients from the first round on

    def estimates(self, k):
        moves = {(a, b): 1 for a in (0, 1) for b in (0, 1)}
        for before, after in zip(self.history, self.history[1:], strict=False):
            moves[int(k in before), int(k in after)] += 1
        p11 = moves[1, 1] / (moves[1, 1] + moves[1, 0])
        p00 = moves[0, 0] / (moves[0, 0] + moves[0, 1])
        return (moves[0, 1] + moves[1, 1]) / sum(moves.values()), p11 + p00 - 1

    def round(self, A, losses):
        """{k: q_k} of the participants."""
        if self.history or A:
            self.history.append(set(A))
        if not A:
            return {}
        for k in A:
            self.F[k] = losses[k] if self.F[k] is None else self.s * self.F[k] + (1 - self.s) * losses[k]
        seen = [f for f in self.F if f is not None]
        F = [sum(seen) / len(seen) if f is None else f for f in self.F]
        both = [self.estimates(k) for k in range(len(self.F))]
        pi, correlation = [b[0] for b in both], [b[1] for b in both]
        q = [self.alpha[k] / pi[k] for k in range(len(F))]
        sticky = sorted(range(len(F)), key=lambda k: -float(f"{abs(correlation[k]):.9f}"))
        rare = sorted(range(len(F)), key=lambda k: float(f"{pi[k]:.9f}"))
        for order in (sticky, rare):
            q = prune(q, order, pi, self.alpha, F, self.kappa, self.tol)
        return {k: q[k] for k in A if q[k] > 0}
