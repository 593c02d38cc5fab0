"""An exploration floor under every selector: nobody can fill the cohort, and nobody is left out for ever.

Of K = min(budget, eligible) places, e go to a simple random sample of the eligible clients, with E[e] = ε K exactly. So
in every round every eligible client trains with probability ≥ ε K / n, whatever the selector prefers, and clients that
deceive it hold at most the share 1 − e/K of places and weight, beside those that the draw gives them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sortition.core.arrays import Ids
from sortition.core.cohort import Cohort, Round
from sortition.core.sampling import draw_uniformly


def add_explorers(cohort: Cohort, round: Round, share: float, rng: np.random.Generator) -> tuple[Cohort, Ids]:
    """Return the cohort with explorers in some of its places, and the ids of the explorers.

    Explorers come last, weigh one K-th of the total mass each (a size may be false) and are a group of their own. They
    take the places of members removed at random; the others share the remaining mass as if those had not answered.
    Where the mass is one in expectation only, the others keep their weights: on average the explorers add what the
    removed members took away. Full participation, and a cohort of everybody, stay as they are.
    """
    places = round.places
    if cohort.expected_size is not None:
        places = max(places, cohort.ids.size)
    count = int(share * places + rng.random())  # ⌊εK + U⌋ has the expectation εK
    if count == 0 or cohort.full or cohort.ids.size >= round.available.size:
        return cohort, cohort.ids[:0]
    explorers = draw_uniformly(round.available, count, rng)
    members = cohort.ids[~np.isin(cohort.ids, explorers)]
    if members.size > places - count:
        members = members[np.sort(rng.choice(members.size, places - count, replace=False))]
    total = float(cohort.weights.sum()) if cohort.ids.size else 1.0
    explored_share = explorers.size / (members.size + explorers.size)
    member_weights = cohort.weights_of(members)[0]
    in_expectation = cohort.mass == "expected"
    if not in_expectation:
        member_weights = member_weights * (1 - explored_share)
    explorer_weights = np.full(explorers.size, total * explored_share / explorers.size)
    weights = np.concatenate([member_weights, explorer_weights])
    if weights.sum() > 0 and not in_expectation:
        weights *= total / weights.sum()  # where the members had no weight at all
    groups = None
    if cohort.groups is not None:
        member_groups = cohort.groups[np.isin(cohort.ids, members)]
        group_of_explorers = 1 + int(cohort.groups.max(initial=-1))
        groups = np.concatenate([member_groups, np.full(explorers.size, group_of_explorers)])
    ids = np.concatenate([members, explorers])
    return replace(cohort, ids=ids, weights=weights, groups=groups), explorers
