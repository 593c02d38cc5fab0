"""FLIPS's rule for one round in loops: clusters in turn, least picked clients first."""

from __future__ import annotations


def choose(members, picks, available, m):
    """``members``: per cluster its clients; ``picks``: per client how often it was picked. Picks are counted."""
    left = [sorted(k for k in cluster if k in available) for cluster in members]
    this_round = [0] * len(members)
    chosen = []
    while len(chosen) < m and any(left):
        open_clusters = [c for c in range(len(members)) if left[c]]
        totals = {c: sum(picks[k] for k in members[c]) for c in open_clusters}
        c = min(open_clusters, key=lambda c: (this_round[c], totals[c], c))
        k = min(left[c], key=lambda k: (picks[k], k))
        left[c].remove(k)
        picks[k] += 1
        this_round[c] += 1
        chosen.append(k)
    return chosen


def davies_bouldin(rows, labels):
    """(1/k) Σ_i max_{j≠i} (σ_i + σ_j) / ‖c_i − c_j‖."""
    clusters = sorted(set(labels))
    centre, spread = {}, {}
    for c in clusters:
        own = [row for row, label in zip(rows, labels, strict=True) if label == c]
        centre[c] = [sum(column) / len(own) for column in zip(*own, strict=True)]
        spread[c] = sum(_distance(row, centre[c]) for row in own) / len(own)
    worst = [
        max((spread[i] + spread[j]) / _distance(centre[i], centre[j]) for j in clusters if j != i) for i in clusters
    ]
    return sum(worst) / len(clusters)


def _distance(a, b):
    return sum((x - y) ** 2 for x, y in zip(a, b, strict=True)) ** 0.5
