"""Weights by a common rule in place of a method's own: by size, alike, fitted to labels, or by intervals (FedAU)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from sortition.core.arrays import Array
from sortition.core.cohort import Cohort
from sortition.core.errors import bad
from sortition.core.guards.fedau import Intervals
from sortition.core.guards.fitted_weights import FittedWeights
from sortition.core.guards.settings import Guards
from sortition.core.population import Population


def reweigh(
    cohort: Cohort,
    guards: Guards,
    *,
    sizes: Array | None,
    fitted: FittedWeights | None,
    intervals: Intervals | None,
) -> Cohort:
    """Return the cohort with the weights that the guards set, without its strata.

    By size, uniform or fitted the total mass stays; FedAU's weights sum to 1 in expectation only.
    """
    if guards.reweight == "own" or not cohort.ids.size:
        return cohort
    if intervals is not None:
        return replace(cohort, weights=intervals.weights(cohort.ids), groups=None, mass="expected")
    if fitted is not None:
        weights = fitted.weights(cohort.ids)
    elif sizes is not None:
        weights = Cohort.by_size(cohort.ids, sizes).weights
    else:
        weights = Cohort.uniform(cohort.ids).weights
    return replace(cohort, weights=weights * cohort.weights.sum(), groups=None)


def weighing_sizes(population: Population, guards: Guards, shown: Mapping[str, Array]) -> Array | None:
    """Return the sizes (N,) by which cohorts are weighed; None where another rule weighs them."""
    if guards.reweight != "size":
        return None
    if "sizes" not in population.facts:
        raise bad("Guards.reweight", "another rule where sizes are unknown", "size", "Give Population(sizes=…).")
    return shown.get("sizes", population.sizes)


def fitted_weights(population: Population, guards: Guards, shown: Mapping[str, Array]) -> FittedWeights | None:
    """Return what fits weights to the population's labels; None where another rule weighs cohorts."""
    if guards.reweight != "fitted":
        return None
    if "label_counts" not in population.facts:
        hint = "Give Population(label_counts=…)."
        raise bad("Guards.reweight", "another rule where label counts are unknown", "fitted", hint)
    return FittedWeights(population, shown.get("label_counts", population.label_counts))


def check_weighing(guards: Guards, facts: Collection[str], method_name: str) -> None:
    """Refuse weights that are fitted to facts which the method does not read: its privacy label would be wrong."""
    if guards.reweight == "fitted" and "label_counts" not in facts:
        rule = f"another rule where the method does not read label counts, as {method_name}"
        raise bad("Guards.reweight", rule, "fitted")
