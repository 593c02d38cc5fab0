import math
import re

import numpy as np
import pytest
from tests.simulation import small

from sortition.core.errors import DataError, InputError
from sortition.simulation import Setup, start
from sortition.simulation.devices import ClientData, Devices, Fleet

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
    for values, median, sigma in ((fleet.speed, 10.0, 0.5), (fleet.bandwidth_up, 1e6, 0.25)):
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


def spearman(x, y):
    return np.corrcoef(np.argsort(np.argsort(x)), np.argsort(np.argsort(y)))[0, 1]


def test_quantiles_of_a_table_are_met_and_keep_the_clients_ranks():
    quantiles = [[0.0, 1.0], [0.5, 10.0], [1.0, 1000.0]]
    fleet = Fleet(Devices(speed_quantiles=quantiles), 20_000, 3)
    np.testing.assert_allclose(np.quantile(fleet.speed, [0.25, 0.5, 0.75]), [10**0.5, 10.0, 100.0], rtol=0.06)
    assert fleet.speed.min() >= 1.0
    assert fleet.speed.max() <= 1000.0
    lognormal = Fleet(Devices(speed_spread=1.0), 20_000, 3)
    assert spearman(fleet.speed, lognormal.speed) == pytest.approx(1.0)


def test_a_table_states_devices_and_others_stay_drawn():
    rows = [
        {"client": 3, "examples_per_second": 7.0, "bandwidth_up": 50.0},
        {"client": 1, "examples_per_second": 9, "bandwidth_down": 20.0},
    ]
    drawn = Fleet(Devices(speed_spread=1.0, bandwidth=100.0), 5, 0)
    fleet = Fleet(Devices(speed_spread=1.0, bandwidth=100.0, table=rows), 5, 0)
    assert fleet.speed[[3, 1]].tolist() == [7.0, 9.0]
    np.testing.assert_array_equal(fleet.speed[[0, 2, 4]], drawn.speed[[0, 2, 4]])
    assert fleet.bandwidth_up.tolist() == [100, 100, 100, 50, 100]
    assert fleet.bandwidth_down.tolist() == [100, 20, 100, 100, 100]
    assert fleet.seconds(np.array([3]), 0, [14], down=200, up=100).tolist() == [2.0 + 2.0 + 2.0]
    assert fleet.notes == ["3 of 5 clients are not in devices.table; their devices are drawn."]


def test_a_trace_is_read_from_csv(tmp_path):
    path = tmp_path / "devices.csv"
    path.write_text("client,examples_per_second,bandwidth_down,bandwidth_up\n1,20,3000,1000\n0,10,,\n")
    fleet = Fleet(Devices(trace=str(path), bandwidth=500.0), 2, 0)
    assert fleet.speed.tolist() == [10.0, 20.0]
    assert fleet.bandwidth_down.tolist() == [500.0, 3000.0]
    assert fleet.bandwidth_up.tolist() == [500.0, 1000.0]
    assert not fleet.notes
    assert fleet.speeds_differ


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("client,examples_per_second\n7,5\n", "devices.trace must be of clients that exist; got client 7"),
        ("client,examples_per_second\n0,-5\n", "got -5 of client 0"),
        ("client,examples_per_second\n0,inf\n", "got inf of client 0"),
        ("client,examples_per_second\n0,5\n0,6\n", "got two rows of client 0"),
        ("client,examples_per_second\n-1,5\n", "devices.trace.client must be a whole number ≥ 0; got -1"),
        ("client,examples_per_second\n0.5,5\n", "devices.trace.client must be a whole number ≥ 0; got 0.5"),
        ("client,speed\n0,5\n", "Unknown column 'speed'"),
        ("client,bandwidth_up\n0,5\n", "must be a table with the column examples_per_second"),
        ("client,examples_per_second\n0,\n", "rows have examples_per_second"),
        ("client,examples_per_second\n", "must be a table of one row or more"),
    ],
)
def test_a_wrong_trace_is_refused_by_name(tmp_path, text, message):
    path = tmp_path / "devices.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=re.escape(message)):
        Fleet(Devices(trace=str(path)), 5, 0)


def test_files_that_are_no_trace(tmp_path):
    with pytest.raises(InputError, match=r"devices\.trace must be a file"):
        Fleet(Devices(trace=str(tmp_path)), 5, 0)
    path = tmp_path / "noise.csv"
    path.write_bytes(b"\x1f\x8b" + bytes(range(256)))
    with pytest.raises(DataError, match="it is compressed"):
        Fleet(Devices(trace=str(path)), 5, 0)


COUNTS = np.array([[90, 0, 0], [60, 30, 0], [0, 10, 5], [0, 0, 10], [80, 1, 0]])  # labels of 5 clients
DATA = ClientData(COUNTS.sum(axis=1), COUNTS)


def test_scores_by_hand():
    share = np.array([230, 41, 15]) / 286
    expected = (COUNTS / COUNTS.sum(axis=1, keepdims=True)) @ -np.log(share)
    np.testing.assert_allclose(DATA.score("rare labels"), expected)
    np.testing.assert_allclose(DATA.score("high labels"), [0, 1 / 3, 4 / 3, 2, 1 / 81])
    assert DATA.score("large").tolist() == [90, 90, 15, 10, 81]


