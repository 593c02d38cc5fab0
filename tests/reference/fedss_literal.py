"""FedSS (Tang and Wong 2023) in loops and the paper's symbols: allocation, sampling, eq. 9, silhouette, theory."""

from __future__ import annotations

import itertools
import math

import numpy as np


def fractional_allocation(N, H, S, A):
    """Eq. 20 under 1 ≤ S^k ≤ A^k: bisect the multiplier of Σ S^k = S."""
    need = [H[k] * N[k] for k in range(len(N))]
    peak = max(need)
    need = [max(x, peak * 1e-9) if peak > 0 else 1.0 for x in need]
    low, high = 0.0, max(A) / min(need) + 1.0
    for _ in range(300):
        middle = (low + high) / 2
        if sum(min(max(middle * need[k], 1.0), A[k]) for k in range(len(N))) < S:
            low = middle
        else:
            high = middle
    return [min(max(high * need[k], 1.0), float(A[k])) for k in range(len(N))]


def allocation(N, H, S, A):
    """Whole S^k: floors, then one more for the largest remainders."""
    S = min(S, sum(A))
    wanted = fractional_allocation(N, H, S, A)
    seats = [math.floor(x + 1e-7) for x in wanted]
    while sum(seats) < S:
        best = None
        for k in range(len(N)):
            fraction = round(wanted[k] - seats[k], 6)
            if seats[k] < A[k] and (best is None or fraction > best[0]):
                best = (fraction, k)
        seats[best[1]] += 1
    return seats


def strata_of(group):
    """The strata in ascending order of the group's number, each a list of clients."""
    return [[n for n in range(len(group)) if group[n] == g] for g in sorted(set(group))]


def one_round(group, D, available, S, H, rng):
    """One selection: (client, weight, stratum) of everybody sampled, for no more strata than places."""
    strata = strata_of(group)
    A = [[n for n in members if n in available] for members in strata]
    there = [k for k in range(len(strata)) if A[k]]
    seats = allocation([len(strata[k]) for k in there], [H[k] for k in there], S, [len(A[k]) for k in there])
    D_there = sum(D[n] for k in there for n in strata[k])
    result = []
    for k, S_k in zip(there, seats, strict=True):
        if S_k >= len(A[k]):
            sampled = A[k]
        else:
            sampled = [A[k][i] for i in rng.choice(len(A[k]), size=S_k, replace=False, shuffle=False)]
        D_k = sum(D[n] for n in strata[k])
        D_sampled = sum(D[n] for n in sampled)
        result += [(n, (D_k / D_there) * (D[n] / D_sampled), k) for n in sampled]  # eq. 9
    return result


def spread_after(history, K):
    """H_k from rounds of (stratum, vector) pairs: pooled within-round sample variance; unmeasured: the mean H."""
    squares, freedom = [0.0] * K, [0] * K
    for reports in history:
        for k in range(K):
            rows = [np.asarray(v) for j, v in reports if j == k]
            if len(rows) < 2:
                continue
            mean = sum(rows) / len(rows)
            for row in rows:
                squares[k] += float(sum((row - mean) ** 2))
            freedom[k] += len(rows) - 1
    H = [math.sqrt(squares[k] / freedom[k]) if freedom[k] else None for k in range(K)]
    measured = [h for h in H if h is not None]
    rest = sum(measured) / len(measured) if measured else 1.0
    return [rest if h is None else h for h in H]


def silhouette(p, k_of):
    """Eq. 23."""
    score = 0.0
    for n in range(len(p)):
        mean_to = {}
        for k in sorted(set(k_of)):
            others = [m for m in range(len(p)) if k_of[m] == k and m != n]
            if others:
                mean_to[k] = sum(math.dist(p[n], p[m]) for m in others) / len(others)
        s_out = min(d for k, d in mean_to.items() if k != k_of[n])
        s_in = mean_to.get(k_of[n], s_out)
        if max(s_in, s_out) > 0:
            score += (s_out - s_in) / (len(p) * max(s_in, s_out))
    return score


def bias_of_simple_sampling(group, omega, available):
    """Lemma 1, eq. 7: Σ_k (A^k/(N_k A) − 1/N) Σ_{n∈N_k} ω_n."""
    N, A, total = len(group), len(available), 0.0
    for members in strata_of(group):
        A_k = sum(1 for n in members if n in available)
        total += (A_k / (len(members) * A) - 1 / N) * sum(omega[n] for n in members)
    return total


def mse_by_enumeration(group, omega, seats):
    """E‖v̄ − ω̄‖² over all stratified samples of the whole population, equal D_n."""
    strata, N = strata_of(group), len(group)
    mean = sum(omega) / N
    draws = [list(itertools.combinations(members, s)) for members, s in zip(strata, seats, strict=True)]
    errors = []
    for sample in itertools.product(*draws):
        estimate = sum(
            len(members) / N * sum(omega[n] for n in part) / len(part)
            for members, part in zip(strata, sample, strict=True)
        )
        errors.append((estimate - mean) ** 2)
    return sum(errors) / len(errors)
