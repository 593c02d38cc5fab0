"""Clustered sampling: Fraboni et al. 2021, *Clustered sampling: low-variance and improved representativity …*.

| paper | here |
|---|---|
| m distributions W_1 … W_m over clients, one draw from each | ``bins``; a client drawn twice counts twice |
| r_ki, Σ_i r_ki = 1, Σ_k r_ki = m p_i (Proposition 1) | mass m·n_i in bins of capacity n, whole numbers |
| Algorithm 1, by sample size | ``by="size"`` |
| Algorithm 2, by similarity of representative gradients θ_i − θ | ``by="similarity"``, the report ``UPDATE`` |
| arccos, L1 or L2 similarity | ``gap`` |
| (1/m) Σ over draws of w_k | weight = draws of k / m |

Deviations: a client with m p_i ≥ 1 first gets ⌊m p_i⌋ bins of its own and goes on with what is left, so that
Algorithm 2 is unbiased for every p (the released code is not). A client that has not trained yet has the gradient 0, as
in the paper; it is at angle 0 from its like and at π/2 from others (released: 0 from everybody). L2 is not squared. The
paper has everybody available; here both algorithms run on the available clients with p renormalised, so the average is
unbiased for theirs. Beyond ``exact_up_to`` clients a sample is clustered and all join the nearest group of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from sortition.core import UPDATE, Cohort, Feedback, Needs, Round, Selector, Signal, State, method, per_client
from sortition.core.arrays import Array, Floats, Ids
from sortition.selectors._parts.bins import Bins, as_whole_sizes, fill_bins_by_groups, fill_bins_by_size, remaining_mass
from sortition.selectors._parts.linkage import Gap, cut_to_mass, tree_groups


@dataclass
class Memory(State):
    """The last update of each client, or its sketch (N, width); 0 where it never trained."""

    update: Floats = per_client(width=0)


@method
class Clustered(Selector[Memory]):
    """Draws one client from each of m distributions, which together are unbiased and each hold clients that are alike.

    Attributes:
        by: "similarity" of updates (Algorithm 2) or "size" (Algorithm 1).
        gap: how far two updates are apart: their "angle", or "l1", "l2".
        sketch: numbers that a client sends of its update for comparison; None for all of them.
        exact_up_to: available clients up to which all are clustered; beyond, a sample of at most 1,000.
    """

    by: Literal["similarity", "size"] = "similarity"
    gap: Gap = "angle"
    sketch: Annotated[int, Field(ge=1)] | None = None
    exact_up_to: Annotated[int, Field(ge=2)] = 2000

    memory = Memory
    cite = """@inproceedings{fraboni2021clustered,
  title = {Clustered Sampling: Low-Variance and Improved Representativity for Clients Selection in Federated Learning},
  author = {Fraboni, Yann and Vidal, Richard and Kameni, Laetitia and Lorenzi, Marco},
  booktitle = {ICML}, year = {2021}
}"""

    @property
    def _signal(self) -> Signal:
        if self.sketch is None:
            return UPDATE
        return UPDATE.sketch(self.sketch)

    @property
    def needs(self) -> Needs:
        """Read the sizes; by similarity, also take the update of each member."""
        if self.by == "similarity":
            return Needs(reads=("sizes",), reports=(self._signal,))
        return Needs(reads=("sizes",))

    def bins(self, state: Memory, round: Round) -> Bins:
        """Return W_1 … W_m over positions in ``round.available``."""
        ids = round.available
        m = round.budget
        sizes = as_whole_sizes(round.population.sizes[ids], m)
        if self.by == "size" or ids.size < 2:
            return fill_bins_by_size(sizes, m)
        mass = remaining_mass(sizes, m)
        capacity = float(sizes.sum())

        def cut(links: Array, leaves: Ids) -> Ids:
            if leaves.size == ids.size:
                return cut_to_mass(links, mass[leaves], capacity)
            trained = np.asarray(state.update.any(axis=1))[ids]
            return cut_to_mass(links, leaf_mass(mass, trained, leaves), capacity)

        groups = tree_groups(state.update, cut, self.exact_up_to, round.rng, among=ids, gap=self.gap)
        return fill_bins_by_groups(sizes, m, groups, round.rng)

    def select(self, state: Memory, round: Round) -> Cohort:
        """Draw one client from each distribution."""
        positions = self.bins(state, round).draw(round.rng)
        return Cohort.drawn(round.available[positions])

    def observe(self, state: Memory, feedback: Feedback) -> None:
        """Remember the updates (Algorithm 2)."""
        if self.by == "similarity":
            state.update = feedback.report(self._signal).scatter(state.update)

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """Cover both algorithms, the other distances, sketches, and the form for many clients."""
        return [{"by": "size"}, {}, {"gap": "l2", "sketch": 8}, {"gap": "l1"}, {"exact_up_to": 12}]


def leaf_mass(mass: Ids, trained: Array, leaves: Ids) -> Floats:
    """Return the mass for which each leaf of a sample stands.

    The leaves that have trained stand for all clients that have, the others for all that have not.
    """
    scaled = mass[leaves].astype(np.float64)
    for members in (trained, ~trained):
        sampled = members[leaves]
        scaled[sampled] *= mass[members].sum() / max(scaled[sampled].sum(), 1)
    return scaled
