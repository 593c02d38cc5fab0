"""Full participation: every available client trains, w = Σ p_k w_k (FedGS eq. 2; LongFed's reference trajectory).

Deviations: where some clients are not available, p_k is renormalised over those that are.

"""

from __future__ import annotations

from sortition.core import Cohort, Needs, Round, Selector, State, method


@method
class Full(Selector[State]):
    """All available clients train, whatever the budget: the other methods try to follow this trajectory."""

    sampling = "full"
    cite = """@inproceedings{mcmahan2017communication,
  title = {Communication-Efficient Learning of Deep Networks from Decentralized Data},
  author = {McMahan, Brendan and Moore, Eider and Ramage, Daniel and Hampson, Seth and Ag{\\"u}era y Arcas, Blaise},
  booktitle = {AISTATS}, year = {2017}
}"""

    @property
    def needs(self) -> Needs:
        """Read the data sizes."""
        return Needs(reads=("sizes",))

    def select(self, state: State, round: Round) -> Cohort:
        """Choose all of A_t, weighted by size."""
        return Cohort.by_size(round.available, round.population.sizes, full=True)
