"""Tables of runs that nobody played."""

from __future__ import annotations

import numpy as np
import polars as pl

from sortition.leaderboard.results import SCHEMA
from sortition.leaderboard.suite import Suite


def table(suite: Suite, gains: dict[str, float], *, seeds: int = 4, noise: float = 0.002) -> pl.DataFrame:
    """Every method gains so much over 0.5 in every cell, give or take some noise that depends on the seed."""
    rng = np.random.default_rng(0)
    rows = [
        {
            "suite": suite.version,
            "cell": cell.name,
            "half": cell.half,
            "method": method,
            "seed": seed,
            "auc": 0.5 + gain + noise * rng.normal(),
            "last": 0.7 + gain + noise * rng.normal(),
            "worst_tenth": 0.3,
            "jain": 0.9,
            "megabytes": 2.0,
            "passes": 10.0,
            "milliseconds": 0.5,
            "reads": "sizes",
            "asks": "",
            "reports": "",
            "individual": method == "spy",
        }
        for cell in suite.cell
        for method, gain in gains.items()
        for seed in range(seeds)
    ]
    return pl.DataFrame(rows, schema=SCHEMA)
