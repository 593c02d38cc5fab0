"""GreedyFed: Singhal, Pandey and Popovski 2024, *Greedy Shapley client selection for communication-efficient FL*.

The server values each update by its Shapley value on a validation set of its own, and takes the clients whose values
have been largest on average.

| paper | here |
|---|---|
| first every client once, M a round, by index | clients that were never chosen go first, lowest id first |
| then S_t: the M largest SV_k, ties at random | ``take_largest`` |
| SV^t_k, k ∈ S_t: Shapley values of v = −loss on the server's validation set | the report ``shapley``, of the server |
| sub-models: averages with sizes renormalised in the subset, w^t for nobody | ``CohortModels.loss`` |
| GTG-Shapley: truncation ε_b, ε_i; permutations until convergence | ``shapley.gtg_values``; ``tolerance``, ``turns`` |
| SV_k ← ((c_k − 1) SV_k + SV^t_k) / c_k | ``memory_of="mean"`` |
| SV_k ← α SV_k + (1 − α) SV^t_k | ``memory_of="recent"``, ``alpha`` |
| w^{t+1} = Σ_S n_k w_k / Σ_S n_k | weights by size |

Deviations: the choice is among the available clients; where some were never chosen, they fill places first and the
largest values the rest. Cohorts of up to ``exact`` clients get exact Shapley values, which take fewer evaluations than
30 permutations. Convergence is judged client by client: the released code judges the mean over clients, which is
constant. On truncation between rounds all values are 0 (released: 10⁻⁹). A client that was chosen and fell silent
counts as tried.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from sortition.core import Cohort, Feedback, Needs, Round, Selector, Signal, State, method, per_client
from sortition.core.arrays import Array, Floats, Ids
from sortition.core.cohort_models import CohortModels
from sortition.core.sampling import take_largest
from sortition.core.signals import Payload
from sortition.core.ties import round_to_tie_grid
from sortition.selectors.greedyfed import shapley

LARGEST_LOSS = 1e6  # a loss that is not finite, or larger, counts as this


@dataclass
class Memory(State):
    """The value of each client, from how many rounds it is, and whether the client was ever chosen."""

    value: Floats = per_client(0.0)  # SV_k
    rounds: Ids = per_client(0, dtype=int)  # c_k
    chosen: Array = per_client(0, dtype=bool)


@method
class GreedyFed(Selector[Memory]):
    """Chooses the clients whose updates have lowered the loss on the server's validation set most.

    Attributes:
        memory_of: whether values are the "mean" over a client's rounds, or weigh "recent" ones more.
        alpha: α, weight of the old value where recent ones weigh more.
        exact: cohorts of up to so many clients are valued exactly, by all their subsets.
        tolerance: ε_b and ε_i, changes of the loss that are not followed up.
        turns: permutations that each member leads, at most.
    """

    memory_of: Literal["mean", "recent"] = "mean"
    alpha: Annotated[float, Field(ge=0, lt=1)] = 0.5
    exact: Annotated[int, Field(ge=0, le=16)] = 5
    tolerance: Annotated[float, Field(ge=0)] = 1e-4
    turns: Annotated[int, Field(ge=1)] = 50

    memory = Memory
    cite = """@article{singhal2024greedy,
  title = {Greedy {Shapley} Client Selection for Communication-Efficient Federated Learning},
  author = {Singhal, Pranava and Pandey, Shashi Raj and Popovski, Petar},
  journal = {IEEE Networking Letters}, volume = {6}, number = {2}, pages = {134--138}, year = {2024}
}"""

    @property
    def needs(self) -> Needs:
        """Read the sizes; take the values of single updates from the server itself."""
        return Needs(reads=("sizes",), reports=(self.signal,))

    @property
    def signal(self) -> Signal:
        """Shapley values of a cohort, which the server computes from the updates and its own data."""
        compute = partial(shapley_values, exact=self.exact, tolerance=self.tolerance, turns=self.turns)
        return Signal("shapley", "server", compute, exact=True, summary="value of each update on the server's own data")

    def select(self, state: Memory, round: Round) -> Cohort:
        """Take clients that were never chosen, then those of the largest values."""
        untried_ids = round.available[~state.chosen[round.available]][: round.budget]
        tried_ids = round.available[state.chosen[round.available]]
        values = round_to_tie_grid(state.value, float(np.abs(state.value).max(initial=0.0)))  # differences of losses
        best = take_largest(tried_ids, values[tried_ids], round.places - untried_ids.size, round.rng)
        ids = np.concatenate([untried_ids, best])
        return Cohort.by_size(ids, round.population.sizes, notes={"new": int(untried_ids.size)})

    def observe(self, state: Memory, feedback: Feedback) -> None:
        """Remember whose work ended since the last step, and average its values into those of earlier rounds."""
        state.chosen[feedback.cohort.ids] = True
        report = feedback.report(self.signal)
        ids = report.ids
        state.rounds[ids] += 1
        if self.memory_of == "recent":
            old_weight: Floats | float = self.alpha
        else:
            old_weight = 1.0 - 1.0 / state.rounds[ids]  # (c_k − 1) / c_k
        state.value[ids] = old_weight * state.value[ids] + (1.0 - old_weight) * report.values

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """Cover means of exact values, and recent values of permutations."""
        return [{}, {"memory_of": "recent", "alpha": 0.9, "exact": 0, "tolerance": 0.001, "turns": 8}]


def shapley_values(cohort: CohortModels, _: Payload, *, exact: int, tolerance: float, turns: int) -> Floats:
    """Return SV^t_k of the clients whose updates arrived."""
    ids = cohort.ids.tolist()
    n = len(ids)

    def value(players: frozenset[int]) -> float:
        loss = cohort.loss([ids[player] for player in sorted(players)])
        if not math.isfinite(loss):
            return -LARGEST_LOSS
        return -min(loss, LARGEST_LOSS)

    if n <= exact:
        return shapley.exact_values(value, n)
    return shapley.gtg_values(value, n, cohort.rng, between=tolerance, within=tolerance, most=turns * n)
