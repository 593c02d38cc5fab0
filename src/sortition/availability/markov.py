"""Two states per client, on and off: P(on → off) = ``leave``, P(off → on) = ``join``; starts in its stationary law."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from sortition.availability._chain import path
from sortition.availability._mode import Facts, Masks, Mode, Rates
from sortition.core.errors import bad


class Markov(Mode):
    """Stays of geometric length, 1/leave rounds on and 1/join off on average; on join/(leave + join) of the time."""

    leave: float = Field(0.1, ge=0, le=1)
    join: float = Field(0.1, ge=0, le=1)

    def masks(self, facts: Facts) -> Masks:
        """One chain per client."""
        self._check()
        return path(facts.clients, self.leave, self.join, facts.seed, "markov")

    def rates(self, facts: Facts) -> Rates:
        """The stationary rate."""
        self._check()
        return lambda t: np.full(facts.clients, self.join / (self.leave + self.join))

    def _check(self) -> None:
        if self.leave + self.join == 0:
            raise bad("availability markov.leave + join", "> 0, or nobody ever comes or goes", 0)
