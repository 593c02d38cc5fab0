"""Multinomial (MD) sampling: Li et al. 2020, *Federated optimization in heterogeneous networks*.

| paper | here |
|---|---|
| m draws with replacement, P(k) = p_k = n_k/n | ``draw_with_replacement`` over the available |
| (1/m) Σ over draws of w_k | weight = draws of k / m: a client drawn twice trains once and counts twice |

E[Σ weights_k w_k] = Σ p_k w_k when everybody is available. FedProx selects like this and adds a proximal term to the
local objective, which belongs to local training.

Deviations: under availability the paper is silent. ``lost=False`` draws among the available, p_k renormalised;
``lost=True`` draws among all known clients and loses the draws that hit somebody unavailable. ``repeats="once"`` weighs
all distinct clients alike, however often each was drawn: a reading of FedGS's MDSample, in neither paper nor its code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from sortition.core import Cohort, Needs, Round, Selector, State, method
from sortition.core.arrays import Ids
from sortition.core.sampling import draw_with_replacement


@method
class BySize(Selector[State]):
    """Draws m clients independently, in proportion to data size.

    Attributes:
        lost: whether all clients are drawn from and draws of unavailable ones are lost; by default only available
            clients are drawn from.
        repeats: a client that was drawn twice weighs twice as much ("count", the paper) or as much as others ("once").

    """

    lost: bool = False
    repeats: Literal["count", "once"] = "count"

    cite = """@inproceedings{li2020federated,
  title = {Federated Optimization in Heterogeneous Networks},
  author = {Li, Tian and Sahu, Anit Kumar and Zaheer, Manzil and Sanjabi, Maziar and Talwalkar, Ameet
            and Smith, Virginia},
  booktitle = {MLSys}, year = {2020}
}"""

    @property
    def needs(self) -> Needs:
        """Read the data sizes."""
        return Needs(reads=("sizes",))

    def select(self, state: State, round: Round) -> Cohort:
        """Draw m times with replacement; how often a client was drawn is its weight."""
        if not self.lost:
            return self._weigh(self._draw(round.available, round))
        draws = self._draw(round.population.known_ids, round)
        available_draws = draws[np.isin(draws, round.available)]
        n_lost = int(draws.size - available_draws.size)
        return self._weigh(available_draws, notes={"lost": n_lost})

    def _draw(self, pool: Ids, round: Round) -> Ids:
        """Draw m clients of the pool with replacement, in proportion to their sizes."""
        return draw_with_replacement(pool, round.population.sizes[pool], round.budget, round.rng)

    def _weigh(self, draws: Ids, notes: Mapping[str, int] | None = None) -> Cohort:
        """Weigh the clients that were drawn as ``repeats`` says."""
        if self.repeats == "once":
            return Cohort.uniform(np.unique(draws), notes=notes or {})
        return Cohort.drawn(draws, notes=notes or {})

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """Cover both readings of availability, and both weights of a client that is drawn twice."""
        return [{"lost": False}, {"lost": True}, {"repeats": "once"}]
