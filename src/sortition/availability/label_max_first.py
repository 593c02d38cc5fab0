"""High labels first (FedGS's YMF): the rate is β · min(labels of k) / (L − 1) + 1 − β."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from sortition.availability._mode import Chances, Facts, Rates, require_fact


class LabelMaxFirst(Chances):
    """Clients with label 0 are rarely reachable, those with only the last label always.

    A client without data has the rate 1 − β.
    """

    needs: ClassVar[tuple[str, ...]] = ("label_counts",)
    beta: float = Field(0.9, ge=0, le=1)

    def rates(self, facts: Facts) -> Rates:
        """Return the same rates in every round."""
        holds_label = require_fact(facts, "label_counts", "label-max-first") > 0
        lowest_label = np.argmax(holds_label, axis=1)
        rates = self.beta * lowest_label / max(1, holds_label.shape[1] - 1) + (1 - self.beta)
        return lambda t: rates
