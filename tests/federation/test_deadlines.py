"""What a method knows of the deadline, in the simulator and over messages, and what it does with it."""

import math

import numpy as np
import pytest
from tests.federation.fake import Device, Federation, Network
from tests.simulation import small

from sortition.core import InputError, Round
from sortition.core.selector import Conditions
from sortition.federation.pace import Pace, Quantile
from sortition.selectors import load
from sortition.simulation import Devices, Setup, start


def deadlines_seen(pace, rounds=3, **devices):
    small.Scripted.seen.clear()
    world = small.world(devices=Devices(speed=1.0, **devices))
    simulation = start(Setup(world=world, selector=small.Scripted(), cohort=3, horizon=rounds, pace=pace))
    for _ in range(rounds):
        simulation.play_round()
    return [seen.deadline for seen in small.Scripted.seen if isinstance(seen, Round)]


@pytest.mark.parametrize(
    ("pace", "expected"),
    [
        (Pace(), None),
        (Pace(deadline=500.0), 500.0),
        (Pace(deadline=40.0, late="use"), 40.0),
        (Pace(kind="buffered", buffer=2, deadline=400.0), 400.0),
        (Pace(kind="buffered", buffer=2), None),
    ],
)
def test_the_simulator_tells_the_pace_of_a_study(pace, expected):
    assert set(deadlines_seen(pace)) == {expected}


def test_a_deadline_that_follows_the_clients_is_told_once_it_is_known():
    first, *later = deadlines_seen(Pace.of({"deadline": {"quantile": 0.5}}, "test"))
    assert first is None
    assert later == [2.0 * small.SIZES[1]] * 2  # the median of clients 4, 1 and 7, in two epochs


def test_a_server_tells_its_deadline_over_messages():
    for options, expected in (({}, 1800.0), ({"deadline": 60.0}, 60.0), ({"deadline": math.inf}, None)):
        small.Scripted.seen.clear()
        facts = {"sizes": 5.0, "label_counts": [1.0, 4.0]}
        network = Network([Device(f"client-{k}", facts=facts) for k in range(8)])
        Federation(network, small.Scripted(), cohort=3, **options).play()
        assert [seen.deadline for seen in small.Scripted.seen if isinstance(seen, Round)] == [expected]


def plays(pace, devices, rounds=4, **parameters):
    world = small.world(devices=devices)
    selector = load("fedcs", candidates=10, **parameters)
    simulation = start(Setup(world=world, selector=selector, cohort=8, horizon=rounds, pace=pace))
    return [simulation.play_round() for _ in range(rounds)]


def test_fedcs_plans_with_the_servers_deadline_unless_told_otherwise():
    devices = Devices(speed=1.0)  # trainings take twice the number of examples
    in_time = [k for k, size in enumerate(small.SIZES) if 2 * size < 25]
    for record in plays(Pace(deadline=25.0), devices):
        assert set(record["cohort"]) <= set(in_time)
        assert record["answered"] is None
        assert record["notes"]["deadline"] == 25.0
    own = plays(Pace(deadline=25.0), devices, deadline=50.0)
    assert any(set(record["cohort"]) - set(in_time) for record in own)
    assert all("deadline" not in record["notes"] for record in own)
    assert all("deadline" not in record["notes"] for record in plays(Pace(), devices))


def test_tifl_leaves_out_who_misses_the_servers_deadline():
    world = small.world(devices=Devices(speed=1.0))
    selector = load("tifl", tiers=2)
    setup = Setup(world=world, selector=selector, cohort=3, horizon=8, pace=Pace(deadline=25.0))
    simulation = start(setup)
    records = [simulation.play_round() for _ in range(8)]
    assert all(record["answered"] is None for record in records)
    assert {client for record in records for client in record["cohort"]} <= {0, 2, 5, 7, 8}
    assert records[0]["notes"]["latency_limit"] == 25.0


def test_a_deadline_that_nobody_meets_is_refused():
    fastest = 2.0 * min(small.SIZES)
    assert deadlines_seen(Pace(deadline=fastest)) == [fastest] * 3
    for pace in (Pace(deadline=fastest - 0.1), Pace(deadline=fastest - 0.1, kind="buffered", buffer=2)):
        with pytest.raises(InputError, match=r"pace\.deadline must be at least 6 s, in which the fastest client"):
            deadlines_seen(pace)
    deadlines_seen(Pace(deadline=fastest - 0.1), jitter=0.5)  # anybody can be fast for once
    deadlines_seen(Pace(deadline=fastest), busy={"hours": [0, 23], "factor": 0.5})  # it is quiet later on


@pytest.mark.parametrize(
    ("name", "parameters", "conditions", "words"),
    [
        ("fedcs", {}, Conditions(), "FedCS plans with the paper's 180 s"),
        ("fedcs", {}, Conditions(deadline=30.0), "FedCS plans with the server's deadline, 30 s."),
        ("fedcs", {"deadline": 9.0}, Conditions(), "FedCS plans with 9 s, but the server has no deadline"),
        ("fedcs", {}, Conditions(deadline_follows=True), "FedCS plans with the server's deadline, which follows"),
        ("tifl", {}, Conditions(deadline_follows=True), "TiFL leaves out who trains longer than the server's"),
        ("tifl", {}, Conditions(devices_differ=False), "TiFL's tiers are of data sizes alone here"),
        ("tifl", {}, Conditions(deadline=30.0), "TiFL leaves out who trains longer than the server's deadline, 30 s."),
        ("oort", {}, Conditions(devices_differ=False), "Oort's preference for fast clients sees data sizes alone"),
    ],
)
def test_an_idle_rule_is_named(name, parameters, conditions, words):
    (sentence,) = load(name, **parameters).remarks(conditions)
    assert sentence.startswith(words)


def test_nothing_is_said_where_every_rule_works():
    works = Conditions(deadline=30.0, devices_differ=True)
    for name, parameters in (("fedcs", {"deadline": 20.0}), ("oort", {}), ("tifl", {"latency_limit": 9.0})):
        assert load(name, **parameters).remarks(works) == ()
    follows = Conditions(deadline_follows=True, devices_differ=True)
    assert load("fedcs", deadline=20.0).remarks(follows) == ()
    assert load("oort").remarks(Conditions()) == ()  # nobody knows


def test_setups_say_whether_devices_differ():
    def conditions(**devices):
        world = small.world(devices=Devices(**devices))
        return Setup(world=world, selector=load("uniform"), cohort=2, horizon=1).conditions

    assert conditions() == Conditions(None, False)
    assert conditions(speed_spread=1.0).devices_differ
    assert conditions(bandwidth=1e6, bandwidth_spread=1.0).devices_differ
    assert conditions(table=[{"client": 2, "examples_per_second": 3.0}]).devices_differ
    follows = Setup(
        world=small.world(),
        selector=load("uniform"),
        cohort=2,
        horizon=1,
        pace=Pace(deadline=Quantile(0.8)),
    )
    assert follows.conditions.deadline_follows
    np.testing.assert_equal(conditions(jitter=0.1).devices_differ, True)
