"""Two states per client, on and off: P(on → off) = ``leave``, P(off → on) = ``join``. It starts stationary."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from sortition.availability._chain import markov_path
from sortition.availability._mode import Facts, Masks, Mode, Rates
from sortition.core.errors import bad


class Markov(Mode):
    """Clients come and go independently of each other.

    Stays have geometric length: 1/leave rounds on and 1/join off on average. A client is on for join/(leave + join) of
    the time.

    Attributes:
        leave: probability a round to go off.
        join: probability a round to come on.
    """

    leave: float = Field(0.1, ge=0, le=1)
    join: float = Field(0.1, ge=0, le=1)

    def masks(self, facts: Facts) -> Masks:
        """Return the states of one chain per client."""
        self._check()
        return markov_path(facts.clients, leave=self.leave, join=self.join, seed=facts.seed, purpose="markov")

    def rates(self, facts: Facts) -> Rates:
        """Return the stationary rate."""
        self._check()
        return lambda t: np.full(facts.clients, self.join / (self.leave + self.join))

    def _check(self) -> None:
        if self.leave + self.join == 0:
            raise bad("availability markov.leave + join", "> 0, or nobody ever comes or goes", 0)
