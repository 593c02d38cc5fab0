"""More data first (FedGS's MDF): the rate is n_k^β / max n^β."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from sortition.availability._mode import Chances, Facts, Rates, require_fact


class MoreDataFirst(Chances):
    """Clients with much data are reachable more often; β = 0 makes all reachable."""

    needs: ClassVar[tuple[str, ...]] = ("sizes",)
    beta: float = Field(0.7, ge=0)

    def rates(self, facts: Facts) -> Rates:
        """Return the same rates in every round."""
        sizes = require_fact(facts, "sizes", "more-data-first").astype(float)
        rates = (sizes / max(sizes.max(), 1)) ** self.beta
        return lambda t: rates
