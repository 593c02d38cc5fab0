"""A method of your own: one class, checked against the contract, then compared. Run: python examples/own_selector.py

The same class works in a study's file (name = "own_selector:LeastRecent"), in your own server loop (Registrar) and in
a Flower federation.
"""

from dataclasses import dataclass

import numpy as np

from sortition.core import Cohort, Feedback, Needs, Round, Selector, State, method, per_client
from sortition.core.arrays import Floats
from sortition.core.sampling import take_largest
from sortition.studies import study
from sortition.testing import check_selector


@dataclass
class Memory(State):
    """The round in which each client last trained; −1 before."""

    last: Floats = per_client(-1.0)


@method
class LeastRecent(Selector[Memory]):
    """Those who waited longest, ties by lot; weights by size."""

    memory = Memory

    @property
    def needs(self) -> Needs:
        """Declared, enforced, metered: the privacy label."""
        return Needs(reads=("sizes",))

    def select(self, state: Memory, round: Round) -> Cohort:
        """Choose; a method that wants to know something first yields Measure(signal, ids)."""
        waited = -state.last[round.available]
        return Cohort.by_size(take_largest(round.available, waited, round.budget, round.rng), round.population.sizes)

    def observe(self, state: Memory, feedback: Feedback) -> None:
        """Learn from who answered."""
        state.last[feedback.ids] = feedback.round.index


def main() -> None:
    check_selector(LeastRecent)
    print("contract kept")
    result = study(
        {
            "rounds": 30,
            "cohort": 5,
            "seeds": 3,
            "data": {"name": "digits", "clients": 50, "partition": {"name": "shards", "per_client": 2}},
            "model": "softmax",
            "availability": {"name": "lognormal", "beta": 0.5},
            "local": {"steps": 10, "batch": 10, "lr": 0.1},
            "method": [{"name": "uniform"}, {"name": "own_selector:LeastRecent"}],
        }
    )
    print(result)
    spread = {run.method: np.ptp(run.clients()["selected"]) for run in result.runs}
    print("most minus least often selected:", spread)


if __name__ == "__main__":
    main()
