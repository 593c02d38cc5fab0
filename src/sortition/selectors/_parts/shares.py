"""Numbers as shares of their sum."""

from __future__ import annotations

import numpy as np

from sortition.core.arrays import Floats


def shares(values: Floats) -> Floats:
    """Values ≥ 0 over their sum; equal shares where all are 0."""
    total = values.sum()
    return np.asarray(values / total) if total > 0 else np.full(values.size, 1.0 / max(values.size, 1))
