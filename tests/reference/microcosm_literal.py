"""Microcosm as docs/methods/microcosm.md writes it, with loops and its symbols; weights by trying every support."""

from __future__ import annotations

from itertools import combinations
from math import log, sqrt

Vector = list[float]


def dot(a: Vector, b: Vector) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def features(counts: list[list[int]], p: Vector) -> tuple[list[Vector], float]:
    """Φ: label shares, centred at their p-weighted mean, scaled so that Σ p_k ‖φ_k‖² = 1; and κ."""
    shares = [[c / sum(row) for c in row] for row in counts]
    mean = [sum(p[k] * shares[k][j] for k in range(len(p))) for j in range(len(shares[0]))]
    centred = [[x - m for x, m in zip(row, mean, strict=True)] for row in shares]
    spread = sum(p[k] * dot(centred[k], centred[k]) for k in range(len(p)))
    scaled = [[x / sqrt(spread) if spread > 1e-12 else 0.0 for x in row] for row in centred]
    return scaled, spread / (1.0 - dot(mean, mean))


def objective(phi: list[Vector], a: dict[int, float], owed: Vector, T: Vector, lam: float) -> float:
    """‖Φ_Sᵀa − T‖² + λ Σ_k (p_k + d_k − a_k)²."""
    mixture = [sum(a[k] * phi[k][j] for k in a) - T[j] for j in range(len(T))]
    return dot(mixture, mixture) + lam * sum((owed[k] - a.get(k, 0.0)) ** 2 for k in range(len(owed)))


def provisional(A: list[int], owed: Vector, M: int) -> dict[int, float]:
    t = {k: max(owed[k], 0.0) for k in A}
    largest = sum(sorted(t.values(), reverse=True)[:M])
    return {k: min(1.0, t[k] + max(0.0, 1.0 - largest) / M) for k in A}


def choose(phi: list[Vector], A: list[int], owed: Vector, T: Vector, lam: float, M: int) -> set[int]:
    """Greedily the member that lowers the objective most, then the best swaps; no two candidates may tie."""
    M = min(M, len(A))
    c = provisional(A, owed, M)

    def value(S: set[int]) -> float:
        return objective(phi, {k: c[k] for k in S}, owed, T, lam)

    S: set[int] = set()
    for _ in range(M):
        S.add(min((k for k in A if k not in S), key=lambda k: value(S | {k})))
    for _ in range(20):
        pairs = [(i, j) for i in S for j in A if j not in S]
        if not pairs:
            break
        i, j = min(pairs, key=lambda pair: value(S - {pair[0]} | {pair[1]}))
        if value(S - {i} | {j}) >= value(S) - 1e-12:
            break
        S = S - {i} | {j}
    return S


def solve(matrix: list[Vector], right: Vector) -> Vector:
    """Gauss–Jordan elimination with pivots."""
    n = len(right)
    rows = [[*matrix[i], right[i]] for i in range(n)]
    for i in range(n):
        pivot = max(range(i, n), key=lambda r: abs(rows[r][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for r in range(n):
            if r != i:
                factor = rows[r][i] / rows[i][i]
                rows[r] = [x - factor * y for x, y in zip(rows[r], rows[i], strict=True)]
    return [rows[i][n] / rows[i][i] for i in range(n)]


def weights(phi: list[Vector], S: list[int], t: Vector, T: Vector, lam: float) -> dict[int, float]:
    """argmin ‖Φ_Sᵀa − T‖² + λ‖a − t_S‖² over a ≥ 0, Σa = 1: the best of the minima on every support."""
    best: tuple[float, dict[int, float]] | None = None
    for size in range(1, len(S) + 1):
        for F in combinations(S, size):
            H = [[dot(phi[i], phi[j]) + (lam if i == j else 0.0) for j in F] + [1.0] for i in F] + [
                [1.0] * size + [0.0]
            ]
            a = dict(zip(F, solve(H, [dot(phi[i], T) + lam * t[i] for i in F] + [1.0])[:size], strict=True))
            if min(a.values()) >= 0:
                mixture = [sum(a[k] * phi[k][j] for k in F) - T[j] for j in range(len(T))]
                value = dot(mixture, mixture) + lam * sum((a.get(k, 0.0) - t[k]) ** 2 for k in S)
                if best is None or value < best[0]:
                    best = value, a
    assert best is not None
    return {k: best[1].get(k, 0.0) for k in S}


def had_their_turn(S: list[int], done: list[int], silent: set[int]) -> tuple[list[int], set[int]]:
    """Members whose weight is booked: they completed, or fell silent as the last time; and who is silent now."""
    return [k for k in S if k in done or k in silent], (silent - set(S)) | (set(S) - set(done))


def booked(d: Vector, p: Vector, a: dict[int, float], rho: float) -> Vector:
    """d ← ρ(d + p − a), if the weights that are booked sum to 1."""
    if abs(sum(a.values()) - 1.0) > 1e-9:
        return d
    return [rho * (d[k] + p[k] - a.get(k, 0.0)) for k in range(len(p))]


def due_multiples(loss: dict[int, float], record: dict[int, float], n: int) -> Vector:
    """m_k = 1 + g_k (min(ℓ_k / ℓ̃, 4) − 1) of clients that are behind, once nine tenths of the n have reported."""
    if len(loss) < max(0.9 * n, 2):
        return [1.0] * n
    ordered = sorted(loss.values())
    half = len(ordered) // 2
    median = ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
    m = [1.0] * n
    for k, value in loss.items():
        g = min(max(record.get(k, 0.1), 0.0) / 0.1, 1.0)
        m[k] = 1.0 + g * (min(max(value / median, 1.0), 4.0) - 1.0)
    return m


def reported(loss: dict[int, float], record: dict[int, float], m: Vector, now: dict[int, float]) -> None:
    """A client that was due more has been tried: its record moves a third of the way to z = log(ℓ before / ℓ now)."""
    for k, value in now.items():
        if m[k] > 1 and k in loss:
            z = log(loss[k] / value)
            record[k] = record.get(k, 0.1) + (z - record.get(k, 0.1)) / 3
        loss[k] = value
