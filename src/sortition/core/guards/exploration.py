"""What leaves: an exploration floor under every selector, so that nobody owns the cohort and nobody starves.

Of K = min(budget, eligible) places, e go to a simple random sample of the eligible clients, with E[e] = ε K exactly. So
in every round every eligible client trains with probability ≥ ε K / n, whatever the selector prefers, and whoever
deceives it holds at most the share 1 − e/K of places and weight, beside his luck in the draw.
"""

from __future__ import annotations

import numpy as np

from sortition.core.arrays import Ids
from sortition.core.rounds import Cohort, Round
from sortition.core.sampling import uniformly


def explored(cohort: Cohort, round: Round, share: float, rng: np.random.Generator) -> tuple[Cohort, Ids]:
    """The cohort with its explorers, and who they are.

    They come last, weigh one K-th of the total mass each (a size may be a lie) and are a group of their own; the places
    are those of members left out at random, and the others share the remaining mass as if those had fallen silent.
    Full participation, and a cohort of everybody, stay as they are: there is nobody to explore.
    """
    places = round.places
    count = int(share * places + rng.random())  # ⌊εK + U⌋ has the expectation εK
    if count == 0 or cohort.full or cohort.ids.size >= round.available.size:
        return cohort, cohort.ids[:0]
    lot = uniformly(round.available, count, rng)
    kept = cohort.ids[~np.isin(cohort.ids, lot)]
    if kept.size > places - count:
        kept = kept[np.sort(rng.choice(kept.size, places - count, replace=False))]
    total = float(cohort.weights.sum()) if cohort.ids.size else 1.0
    part = lot.size / (kept.size + lot.size)
    weights = np.concatenate([cohort.weights_of(kept)[0] * (1 - part), np.full(lot.size, total * part / lot.size)])
    if weights.sum() > 0:
        weights *= total / weights.sum()  # where those kept had no weight at all
    groups = None
    if cohort.groups is not None:
        mine = cohort.groups[np.isin(cohort.ids, kept)]
        own = 1 + int(cohort.groups.max(initial=-1))
        groups = np.concatenate([mine, np.full(lot.size, own)])
    ids = np.concatenate([kept, lot])
    return Cohort(ids, weights, groups=groups, notes=cohort.notes), lot
