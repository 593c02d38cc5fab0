"""Simulated batteries, chargers, idle hours and time zones: properties, and policies that read them."""

import numpy as np
import pytest

from sortition.core.errors import InputError
from sortition.simulation.batteries import LOWEST_BATTERY, DailyLife, Habits

HOUR = 3600.0
N = 400


def life(seed=1, **options):
    return DailyLife(Habits(**options), N, seed)


def at(hour, day=0):
    return (24 * day + hour) * HOUR


def test_facts_depend_on_seed_client_and_clock_alone():
    moments = [at(0.5), at(9), at(15), at(23.9, 3), at(12, 40)]
    first = life()
    played = [first.facts(moment) for moment in moments]
    for moment, facts in reversed(list(zip(moments, played, strict=True))):
        anew = life().facts(moment)  # as a run that is resumed computes them
        for name, values in facts.items():
            np.testing.assert_array_equal(values, anew[name])
    earlier = first.facts(moments[0])["battery"]  # the clock of a server that falls back
    np.testing.assert_array_equal(earlier, played[0]["battery"])
    assert (life(seed=2).facts(at(9))["battery"] != played[1]["battery"]).any()
    fewer = DailyLife(Habits(), 50, 1).facts(at(9))["battery"]
    np.testing.assert_array_equal(fewer, played[1]["battery"][:50])  # others do not change a client


def test_devices_charge_at_night_and_drain_by_day():
    whole = life(spread=0.0, plugged_in=1.0)
    night = whole.facts(at(3, 2))
    morning = whole.facts(at(7, 2))
    noon = whole.facts(at(12, 2))
    evening = whole.facts(at(22.5, 2))
    assert night["charging"].all()
    assert night["idle"].all()
    np.testing.assert_array_equal(morning["battery"], 1.0)
    np.testing.assert_allclose(noon["battery"], 1.0 - 0.04 * 5)
    np.testing.assert_allclose(evening["battery"], 1.0 - 0.04 * 15.5)
    assert not noon["charging"].any()


def test_a_charger_fills_a_battery_in_its_hours():
    slow = life(spread=0.0, plugged_in=1.0, charging_hours=16.0, drain=0.05, wake=7.0, bedtime=23.0)
    low = slow.facts(at(23, 30))["battery"]
    np.testing.assert_allclose(slow.facts(at(3, 31))["battery"], low + 4 / 16)


def test_whoever_forgets_the_charger_goes_on_with_what_is_left():
    forgetful = life(spread=0.0, plugged_in=0.0, drain=0.04)
    battery = [forgetful.facts(at(7, day))["battery"] for day in range(4)]
    assert (battery[1] <= battery[0]).all()
    np.testing.assert_allclose(battery[3], LOWEST_BATTERY)
    share = life(plugged_in=0.85).facts(at(3, 5))["charging"].mean()
    assert 0.75 < share < 0.95


def test_idle_hours_are_drawn_by_the_hour():
    busy = life(idle=0.3, spread=0.0)
    assert 0.2 < busy.facts(at(12))["idle"].mean() < 0.4
    np.testing.assert_array_equal(busy.facts(at(12))["idle"], busy.facts(at(12.9))["idle"])
    assert (busy.facts(at(12))["idle"] != busy.facts(at(13))["idle"]).any()


def test_days_follow_the_clock_of_the_device():
    zones = life(spread=0.0, plugged_in=1.0, zones=(-8.0, 0.0, 9.0))
    facts = zones.facts(at(3, 2))
    assert set(facts["utc_offset"]) == {-8.0, 0.0, 9.0}
    asleep = facts["utc_offset"] == 0.0
    np.testing.assert_array_equal(facts["charging"], asleep)  # it is 19:00 and noon elsewhere


def test_batteries_go_over_the_hours_without_a_jump():
    whole = life(zones=(-8.0, 0.0, 9.0))
    steps = [whole.facts(minute * 60.0)["battery"] for minute in range(0, 3 * 1440, 10)]
    jumps = np.abs(np.diff(steps, axis=0))
    assert jumps.max() < 1 / 3 / 6 + 1e-9  # ten minutes at the charger


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"wake": 24.0}, r"Habits\.wake must be an hour of the day, in \[0, 24\); got 24\.0"),
        ({"wake": "7"}, r"Habits\.wake must be a number; got '7'"),
        ({"wake": 23.0}, r"Habits\.bedtime must be another hour than wake"),
        ({"plugged_in": 1.2}, r"Habits\.plugged_in must be a probability in \[0, 1\]; got 1\.2"),
        ({"drain": -0.1}, r"Habits\.drain must be ≥ 0; got -0\.1"),
        ({"charging_hours": 0.0}, r"Habits\.charging_hours must be > 0; got 0\.0"),
        ({"zones": []}, r"Habits\.zones must be a list of hours ahead of UTC; got \[\]"),
        ({"zones": (20,)}, r"Habits\.zones must be hours in \[-14, 14\]; got 20"),
    ],
)
def test_bad_habits_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        Habits(**options)


@pytest.mark.parametrize("clock", [1e12, 1e300, float("inf")])
def test_a_clock_beyond_a_hundred_years_is_refused_at_once(clock):
    """A device of 1e-300 examples per second would otherwise have every morning until then computed."""
    with pytest.raises(InputError, match="at most 100 years"):
        DailyLife(Habits(), 3, 0).facts(clock)
