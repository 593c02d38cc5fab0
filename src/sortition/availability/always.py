"""All clients are always reachable (FedGS's IDL)."""

from __future__ import annotations

import numpy as np

from sortition.availability._mode import Facts, Masks, Mode, Rates


class Always(Mode):
    """All clients are reachable in all rounds."""

    def masks(self, facts: Facts) -> Masks:
        """Return masks of all clients."""
        return lambda t: np.ones(facts.clients, dtype=bool)

    def rates(self, facts: Facts) -> Rates:
        """Return rates of 1."""
        return lambda t: np.ones(facts.clients)
