"""Lognormal rates on a wave (FedGS's SLN): (c_k / max c) · (0.4 sin θ_t + 0.5).

The paper's brackets are broken; the released code has T_p = 24 and θ_t = 2π (t mod T_p) / (T_p − 1), used here.
"""

from __future__ import annotations

import numpy as np
from pydantic import Field

from sortition.availability._mode import Chances, Facts, Rates
from sortition.availability.lognormal import relative_rates


class SineLognormal(Chances):
    """The lognormal rates times a wave between 0.1 and 0.9.

    Attributes:
        beta: β.
        period: T_p in rounds.
        legacy: whether to take the rates of the paper's own tables.
    """

    beta: float = Field(0.5, ge=0, lt=1)
    period: int = Field(24, ge=2)
    legacy: bool = False

    def rates(self, facts: Facts) -> Rates:
        """Return the lognormal rates times the wave."""
        lognormal_rates = relative_rates(self.beta, facts, legacy=self.legacy)
        wave = 0.4 * np.sin(np.linspace(0, 2 * np.pi, self.period)) + 0.5
        return lambda t: lognormal_rates * wave[t % self.period]
