from __future__ import annotations

import numpy as np
import pytest

from sortition.advice.profile import KnownFederation, Profile, from_profile
from sortition.advice.read_description import known_federation
from sortition.advice.replay import measured, replay, replay_table
from sortition.studies.plan import plan
from sortition.studies.runs.runner import execute, place


def test_figures_of_cohorts_by_hand():
    source = KnownFederation(2, 2, np.array([[4, 0], [0, 4], [4, 0], [0, 4]]))
    present = [np.arange(3), np.arange(3)]
    even = measured(source, [(np.array([0, 1]), np.array([0.5, 0.5]))] * 2, present)
    assert even.coverage == pytest.approx(2 / 3)  # client 3 was never there
    assert even.mixture == pytest.approx(0.0)
    assert even.bias == pytest.approx(0.5)
    assert even.trainings == 2
    lopsided = measured(source, [(np.array([0, 2]), np.array([0.5, 0.5]))], present[:1])
    assert lopsided.mixture == pytest.approx(0.5)


def test_methods_that_hear_from_clients_are_left_out(tmp_path):
    source = from_profile(Profile(cohort=4, clients=20, rounds=12, availability="lognormal"), tmp_path)
    found, left = replay(source)
    assert {"uniform", "fedgs", "microcosm", "microcosm-sizes"} <= set(found)
    assert "power-of-choice" in left
    assert left["power-of-choice"] == "hears loss from clients"
    assert left["active"] == "hears loss from clients"
    assert found["microcosm"].mixture < found["uniform"].mixture
    assert found["microcosm"].coverage >= found["uniform"].coverage
    assert len(replay_table(found, source).rows) == len(found)


def test_a_method_that_a_cohort_of_one_rules_out_is_left_out(tmp_path):
    found, left = replay(from_profile(Profile(cohort=1, clients=6, rounds=3), tmp_path))
    assert "uniform" in found
    assert "BatchPartitioning.batch must be at most the budget, 1; got 2" in left["batch-partitioning"]


@pytest.fixture
def played(tmp_path):
    made = plan(
        {
            "rounds": 4,
            "cohort": 3,
            "seeds": 1,
            "data": {"name": "digits", "clients": 12, "partition": {"name": "shards", "per_client": 2}},
            "model": "softmax",
            "local": {"steps": 1, "batch": 5, "lr": 0.1},
            "availability": "lognormal",
            "faults": {"before": 0.1, "after": 0.1},
            "devices": {"dropout": 0.5},
            "method": [{"name": "fedgs"}],
        }
    )
    execute(made, tmp_path, jobs=1)
    return place(tmp_path, made.runs[0])


def test_a_run_is_replayed_beside_what_was_chosen(played):
    source = known_federation(played)
    assert source.masks.shape == (4, 12)
    assert source.dropout == pytest.approx(0.6)  # 1 − (1 − 0.2) (1 − 0.5)
    found, _ = replay(source)
    chosen, again = found["as played: fedgs"], found["fedgs"]
    assert chosen.trainings == again.trainings
    assert chosen.mixture == pytest.approx(again.mixture, abs=0.3)


def test_an_audit_log_is_replayed_without_facts(played):
    source = known_federation(played / "audit.jsonl")
    assert source.counts.shape == (12, 1)
    found, left = replay(source)
    assert "as played: FedGS" in found
    assert found["uniform"].mixture is None
    assert left["fedgs"] == "reads label counts"