def test_the_slow_hold_rare_labels_and_the_speeds_stay_the_same():
    drawn = Fleet(Devices(speed_spread=1.0), 5, 0)
    fleet = Fleet(Devices(speed_spread=1.0, slow="rare labels"), 5, 0, DATA)
    np.testing.assert_array_equal(np.sort(fleet.speed), np.sort(drawn.speed))
    assert np.argsort(fleet.speed).tolist() == [3, 2, 1, 4, 0]  # rarest first
    other_end = Fleet(Devices(speed_spread=1.0, slow="rare labels", correlation=-1.0), 5, 0, DATA)
    assert np.argsort(other_end.speed).tolist() == [0, 4, 1, 2, 3]


@pytest.mark.parametrize("correlation", [0.8, 0.3, 0.0, -0.5])
def test_the_rank_correlation_is_the_wanted_one(correlation):
    sizes = np.random.default_rng(0).permutation(5000) + 1
    fleet = Fleet(Devices(speed_spread=1.0, slow="large", correlation=correlation), 5000, 1, ClientData(sizes))
    assert spearman(-fleet.speed, sizes) == pytest.approx(correlation, abs=0.03)


def test_busy_hours_slow_down_what_begins_in_them():
    busy = {"hours": [22, 2], "factor": 0.25}
    fleet = Fleet(Devices(speed=100.0, busy=busy, bandwidth=100.0), 3, 0)
    ids = np.arange(3)
    for hour, seconds in ((0, 9.0), (1.9, 9.0), (2, 3.0), (21.9, 3.0), (22, 9.0), (24 + 12, 3.0)):
        assert fleet.at(hour * 3600).seconds(ids, 0, 200, down=100).tolist() == [seconds] * 3, hour
    shifted = Fleet(Devices(speed=100.0, busy={**busy, "shift": 6}), 1000, 0).at(23 * 3600)
    assert 0.2 < (shifted.speed_now(np.arange(1000)) < 100).mean() < 0.5
    assert Fleet(Devices(), 3, 0).at(5.0).clock == 0.0  # nothing is copied where no hour is busy


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"slow": "rare"}, "Unknown slow 'rare'"),
        ({"slow": "large"}, "Devices.slow must be left out where all devices are equally fast"),
        ({"correlation": 0.5}, "Devices.correlation must be left out where slow is not given"),
        ({"slow": "large", "speed_spread": 1.0, "correlation": 1.5}, r"Devices.correlation must be in \[-1, 1\]"),
        ({"slow": "large", "trace": "x.csv"}, "Devices.slow must be left out where devices are stated"),
        ({"trace": "x.csv", "table": [{"client": 0, "examples_per_second": 1}]}, "either table or trace"),
        ({"table": [{"client": 0}]}, "rows have examples_per_second"),
        ({"table": [{"client": 0, "examples_per_second": 1, "up": 1}]}, "Unknown key 'up'"),
        ({"table": "fast"}, "Devices.table must be rows"),
        ({"speed_quantiles": [[0.5, 1.0], [0.2, 2.0]]}, "Devices.speed_quantiles must be pairs"),
        ({"speed_quantiles": [[0.5, 0.0]]}, "Devices.speed_quantiles must be pairs"),
        ({"speed_quantiles": [1, 2]}, "Devices.speed_quantiles must be pairs"),
        ({"speed_quantiles": [[0, 1.0]], "speed_spread": 1.0}, "Devices.speed_spread must be left out"),
        ({"busy": {"hours": [3, 3], "factor": 0.5}}, "Devices.busy.hours must be two different hours"),
        ({"busy": {"hours": [3, 4], "factor": 0}}, "Devices.busy.factor must be in"),
        ({"busy": {"hours": [3, 4]}}, "Devices.busy.factor must be given"),
        ({"busy": {"hours": [3, 4], "factor": 1, "until": 3}}, "Unknown key 'until'"),
        ({"busy": 3}, "Devices.busy must be a table"),
    ],
)
def test_bad_new_keys(fields, message):
    with pytest.raises(InputError, match=message):
        Devices(**fields)


def test_speed_goes_with_labels_only_where_there_are_some():
    with pytest.raises(InputError, match=r"Devices\.slow must be 'large' where examples have no labels"):
        Fleet(Devices(speed_spread=1.0, slow="rare labels"), 2, 0, ClientData(np.array([1, 2])))


def busy_simulation():
    devices = Devices(speed=1.0, busy={"hours": [0, 0.02], "factor": 0.1})  # the first 72 seconds
    return start(Setup(world=small.world(devices=devices), selector=small.Scripted(), cohort=3, horizon=4))


def test_devices_differ_where_their_busy_hours_do():
    busy = {"hours": [22, 2], "factor": 0.25}
    assert not Fleet(Devices(busy=busy), 3, 0).devices_differ
    assert Fleet(Devices(busy={**busy, "shift": 6}), 3, 0).devices_differ
    assert Fleet(Devices(jitter=0.1), 3, 0).devices_differ


def test_a_run_that_outlasts_its_busy_hours_speeds_up():
    simulation = busy_simulation()
    clocks = [simulation.play_round()["clock"] for _ in range(3)]
    examples = 2 * small.SIZES[4]  # of the slowest of the cohort, in two epochs
    np.testing.assert_allclose(np.diff([0.0, *clocks]), [10 * examples, examples, examples])
