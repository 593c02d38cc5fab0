"""Labels take turns (FedGS's YC): in a period of T_p rounds each label has its T_p / L rounds.

With r = (1 + t mod T_p) / T_p, label y has its turn when y/L < r ≤ (y+1)/L; its holders' rate is then 1, else 1 − β.
The paper leaves T_p open; its released code has T_p = 10 L.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from sortition.availability._mode import Chances, Facts, Rates, require_fact
from sortition.core.arrays import Floats


class LabelCycle(Chances):
    """Clients that hold the label whose turn it is are reachable; the others have the rate 1 − β.

    Attributes:
        beta: β.
        period: T_p in rounds; default: 10 L.
    """

    needs: ClassVar[tuple[str, ...]] = ("label_counts",)
    beta: float = Field(0.9, ge=0, le=1)
    period: int | None = Field(None, ge=1)

    def rates(self, facts: Facts) -> Rates:
        """Return 1 for holders of the label whose turn it is, and 1 − β for the others."""
        holds_label = require_fact(facts, "label_counts", "label-cycle") > 0
        labels = holds_label.shape[1]
        period = self.period or 10 * labels

        def rates_of_round(t: int) -> Floats:
            turn = ((1 + t % period) * labels - 1) // period  # ⌈r L⌉ − 1 in whole numbers
            return np.where(holds_label[:, turn], 1.0, 1 - self.beta)

        return rates_of_round
