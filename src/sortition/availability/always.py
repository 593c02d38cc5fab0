"""Everybody, always (FedGS's IDL)."""

from __future__ import annotations

import numpy as np

from sortition.availability._mode import Facts, Masks, Mode, Rates


class Always(Mode):
    """All clients in all rounds."""

    def masks(self, facts: Facts) -> Masks:
        """All true."""
        return lambda t: np.ones(facts.clients, dtype=bool)

    def rates(self, facts: Facts) -> Rates:
        """All 1."""
        return lambda t: np.ones(facts.clients)
