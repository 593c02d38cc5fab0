import math

import numpy as np
import pytest

from sortition.core.errors import InputError
from sortition.simulation.devices import Devices, Fleet

IDS = np.array([3, 0, 2, 1])
TIMES = np.array([4.0, 1.0, 3.0, 2.0])


def close(target=4, limit=math.inf, **fields):
    return Fleet(Devices(**fields), 5, 0).close(IDS, TIMES, target, 7, limit=limit)


def test_everybody_is_waited_for():
    closing = close()
    assert closing.answered.all()
    assert not closing.late.any()
    assert closing.seconds == 4.0


def test_a_deadline_cuts_the_slow():
    closing = close(limit=2.5)
    assert closing.answered.tolist() == [False, True, False, True]
    assert closing.late.tolist() == [True, False, True, False]
    assert closing.seconds == 2.5


def test_the_round_closes_at_the_target():
    closing = close(target=2)
    assert closing.answered.tolist() == [False, True, False, True]
    assert closing.seconds == 2.0


def test_dropouts_are_by_seed_and_round_and_not_late():
    lost = [Fleet(Devices(dropout=0.5), 1000, 0).close(np.arange(1000), np.ones(1000), 1000, t) for t in (1, 1, 2)]
    np.testing.assert_array_equal(lost[0].answered, lost[1].answered)
    assert not np.array_equal(lost[0].answered, lost[2].answered)
    assert 400 < lost[0].answered.sum() < 600
    assert not lost[0].late.any()
    part = Fleet(Devices(dropout=0.5), 1000, 0).close(np.array([5, 900]), np.ones(2), 2, 1)
    np.testing.assert_array_equal(part.answered, lost[0].answered[[5, 900]])


def test_seconds_by_hand():
    fleet = Fleet(Devices(speed=100.0, bandwidth=1000.0), 5, 0)
    np.testing.assert_allclose(fleet.seconds(IDS, 0, [200, 0, 50, 100], 500), [2.5, 0.5, 1.0, 1.5])


def test_spreads_are_lognormal_with_the_given_median():
    fleet = Fleet(Devices(speed=10.0, speed_spread=0.5, bandwidth=1e6, bandwidth_spread=0.25), 20_000, 0)
    for values, median, sigma in ((fleet.speed, 10.0, 0.5), (fleet.bandwidth, 1e6, 0.25)):
        assert np.median(values) == pytest.approx(median, rel=0.03)
        assert np.log(values).std() == pytest.approx(sigma, rel=0.03)
    np.testing.assert_allclose(Fleet(Devices(speed_spread=0.5), 10, 0).speed, 100 * fleet.speed[:10])
    shaky = Fleet(Devices(jitter=0.3), 5, 0)
    assert not np.array_equal(shaky.seconds(IDS, 0, 100, 0), shaky.seconds(IDS, 1, 100, 0))


def test_bad_devices():
    bad_fields = {"speed": 0, "jitter": -1, "dropout": 1.5, "bandwidth": math.nan}
    bad_fields |= {"speed_spread": "1", "bandwidth_spread": None}
    for name, value in bad_fields.items():
        with pytest.raises(InputError, match=f"Devices.{name} must be"):
            Devices(**{name: value})


def test_nobody_selected_takes_no_time():
    none = np.empty(0, np.int64)
    assert Fleet(Devices(), 5, 0).close(none, np.empty(0), 0, 0, limit=3.0).seconds == 0.0
