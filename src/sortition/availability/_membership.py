"""Which group a client belongs to."""

from __future__ import annotations

from typing import Literal

import numpy as np

from sortition.availability._mode import Facts, fact
from sortition.core.arrays import Ids
from sortition.core.streams import stream

By = Literal["label", "block", "random"]


def membership(by: By, groups: int, facts: Facts, mode: str) -> Ids:
    """(N,) group of each client: by its commonest label (label mod groups), in blocks of ids, or at random."""
    if by == "label":
        counts = fact(facts, "label_counts", f"{mode} by label")
        return np.asarray(np.argmax(counts, axis=1) % groups)
    if by == "block":
        return np.arange(facts.clients) * groups // facts.clients
    return stream(facts.seed, "availability groups").integers(groups, size=facts.clients)
