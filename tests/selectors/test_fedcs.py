from __future__ import annotations

import numpy as np
import pytest
from tests.mutations import slipped
from tests.reference.fedcs_literal import client_selection, multicast
from tests.simulation.small import world

from sortition.core import RESOURCES, InputError, Measure, Population, Reading, Registrar
from sortition.selectors import fedcs, load
from sortition.selectors.fedcs import schedule_uploads
from sortition.simulation import Devices, Setup, run


def differs(seed):
    """Whether a schedule is not the literal twin's."""
    rng = np.random.default_rng(seed)
    n, limit, most = 14, float(rng.uniform(10, 60)), int(rng.integers(3, 15))
    update, theta = rng.uniform(1, 30, n), rng.uniform(0.5, 5, n)
    ours, seconds = schedule_uploads(np.arange(n), update, 6.0 / theta, limit, most)
    S, Theta = client_selection(range(n), update, theta, 6.0, limit, most=most)
    return ours.tolist() != S or seconds != pytest.approx(Theta + multicast(S, theta, 6.0))


@pytest.mark.parametrize("seed", range(12))
def test_schedules_as_the_literal_twin(seed):
    assert not differs(seed)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("np.maximum(update - theta, 0.0)", "update"),
        ("multicast_with - multicast + upload", "upload"),
        ("float(multicast_with[k]) + theta_with < limit", "theta_with < limit"),
        ("max(0.0, float(update[k]) - theta)", "float(update[k])"),
    ],
)
def test_a_slip_is_caught(right, wrong, monkeypatch):
    monkeypatch.setitem(globals(), "schedule_uploads", slipped(fedcs.schedule_uploads, right, wrong))
    assert any(differs(seed) for seed in range(12))


def test_the_worked_example():
    chosen, seconds = schedule_uploads(np.arange(4), np.array([10.0, 20, 30, 100]), np.full(4, 5.0), 60.0, 4)
    assert chosen.tolist() == [0, 1, 2]
    assert seconds == 35 + 5  # Θ, and the multicast before it


def chosen(selector, update, upload, budget=4, ids=None):
    ids = np.arange(len(update)) if ids is None else np.asarray(ids)
    registrar = Registrar(selector, Population(np.ones(len(update), int)))
    turn = registrar.begin(ids, budget)
    assert turn.question.signal is RESOURCES
    asked = turn.question.ids
    turn.answer(Reading(asked, np.stack([np.asarray(update, float)[asked], np.asarray(upload, float)[asked]], axis=1)))
    return turn.cohort


def test_without_a_tight_deadline_all_candidates_train_and_with_none_left_nobody():
    assert sorted(chosen(load("fedcs", deadline=1e9), range(4), np.ones(4)).ids) == [0, 1, 2, 3]
    assert chosen(load("fedcs", deadline=1e-9), range(4), np.ones(4)).ids.size == 0


def test_uploads_go_one_after_another():
    # T^d + s · t^UL < T_round: 2 + 2 s < 9 for s = 3
    assert chosen(load("fedcs", deadline=9.0), np.zeros(6), np.full(6, 2.0), budget=6).ids.tolist() == [0, 1, 2]
    assert chosen(load("fedcs", deadline=9.0, overhead=0.5), np.zeros(6), np.full(6, 2.0), 6).ids.tolist() == [0, 1, 2]
    assert chosen(load("fedcs", deadline=9.0, overhead=1.0), np.zeros(6), np.full(6, 2.0), 6).ids.tolist() == [0, 1]


def test_as_many_are_asked_as_candidates_and_as_many_chosen_as_places():
    registrar = Registrar(load("fedcs", candidates=7), Population(np.ones(20, int)))
    turn = registrar.begin(np.arange(20), 3)
    assert turn.question.ids.size == 7
    turn.answer(Reading(turn.question.ids, np.ones((7, 2))))
    assert turn.cohort.ids.size == 3


def test_candidates_that_do_not_answer_are_not_chosen():
    registrar = Registrar(load("fedcs"), Population(np.ones(6, int)))
    turn = registrar.begin(np.arange(6), 6)
    turn.answer(Reading(np.array([4, 1]), np.array([[1.0, 1.0], [2.0, 1.0]])))
    assert turn.cohort.ids.tolist() == [4, 1]
    registrar.finish(turn)
    turn = registrar.begin(np.arange(6), 6)
    turn.answer(Reading.empty())
    assert turn.cohort.ids.size == 0


DEVICES = Devices(speed=10.0, speed_spread=1.0, bandwidth=400.0, bandwidth_spread=0.5)


def test_the_simulator_keeps_the_deadline_and_a_question_costs_no_model():
    own, records = world(devices=DEVICES), []
    asked = own.measure(own.initial, Measure(RESOURCES, np.arange(10)), 0).values
    parts = asked[:, 0] + 2 * asked[:, 1]  # trains once, receives and sends the model
    np.testing.assert_allclose(parts, own.costs.seconds(np.arange(10), 0))
    deadline = float(np.sort(parts)[3])
    run(Setup(own, load("fedcs", deadline=deadline, candidates=10), 6, 8), None, lambda c, r: records.append(r))
    clocks = np.diff([0.0, *(record["clock"] for record in records)])
    assert all(record["cohort"] for record in records)
    assert clocks.max() < deadline
    assert {record["bytes"]["questions_down"] for record in records} == {0}
    assert {record["passes"]["forward"] for record in records} == {0}
    assert records[0]["bytes"]["questions_up"] == 4 * 2 * 10
    slow = set(np.flatnonzero(parts >= deadline).tolist())
    assert not slow & {k for record in records for k in record["cohort"]}  # the bias that the paper accepts


def test_bad_parameters_are_named():
    with pytest.raises(InputError, match=r"FedCS\.deadline must be > 0"):
        load("fedcs", deadline=0.0)
    with pytest.raises(InputError, match=r"FedCS\.overhead must be below the deadline, 5\.0; got 5\.0"):
        Registrar(load("fedcs", deadline=5.0, overhead=5.0), Population(np.ones(3, int)))
