"""The optimum of max Σ gain_i s_i + Σ_{i<j} pair_ij s_i s_j over |s| = M, proved by HiGHS.

Linearised with y_ij ≤ s_i, y_ij ≤ s_j and Σ_j y_ij = (M − 1) s_i: without the last, the bound hardly moves.
"""

from itertools import combinations

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_matrix


def optimum(gain, pair, places, limit=60):
    """(value, members) for gain (n,), symmetric pair (n, n); no proof within ``limit`` seconds raises."""
    n = len(gain)
    pairs = list(combinations(range(n), 2))
    rows, columns, entries, low, high = [], [], [], [], []

    def constrain(terms, at_least, at_most):
        for column, entry in terms:
            rows.append(len(low))
            columns.append(column)
            entries.append(entry)
        low.append(at_least)
        high.append(at_most)

    constrain([(i, 1.0) for i in range(n)], places, places)
    touching = [[] for _ in range(n)]
    for e, (i, j) in enumerate(pairs):
        constrain([(n + e, 1.0), (i, -1.0)], -np.inf, 0.0)
        constrain([(n + e, 1.0), (j, -1.0)], -np.inf, 0.0)
        touching[i].append(n + e)
        touching[j].append(n + e)
    for i in range(n):
        constrain([(e, 1.0) for e in touching[i]] + [(i, -(places - 1.0))], 0.0, 0.0)
    width = n + len(pairs)
    matrix = coo_matrix((entries, (rows, columns)), shape=(len(low), width)).tocsr()
    cost = -np.concatenate([gain, [pair[i, j] for i, j in pairs]])
    whole = np.concatenate([np.ones(n), np.zeros(len(pairs))])
    solved = milp(
        cost,
        constraints=LinearConstraint(matrix, low, high),
        integrality=whole,
        bounds=Bounds(0, 1),
        options={"mip_rel_gap": 1e-6, "time_limit": limit},
    )
    if solved.status != 0:
        raise RuntimeError(solved.message)
    return -solved.fun, np.flatnonzero(np.round(solved.x[:n]) == 1)
