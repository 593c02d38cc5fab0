"""An exploration floor under every selector: nobody can fill the cohort, and nobody is left out for ever.

Of K = min(budget, eligible) places, e go to a simple random sample of the eligible clients, with E[e] = ε K exactly. So
in every round every eligible client trains with probability ≥ ε K / n, whatever the selector prefers, and clients that
deceive it hold at most the share 1 − e/K of places and weight, beside those that the draw gives them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sortition.core.arrays import Ids
from sortition.core.rounds import Cohort, Round
from sortition.core.sampling import uniformly


def explored(cohort: Cohort, round: Round, share: float, rng: np.random.Generator) -> tuple[Cohort, Ids]:
    """The cohort with its explorers, and who they are.

    Explorers come last, weigh one K-th of the total mass each (a size may be false) and are a group of their own. They
    take the places of members removed at random; the others share the remaining mass as if those had not answered.
    Where the mass is one in expectation only, the others keep their weights: on average the explorers add what the
    removed members took away. Full participation, and a cohort of everybody, stay as they are.
    """
    places = round.places if cohort.expected_size is None else max(round.places, cohort.ids.size)
    count = int(share * places + rng.random())  # ⌊εK + U⌋ has the expectation εK
    if count == 0 or cohort.full or cohort.ids.size >= round.available.size:
        return cohort, cohort.ids[:0]
    drawn = uniformly(round.available, count, rng)
    kept = cohort.ids[~np.isin(cohort.ids, drawn)]
    if kept.size > places - count:
        kept = kept[np.sort(rng.choice(kept.size, places - count, replace=False))]
    total = float(cohort.weights.sum()) if cohort.ids.size else 1.0
    part = drawn.size / (kept.size + drawn.size)
    expected = cohort.mass == "expected"
    left = cohort.weights_of(kept)[0] * (1.0 if expected else 1 - part)
    weights = np.concatenate([left, np.full(drawn.size, total * part / drawn.size)])
    if weights.sum() > 0 and not expected:
        weights *= total / weights.sum()  # where those kept had no weight at all
    groups = None
    if cohort.groups is not None:
        mine = cohort.groups[np.isin(cohort.ids, kept)]
        own = 1 + int(cohort.groups.max(initial=-1))
        groups = np.concatenate([mine, np.full(drawn.size, own)])
    ids = np.concatenate([kept, drawn])
    return replace(cohort, ids=ids, weights=weights, groups=groups), drawn
