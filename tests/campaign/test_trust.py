"""A tenth of the clients that comes back together destroys a model without guards, and does not with them."""

import json
from dataclasses import asdict

import pytest

from campaign import trust
from sortition.report.measured_trust import from_table


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    monkeypatch.setattr(trust, "ROUNDS", 80)


def test_clients_that_return_together_hold_the_cohort_and_destroy_the_model_unless_guarded():
    honest = trust.played("f3ast", "honest", "guards", seed=0)
    unguarded = trust.played("f3ast", "return", "none", seed=0)
    guarded = trust.played("f3ast", "return", "guards", seed=0)
    assert unguarded.majorities > 0
    assert unguarded.accuracy < 30
    assert guarded.accuracy > honest.accuracy - 5
    assert guarded.returned <= 40
    assert guarded.honest_quarantined == 0


def test_outcomes_are_kept_and_not_played_twice(tmp_path, monkeypatch):
    monkeypatch.setattr(trust, "ROUNDS", 12)
    path = tmp_path / "outcomes.jsonl"
    for seed in (0, 1, 0, 1):
        for guards in ("guards", "none"):
            trust.write(path, ["uniform"], ["honest", "framing"], guards, seed, "shards")
    outcomes = trust.read(path)
    assert len(outcomes) == 8
    assert {(one.attack, one.guards) for one in outcomes} == {
        ("honest", "guards"),
        ("honest", "none"),
        ("framing", "guards"),
        ("framing", "none"),
    }
    measured = trust.summary(outcomes)
    assert measured.seeds == {"framing": [0, 1]}
    figures = measured.methods["uniform"]
    honest = {one.seed: one.accuracy for one in outcomes if (one.attack, one.guards) == ("honest", "guards")}
    framed = {one.seed: one.accuracy for one in outcomes if (one.attack, one.guards) == ("framing", "guards")}
    assert figures.losses == {"framing": round(max(honest[seed] - framed[seed] for seed in (0, 1)), 1)}
    assert from_table(json.loads(json.dumps(asdict(measured)))) == measured
    assert f"| uniform | {figures.accuracy:.1f} |" in trust.table(measured)
