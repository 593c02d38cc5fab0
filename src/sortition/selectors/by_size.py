"""Multinomial (MD) sampling: Li et al. 2020, *Federated optimization in heterogeneous networks*.

| paper | here |
|---|---|
| m draws with replacement, P(k) = p_k = n_k/n | ``with_replacement`` over the available |
| (1/m) Σ over draws of w_k | weight = draws of k / m: a client drawn twice trains once and counts twice |

E[Σ weights_k w_k] = Σ p_k w_k when everybody is available. FedProx selects like this and adds a proximal term to the
local objective, which belongs to local training.

Deviations: under availability the paper is silent. ``lost=False`` draws among the available, p_k renormalised;
``lost=True`` draws among all known clients and loses the draws that hit somebody unavailable. ``repeats="once"`` weighs
all distinct clients alike, however often each was drawn: a reading of FedGS's MDSample, in neither paper nor its code.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from sortition.core import Cohort, Needs, Round, Selector, State, method
from sortition.core.arrays import Ids
from sortition.core.sampling import with_replacement


@method
class BySize(Selector[State]):
    """m independent draws in proportion to data size.

    Attributes:
        lost: draw over all clients and lose those who are away, instead of drawing over the available.
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
        """Data sizes."""
        return Needs(reads=("sizes",))

    def select(self, state: State, round: Round) -> Cohort:
        """Draw, and count multiplicity as weight."""
        pool = round.population.known if self.lost else round.available
        draws = with_replacement(pool, round.population.sizes[pool], round.budget, round.rng)
        if not self.lost:
            return self._cohort(draws)
        kept = draws[np.isin(draws, round.available)]
        return self._cohort(kept, notes={"lost": int(draws.size - kept.size)})

    def _cohort(self, draws: Ids, **rest: Any) -> Cohort:
        """The clients that were drawn, weighted as ``repeats`` says."""
        if self.repeats == "once":
            return Cohort.uniform(np.unique(draws), **rest)
        return Cohort.drawn(draws, **rest)

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """Both readings of availability, and both weights of a client that is drawn twice."""
        return [{"lost": False}, {"lost": True}, {"repeats": "once"}]
