"""Night and day, time zones and weekends: devices are reachable when their owners sleep."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from sortition.availability._mode import Chances, Facts, Rates
from sortition.core.arrays import Floats
from sortition.core.streams import stream


class Diurnal(Chances):
    """The rate swings between ``low`` and ``high`` over the local day, highest at hour ``peak``.

    Attributes:
        repeat: whether the draw is repeated while nobody is reachable.
        rounds_per_day: rounds in 24 hours.
        zones: hours ahead of UTC; each client belongs to one, at random, all equally likely.
        peak: local hour of the highest rate.
        low: rate at the opposite hour.
        high: rate at the peak.
        weekend: factor on Saturdays and Sundays, local time.
        start_hour: UTC hour of round 0.
        start_day: UTC weekday of round 0; 0 is Monday.
    """

    repeat: bool = False
    rounds_per_day: int = Field(24, ge=1)
    zones: tuple[float, ...] = Field((-8.0, -5.0, 0.0, 1.0, 5.5, 8.0), min_length=1, strict=False)
    peak: float = Field(2.0, ge=0, lt=24)
    low: float = Field(0.05, ge=0, le=1)
    high: float = Field(0.6, ge=0, le=1)
    weekend: float = Field(1.0, ge=0)
    start_hour: float = Field(0.0, ge=0, lt=24)
    start_day: int = Field(0, ge=0, le=6)

    def rates(self, facts: Facts) -> Rates:
        """Return the rate of each client's time zone."""
        offsets = np.asarray(self.zones)
        zone_of_client = stream(facts.seed, "availability zones").integers(len(offsets), size=facts.clients)

        def rates_of_round(t: int) -> Floats:
            hours = self.start_hour + 24 * t / self.rounds_per_day + offsets
            wave = (1 + np.cos(2 * np.pi * (hours - self.peak) / 24)) / 2
            is_weekend = (self.start_day + np.floor(hours / 24)) % 7 >= 5
            rate_of_zone = (self.low + (self.high - self.low) * wave) * np.where(is_weekend, self.weekend, 1.0)
            return np.minimum(rate_of_zone, 1.0)[zone_of_client]

        return rates_of_round
