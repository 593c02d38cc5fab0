"""A rate per group and time of day: clients with the same labels come at the same hours (the situation of FedSS).

FedSS took its rates from a live-streaming trace that is not public; the default is ours: waves between ``low`` and
``high`` over ``period`` rounds, each group's shifted by period / groups.
"""

from __future__ import annotations

import numpy as np
from pydantic import Field, field_validator

from sortition.availability._mode import Chances, Facts, GroupedBy, Rates, group_of_clients
from sortition.core.arrays import Floats


class Groups(Chances):
    """Each group's rate follows a wave, or a table.

    Attributes:
        repeat: whether the draw is repeated while nobody is reachable.
        groups: number of groups.
        by: how clients are grouped: by their commonest label, in blocks of ids, or at random.
        low: lowest rate of the wave.
        high: highest rate of the wave.
        period: rounds of one wave.
        table: rates (groups × slots of the day) in place of the waves.
        rounds_per_slot: rounds that a slot lasts.
    """

    repeat: bool = False
    groups: int = Field(5, ge=1)
    by: GroupedBy = "label"
    low: float = Field(0.05, ge=0, le=1)
    high: float = Field(0.95, ge=0, le=1)
    period: int = Field(24, ge=1)
    table: list[list[float]] | None = None
    rounds_per_slot: int = Field(1, ge=1)

    @field_validator("table")
    @classmethod
    def _rectangular(cls, table: list[list[float]] | None) -> list[list[float]] | None:
        if table is not None:
            if len({len(row) for row in table}) != 1 or not table[0]:
                raise ValueError("one row per group, all of the same length")
            if min(map(min, table)) < 0 or max(map(max, table)) > 1:
                raise ValueError("made of rates in [0, 1]")
        return table

    def rates(self, facts: Facts) -> Rates:
        """Return the rate of each client's group at this time of day."""
        table = self._table()
        group = group_of_clients(self.by, len(table), facts, "groups")
        return lambda t: table[:, t // self.rounds_per_slot % table.shape[1]][group]

    def _table(self) -> Floats:
        if self.table is not None:
            return np.asarray(self.table, float)
        phase = np.arange(self.period) / self.period + np.arange(self.groups)[:, None] / self.groups
        return self.low + (self.high - self.low) * (1 + np.sin(2 * np.pi * phase)) / 2
