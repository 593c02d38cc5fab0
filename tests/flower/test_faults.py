"""Checks 4 and 5 in Flower's simulation: a server that dies, clients that misbehave."""

import numpy as np
import pytest
from tests.flower import federation
from tests.flower.processes import simulate

from sortition.aggregation import weighted_sum

pytestmark = pytest.mark.flower


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    told, log = simulate("tests.flower.faulty", tmp_path_factory.mktemp("faulty"))
    assert told is not None, log[-4000:]
    return told


def test_unsound_replies_are_left_out_and_named(told):
    first, second = told["full"]["history"]
    assert first["cohort"] == list(range(10))
    assert first["answered"] == [0, 3, 7, 8, 9]
    assert second["answered"] == [0, 7, 8, 9]  # client 3 answers its first message again
    assert first["silent"] == [2]
    assert 2 not in second["cohort"]  # who was silent is left out for a while
    assert second["silent"] == [3]
    for record in (first, second):
        assert "not finite" in record["left_out"]["1"]
        assert "out of memory, say" in record["failed"]["4"]
        assert "shape (3,)" in record["left_out"]["5"]
        assert record["left_out"]["6"] == "no model"


def test_the_others_carry_the_whole_weight(told):
    world = federation.world()
    params = world.initial
    for t, answered in enumerate(([0, 3, 7, 8, 9], [0, 7, 8, 9])):
        ids = np.array(answered)
        sizes = world.training_parts.sizes[ids]
        params = params + weighted_sum(sizes / sizes.sum(), world.train(params, ids, [], t).deltas)
    np.testing.assert_allclose(told["full"]["model"], params, atol=1e-6)


def test_unsound_and_missing_answers_make_a_shorter_reading(told):
    (record,) = told["asked"]["history"]
    (question,) = record["questions"]
    assert (question["signal"], question["asked"], question["answered"]) == ("loss", 10, 7)  # not NaN, never and error
    assert not {1, 2, 4} & set(record["cohort"])


def test_a_reply_that_comes_twice_counts_once(told):
    once, twice = told["doubled"]["hashes"]
    assert once == twice
    assert told["doubled"]["counters"]["duplicate"] == 6  # three clients, two rounds


def test_a_signal_that_no_client_answers_is_a_sentence_at_the_start(told):
    assert "does not answer head-row-means, which HiCS needs" in told["unknown signal"]


def test_a_server_that_died_goes_on_as_if_it_had_not(tmp_path):
    def play(name, **more):
        return simulate("tests.flower.resumed", tmp_path / name, CHECKPOINT=str(tmp_path / f"{name}.npz"), **more)

    whole, log = play("whole")
    assert whole is not None, log[-4000:]
    dead, _ = play("killed", DIES_IN="3")
    assert dead is None
    again, log = play("killed")
    assert again is not None, log[-4000:]
    assert "Going on after round 3" in log  # round index 3 had no checkpoint yet, so it is played again
    assert again["cohorts"] == whole["cohorts"]
    assert again["hash"] == whole["hash"]
