"""Weights by a common rule in place of a method's own: by size, all alike, or by intervals of participation (FedAU)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sortition.core.arrays import Array
from sortition.core.errors import bad
from sortition.core.guards.intervals import Intervals
from sortition.core.guards.settings import Guards
from sortition.core.rounds import Cohort, Population


def reweighted(cohort: Cohort, guards: Guards, sizes: Array | None, intervals: Intervals | None) -> Cohort:
    """The cohort with the weights that the guards set; strata then mean nothing.

    By size or uniform the total mass stays; FedAU's weights sum to 1 in expectation only.
    """
    if guards.reweight == "own" or not cohort.ids.size:
        return cohort
    if intervals is not None:
        return replace(cohort, weights=intervals.weights(cohort.ids), groups=None, mass="expected")
    same_members = Cohort.uniform(cohort.ids) if sizes is None else Cohort.by_size(cohort.ids, sizes)
    return replace(cohort, weights=same_members.weights * cohort.weights.sum(), groups=None)


def weighing_sizes(population: Population, guards: Guards, shown: Mapping[str, Array]) -> Array | None:
    """(N,) the sizes by which cohorts are weighed; None where they are not."""
    if guards.reweight != "size":
        return None
    if "sizes" not in population.facts:
        raise bad("Guards.reweight", "another rule where sizes are unknown", "size", "Give Population(sizes=…).")
    return shown.get("sizes", population.sizes)
