"""Less data first (FedGS's LDF): the rate is n_k^−β / max n^−β = (min n / n_k)^β."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from sortition.availability._mode import Chances, Facts, Rates, require_fact


class LessDataFirst(Chances):
    """Clients with little data are reachable more often; a client without data counts as one with one example."""

    needs: ClassVar[tuple[str, ...]] = ("sizes",)
    beta: float = Field(0.7, ge=0)

    def rates(self, facts: Facts) -> Rates:
        """Return the same rates in every round."""
        sizes = np.maximum(require_fact(facts, "sizes", "less-data-first"), 1).astype(float)
        rates = (sizes.min() / sizes) ** self.beta
        return lambda t: rates
