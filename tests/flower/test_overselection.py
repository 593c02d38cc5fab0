"""An over-selected round in Flower uses as many sound answers as the cohort has, and takes those of its last moment."""

import time

import numpy as np
import pytest

pytest.importorskip("flwr", reason="flwr is not installed: make test-flower")

from flwr.serverapp.strategy import FedAvg
from tests.flower.loopback import Loopback, node

from sortition.federation.messages import Ask
from sortition.flower import SelectorStrategy, codec
from sortition.selectors import load

START = {"w": np.zeros(2, np.float32)}


def overselecting(cohort, overselect):
    return SelectorStrategy(
        load("uniform", weights="uniform"),
        cohort=cohort,
        overselect=overselect,
        strategy=FedAvg(fraction_evaluate=0.0),
    )


def test_an_unsound_answer_takes_no_place_of_a_sound_one():
    grid = Loopback({0: node("c0", w=(np.nan, 1.0)), 1: node("c1"), 2: node("c2")})
    strategy = overselecting(cohort=2, overselect=1.5)
    strategy.start(grid, codec.to_record(START), 2, timeout=60)
    for record in strategy.history:
        assert sorted(record["answered"]) == [1, 2]
        assert list(record["left_out"]) == ["0"]
        assert record["silent"] == []
    assert all(member.silent_until is None for member in strategy.members.members)


def test_answers_beyond_the_cohort_stand_by():
    grid = Loopback({number: node(f"c{number}", w=(number, 1.0)) for number in range(4)})
    strategy = overselecting(cohort=2, overselect=2.0)
    result = strategy.start(grid, codec.to_record(START), 1, timeout=60)
    (record,) = strategy.history
    assert sorted(record["answered"]) == [0, 1]
    assert sorted(record["standby"]) == [2, 3]
    assert codec.to_arrays(result.arrays)["w"].tolist() == [0.5, 1.0]


def test_an_answer_of_the_last_moment_is_read_before_its_message_lapses():
    """Between two looks both the answer and the deadline have come: the answer was in time."""
    grid = Loopback({0: node("c0")})
    transport = overselecting(cohort=1, overselect=1.0).transport
    transport.grid = grid
    (handle,) = transport.post([Ask("profile", "0", seconds=0.05)])
    time.sleep(0.1)
    assert [reply.handle for reply in transport.poll(0.0)] == [handle]
    assert transport.poll(0.0) == []


def test_a_message_that_lapsed_is_not_waited_for():
    grid = Loopback({0: lambda message: None})
    transport = overselecting(cohort=1, overselect=1.0).transport
    transport.grid = grid
    (handle,) = transport.post([Ask("profile", "0", seconds=0.05)])
    time.sleep(0.1)
    assert transport.poll(0.0) == []
    grid.waiting[handle] = "too late to be looked at"
    assert transport.poll(0.0) == []
