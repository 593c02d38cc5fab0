"""High labels first (FedGS's YMF): the rate is β · min(labels of k) / (L − 1) + 1 − β."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from sortition.availability._mode import Chances, Facts, Rates, fact


class LabelMaxFirst(Chances):
    """Who holds label 0 is rarely there, who holds only the last label always; without data the rate is 1 − β."""

    needs: ClassVar[tuple[str, ...]] = ("label_counts",)
    beta: float = Field(0.9, ge=0, le=1)

    def rates(self, facts: Facts) -> Rates:
        """The same in every round."""
        held = fact(facts, "label_counts", "label-max-first") > 0
        lowest = np.argmax(held, axis=1)
        rates = self.beta * lowest / max(1, held.shape[1] - 1) + (1 - self.beta)
        return lambda t: rates
