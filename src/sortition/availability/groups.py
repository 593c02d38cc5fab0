"""A rate per group and time of day: who holds the same labels comes at the same hours (the situation of FedSS).

FedSS took its rates from a live-streaming trace that is not public; the default is ours: waves between ``low`` and
``high`` over ``period`` rounds, each group's shifted by period / groups.
"""

from __future__ import annotations

import numpy as np
from pydantic import Field, field_validator

from sortition.availability._membership import By, membership
from sortition.availability._mode import Chances, Facts, Rates
from sortition.core.arrays import Floats


class Groups(Chances):
    """``table`` (groups × slots of the day) replaces the waves; a slot lasts ``rounds_per_slot`` rounds."""

    repeat: bool = False
    groups: int = Field(5, ge=1)
    by: By = "label"
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
        """The group's rate at this time of day."""
        table = self._table()
        member = membership(self.by, len(table), facts, "groups")
        return lambda t: table[:, t // self.rounds_per_slot % table.shape[1]][member]

    def _table(self) -> Floats:
        if self.table is not None:
            return np.asarray(self.table, float)
        phase = np.arange(self.period) / self.period + np.arange(self.groups)[:, None] / self.groups
        return self.low + (self.high - self.low) * (1 + np.sin(2 * np.pi * phase)) / 2
