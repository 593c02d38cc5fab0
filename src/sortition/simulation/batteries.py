"""How people use their devices: batteries over the simulated clock, charging at night, idle hours, time zones.

Policies on ``battery``, ``charging``, ``idle`` and local hours read these facts in a simulation. They depend on the
seed, the client and the clock alone, never on who was chosen: methods that are compared face the same devices.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np

from sortition.core.arrays import Array, Floats, Ids
from sortition.core.errors import bad
from sortition.core.policy import UTC_OFFSET
from sortition.core.streams import stream
from sortition.core.validation import is_number, refuse_unknown_keys

DAY = 24.0  # hours
LOWEST_BATTERY = 0.05  # a device below this is switched off until its owner charges it
LONGEST_ZONE = 14.0  # hours that a clock can be ahead of UTC
MOST_YEARS = 100  # of the simulated clock: a battery depends on every morning before
FACTS = ("battery", "charging", "idle", UTC_OFFSET)


@refuse_unknown_keys
@dataclass(frozen=True)
class Habits:
    """How devices are used, hour by hour of their own clocks.

    Attributes:
        wake: hour at which the median device is taken from its charger.
        bedtime: hour at which it is laid aside for the night.
        spread: standard deviation of both hours over clients, in hours; 0: all alike.
        plugged_in: probability that a device charges in a night.
        charging_hours: hours from an empty battery to a full one.
        drain: share of a full battery that an hour of the day costs.
        idle: probability that a device is idle in an hour of the day; at night it always is.
        zones: hours that clocks are ahead of UTC; each client has one of them.
    """

    wake: float = 7.0
    bedtime: float = 23.0
    spread: float = 1.0
    plugged_in: float = 0.85
    charging_hours: float = 3.0
    drain: float = 0.04
    idle: float = 0.5
    zones: tuple[float, ...] = (0.0,)

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name != "zones" and not (is_number(value) and math.isfinite(value)):
                raise bad(f"Habits.{item.name}", "a number", value)
        for name in ("wake", "bedtime"):
            if not 0 <= getattr(self, name) < DAY:
                raise bad(f"Habits.{name}", "an hour of the day, in [0, 24)", getattr(self, name))
        if self.wake == self.bedtime:
            raise bad("Habits.bedtime", "another hour than wake", self.bedtime)
        for name in ("plugged_in", "idle"):
            if not 0 <= getattr(self, name) <= 1:
                raise bad(f"Habits.{name}", "a probability in [0, 1]", getattr(self, name))
        for name in ("spread", "drain"):
            if getattr(self, name) < 0:
                raise bad(f"Habits.{name}", "≥ 0", getattr(self, name))
        if self.charging_hours <= 0:
            raise bad("Habits.charging_hours", "> 0", self.charging_hours)
        self._check_zones()

    def _check_zones(self) -> None:
        if isinstance(self.zones, str) or not isinstance(self.zones, list | tuple) or not self.zones:
            raise bad("Habits.zones", "a list of hours ahead of UTC", self.zones, "Write zones = [-5, 0, 8].")
        for zone in self.zones:
            if not (is_number(zone) and abs(zone) <= LONGEST_ZONE):
                raise bad("Habits.zones", f"hours in [-{LONGEST_ZONE:g}, {LONGEST_ZONE:g}]", zone)
        object.__setattr__(self, "zones", tuple(float(zone) for zone in self.zones))


@dataclass(frozen=True)
class _Morning:
    """The batteries of all clients when their owners get up.

    Attributes:
        day: how many nights have passed since the run began, of each client.
        battery: (N,) shares of a full battery.
    """

    day: int
    battery: Floats


class DailyLife:
    """Simulates the batteries, nights on a charger and idle hours of N clients' devices under one seed.

    A client's day begins when it is taken from the charger. In the day its battery falls by ``drain`` an hour; in the
    night it rises where the device is plugged in, and else stays as it is.

    Args:
        habits: how devices are used.
        n_clients: how many clients there are.
        seed: what everything random is drawn from.
    """

    def __init__(self, habits: Habits, n_clients: int, seed: int) -> None:
        self.habits = habits
        self.n_clients = n_clients
        self.seed = seed
        zone = stream(seed, "time zones").integers(len(habits.zones), size=n_clients)
        self.utc_offset: Floats = np.array(habits.zones)[zone]
        self._wake = (habits.wake + habits.spread * stream(seed, "waking hours").standard_normal(n_clients)) % DAY
        bedtime = habits.bedtime + habits.spread * stream(seed, "bedtimes").standard_normal(n_clients)
        self._awake_hours: Floats = (bedtime - self._wake) % DAY
        self._first_day: Ids = np.floor((self.utc_offset - self._wake) / DAY).astype(np.int64)
        self._mornings: list[_Morning] = []

    def facts(self, clock: float) -> dict[str, Array]:
        """Return each fact of all clients (N,) at a moment of the simulated clock, which begins at midnight of UTC."""
        if not clock <= MOST_YEARS * 365.25 * DAY * 3600:
            hint = "A device may be far too slow; a deadline ends rounds."
            raise bad("The simulated clock", f"at most {MOST_YEARS} years where habits are read", f"{clock:g} s", hint)
        local_hours = clock / 3600 + self.utc_offset
        since_waking = local_hours - self._wake
        day = np.floor(since_waking / DAY).astype(np.int64) - self._first_day
        hours_up = since_waking % DAY
        sleeps = hours_up >= self._awake_hours
        hours_down = np.where(sleeps, hours_up - self._awake_hours, 0.0)
        charging = sleeps & self._plugged_in(day)
        evening = self._drained(self._battery_in_the_morning(day), np.minimum(hours_up, self._awake_hours))
        battery = np.where(charging, self._charged(evening, hours_down), evening)
        idle_hour = stream(self.seed, "idle hours", int(clock // 3600)).random(self.n_clients) < self.habits.idle
        return {"battery": battery, "charging": charging, "idle": sleeps | idle_hour, UTC_OFFSET: self.utc_offset}

    def _drained(self, battery: Floats, hours: Floats) -> Floats:
        return np.maximum(battery - self.habits.drain * hours, LOWEST_BATTERY)

    def _charged(self, battery: Floats, hours: Floats) -> Floats:
        return np.minimum(battery + hours / self.habits.charging_hours, 1.0)

    def _plugged_in_on(self, day: int) -> Array:
        """Tell whether each client (N,) charges in the night after this day."""
        mask: Array = stream(self.seed, "plugged in", day).random(self.n_clients) < self.habits.plugged_in
        return mask

    def _plugged_in(self, day: Ids) -> Array:
        plugged_in = np.zeros(self.n_clients, bool)
        for number in np.unique(day).tolist():
            plugged_in = np.where(day == number, self._plugged_in_on(number), plugged_in)
        return plugged_in

    def _battery_in_the_morning(self, day: Ids) -> Floats:
        """Return the battery (N,) when the day of each client began; clients are at most one day apart."""
        battery = np.zeros(self.n_clients)
        for number in np.unique(day).tolist():
            battery = np.where(day == number, self._morning(number).battery, battery)
        return battery

    def _morning(self, day: int) -> _Morning:
        """Return the morning of a day; the last two are kept, since the clock does not go back."""
        if not self._mornings or self._mornings[0].day > day:
            first = stream(self.seed, "first batteries").uniform(0.5, 1.0, self.n_clients)
            self._mornings = [_Morning(0, first)]
        while self._mornings[-1].day < day:
            self._mornings = [*self._mornings[-1:], self._next_morning(self._mornings[-1])]
        return next(morning for morning in self._mornings if morning.day == day)

    def _next_morning(self, morning: _Morning) -> _Morning:
        evening = self._drained(morning.battery, self._awake_hours)
        charged = self._charged(evening, DAY - self._awake_hours)
        plugged_in = self._plugged_in_on(morning.day)
        return _Morning(morning.day + 1, np.where(plugged_in, charged, evening))
