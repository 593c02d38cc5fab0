"""A tenth of the clients that comes back together destroys a model without guards, and does not with them."""

import json
import tomllib
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from campaign import trust
from sortition.report.measured_trust import MeasuredTrust, MethodTrust, parse_measured_trust
from sortition.selectors import discover

ROOT = Path(__file__).parents[2]


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
    assert parse_measured_trust(json.loads(json.dumps(asdict(measured)))) == measured
    assert f"| uniform | {figures.accuracy:.1f} |" in trust.table(measured)


def test_rows_are_added_to_a_table_of_the_same_guards_attacks_and_seeds():
    first = MethodTrust(accuracy=90.0, cost=0.0, losses={"always": 1.0}, places=10.0, after_return=0.0, quarantined=0)
    second = replace(first, accuracy=95.0)
    stored = MeasuredTrust(guards={"norm": 20.0}, seeds={"always": [3]}, methods={"b": first, "c": first})
    measured = replace(stored, methods={"c": second, "a": second})
    table = trust.merged(stored, measured)
    assert list(table.methods.items()) == [("a", second), ("b", first), ("c", second)]
    with pytest.raises(ValueError, match="other guards, attacks or seeds"):
        trust.merged(stored, replace(measured, seeds={"always": [4]}))


@pytest.mark.parametrize("name", ["adversaries", "adaptive"])
def test_the_guarded_settings_of_the_examples_are_the_trusted_set_up(name):
    study = tomllib.loads((ROOT / "examples" / f"{name}.toml").read_text())
    guarded = [setting for setting in study["setting"] if "guards" in setting]
    assert guarded
    for setting in guarded:
        without = {"ceiling"} if setting["name"] == "adaptive, guarded" and name == "adaptive" else set()
        guards = {key: value for key, value in setting["guards"].items() if key != "quota"}
        assert guards == {key: value for key, value in asdict(trust.TRUSTED).items() if key in guards}
        assert trust.TRUSTED.changed().keys() - guards.keys() == without


def test_the_examples_play_all_methods():
    for name in ("adversaries", "adaptive"):
        study = tomllib.loads((ROOT / "examples" / f"{name}.toml").read_text())
        assert {method["name"] for method in study["method"]} == set(discover())
