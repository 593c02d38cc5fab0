"""Lognormal rates (FedGS's LN): c_k / max c with c ~ lognormal(0, ln 1/(1 − β)), fixed for the run.

The second argument is the deviation of log c, as in the released code. ``legacy`` takes the rates of the paper's own
tables: numpy's legacy generator seeded with 21 + seed, and the code's 1e-6 inside the logarithm.
"""

from __future__ import annotations

import numpy as np
from pydantic import Field

from sortition.availability._mode import Chances, Facts, Rates
from sortition.core.arrays import Floats
from sortition.core.streams import stream


class Lognormal(Chances):
    """β = 0 makes all clients reachable; near 1 a few are often reachable and most hardly ever.

    Attributes:
        beta: β.
        legacy: whether to take the rates of the paper's own tables.
    """

    beta: float = Field(0.5, ge=0, lt=1)
    legacy: bool = False

    def rates(self, facts: Facts) -> Rates:
        """Return the same rates in every round."""
        rates = relative_rates(self.beta, facts, legacy=self.legacy)
        return lambda t: rates


def relative_rates(beta: float, facts: Facts, *, legacy: bool) -> Floats:
    """Return c_k / max c, (N,)."""
    if legacy:
        released_rng = np.random.RandomState(21 + facts.seed)  # the released rates, which only the legacy generator has
        c = released_rng.lognormal(0, -np.log(max(1 - beta - 1e-6, 1e-300)), facts.clients)
    else:
        c = stream(facts.seed, "availability rates").lognormal(0, -np.log(1 - beta), facts.clients)
    return np.asarray(c / c.max())
