"""Snapshots taken between two steps, with numbers of clients or signals that are not there: refused before anything."""

import copy
import json

import numpy as np
import pytest

from sortition.core import Guards, Population, Registrar, StorageError
from sortition.selectors import load

GUARDS = Guards(norm=20, quarantine=20, winsorise=3, ceiling=2, remember=50, clip=1.4, returning=0.2)
NOT_THERE = 10**6


def registrar():
    return Registrar(load("power-of-choice"), Population(np.full(30, 10)), guards=GUARDS)


@pytest.fixture
def snapshot():
    federation = registrar()
    turn = federation.begin(np.arange(30), 5)
    while turn.question is not None:
        turn.answer(dict.fromkeys(turn.question.ids.tolist(), 1.0))
    federation.dispatch(turn)
    federation.judge_updates(turn.cohort.ids, np.ones(5))
    arrays, header = federation.export()
    return dict(arrays), json.loads(json.dumps(header))


def test_the_snapshot_itself_goes_on(snapshot):
    federation = registrar()
    federation.restore(*snapshot)
    federation.receive(federation.in_flight)
    assert federation.version == 1


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("sent_norms", [["model", [NOT_THERE], [1.0]]]),
        ("sent_norms", [["model", [-1], [1.0]]]),
        ("sent_norms", [["unheard of", [1], [1.0]]]),
        ("sent_norms", [["model", [1, 2], [1.0]]]),
        ("sent_norms", [["model", [1], [-5.0]]]),
        ("unsound", [NOT_THERE]),
        ("unsound", [-1]),
        ("excused", [NOT_THERE]),
        ("blamed", {str(NOT_THERE): "too long"}),
        ("misshapen", {str(NOT_THERE): {"loss": 3}}),
        ("votes", [["loss", [NOT_THERE], 3]]),
        ("just_come", [NOT_THERE]),
        ("just_come", [[1]]),
        ("counters", {"late": -5, "rejected": 0}),
    ],
)
def test_what_came_since_the_last_step_is_of_known_clients_and_signals(snapshot, key, value):
    arrays, header = copy.deepcopy(snapshot)
    header["under_way"]["intake"][key] = value
    with pytest.raises(StorageError):
        registrar().restore(arrays, header)


@pytest.mark.parametrize("name", ["chosen", "online", "last_available"])
def test_so_are_the_ids_of_the_last_selection(snapshot, name):
    arrays, header = snapshot
    with pytest.raises(StorageError, match=f"{name} must be below 30"):
        registrar().restore({**arrays, name: np.array([NOT_THERE])}, header)


def test_nobody_is_present_more_than_always(snapshot):
    arrays, header = snapshot
    with pytest.raises(StorageError, match="presence"):
        registrar().restore({**arrays, "presence": np.full(30, 1e308)}, header)
