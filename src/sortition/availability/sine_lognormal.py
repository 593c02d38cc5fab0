"""Lognormal rates on a wave (FedGS's SLN): (c_k / max c) · (0.4 sin θ_t + 0.5).

The paper's brackets are broken; the released code has T_p = 24 and θ_t = 2π (t mod T_p) / (T_p − 1), used here.
"""

from __future__ import annotations

import numpy as np
from pydantic import Field

from sortition.availability._mode import Chances, Facts, Rates
from sortition.availability.lognormal import relative


class SineLognormal(Chances):
    """``period`` is T_p in rounds; the factor swings between 0.1 and 0.9."""

    beta: float = Field(0.5, ge=0, lt=1)
    period: int = Field(24, ge=2)
    legacy: bool = False

    def rates(self, facts: Facts) -> Rates:
        """The lognormal rates times the wave."""
        fixed = relative(self.beta, facts, self.legacy)
        wave = 0.4 * np.sin(np.linspace(0, 2 * np.pi, self.period)) + 0.5
        return lambda t: fixed * wave[t % self.period]
