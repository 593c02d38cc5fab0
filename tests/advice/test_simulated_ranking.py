from __future__ import annotations

import numpy as np
import pytest

from sortition.advice import simulated_ranking as advisor
from sortition.advice.candidates import allowed, reason, usable
from sortition.advice.matched import examples, holdings, scaled, setups
from sortition.advice.profile import KnownFederation, Limits, Profile, from_profile, shrunk
from sortition.advice.simulated_ranking import Advice, advise
from sortition.core import LOSS, UPDATE, Needs
from sortition.core.errors import InputError
from sortition.selectors import load


def federation(tmp_path, **options):
    return from_profile(Profile(**{"cohort": 3, "clients": 12, "rounds": 6, **options}), tmp_path)


def test_limits_rule_methods_out_and_say_why():
    kept, left = allowed(Limits(label_counts=False, secure_aggregation=True, questions=False))
    assert all("label_counts" not in one.needs.reads for one in kept.values())
    assert not any(one.needs.individual or one.needs.asks for one in kept.values())
    assert {"uniform", "microcosm-sizes"} & set(kept)
    assert left["power-of-choice"] == "asks clients for loss"
    assert left["fedgs"] == "reads label counts"
    assert left["microcosm-updates"] == "sees single updates"
    everybody, _ = allowed(Limits())
    assert set(kept) < set(everybody)


def test_every_reason():
    assert reason(Needs(reads=("sizes",)), Limits()) == ""
    assert reason(Needs(reads=("features",)), Limits()) == "reads facts that the profile does not have"
    assert reason(Needs(reports=(UPDATE,)), Limits(secure_aggregation=True)) == "sees single updates"
    assert reason(Needs(asks=(LOSS,)), Limits()) == ""


def test_the_small_federation_keeps_shares_and_relative_sizes():
    counts = np.array([[900, 100], [0, 100], [50, 50], [0, 0]])
    made = scaled(counts)
    assert made.sum(axis=1).min() == 1  # nobody is empty
    assert made[0] / made[0].sum() == pytest.approx([0.9, 0.1], abs=0.02)
    assert made[0].sum() / made[1].sum() == pytest.approx(10, rel=0.2)
    data = examples(2, np.random.default_rng(0))
    parts = holdings(made, data.y_train, np.random.default_rng(0))
    assert [np.bincount(data.y_train[part], minlength=2).tolist() for part in parts] == made.tolist()


def test_more_than_ten_labels_are_made_up():
    data = examples(30, np.random.default_rng(0))
    assert data.classes == 30
    assert set(np.unique(data.y_test)) == set(range(30))


def test_methods_of_one_seed_meet_the_same_federation(tmp_path):
    both = setups(federation(tmp_path, availability="markov"), {"a": load("uniform"), "b": load("fedgs")}, 5, seed=3)
    a, b = both.values()
    assert a.world is b.world
    assert [a.reachable(t, 0.0).tolist() for t in range(5)] == [b.reachable(t, 0.0).tolist() for t in range(5)]


def test_methods_are_simulated_and_ranked(tmp_path, monkeypatch):
    few = {"uniform": load("uniform"), "microcosm": load("microcosm"), "power-of-choice": load("power-of-choice")}
    monkeypatch.setattr(advisor, "allowed", lambda limits: (dict(few), {"hics": "sees single updates"}))
    source = federation(tmp_path, limits={"traffic": 1.5})
    found = advise(source, seconds=0.01)
    assert found.seeds == 5
    assert found.rounds == 6
    assert set(found.auc) == {"uniform", "microcosm"}
    assert "times the traffic" in found.ruled_out["power-of-choice"]
    assert found.table().rows[-1][0] == "uniform"
    assert found.sentence().startswith(("Use ", "Uniform is enough", "Undecided"))


def test_traffic_counts_the_places_that_a_method_leaves_empty(tmp_path, monkeypatch):
    few = {"uniform": load("uniform"), "half": load("batch-partitioning", batch=2)}  # one batch of two in three places
    monkeypatch.setattr(advisor, "allowed", lambda limits: (dict(few), {}))
    found = advise(federation(tmp_path), seconds=0.01)
    assert found.traffic("half") == pytest.approx(2 / 3, abs=0.01)
    assert [row[-1] for row in found.table().rows] == ["0.67", "1.00"]
    assert max(map(len, found.table().text(80).splitlines())) <= 80


def test_a_method_that_a_cohort_of_one_rules_out_is_left_out(tmp_path, monkeypatch):
    few = {"uniform": load("uniform"), "pairs": load("batch-partitioning", batch=2)}
    monkeypatch.setattr(advisor, "allowed", lambda limits: (dict(few), {}))
    found = advise(federation(tmp_path, cohort=1), seconds=0.01)
    assert set(found.auc) == {"uniform"}
    assert "BatchPartitioning.batch must be at most the budget, 1; got 2" in found.ruled_out["pairs"]


def test_labels_are_spread_where_sizes_alone_are_known(monkeypatch):
    few = {"uniform": load("uniform"), "microcosm": load("microcosm")}
    monkeypatch.setattr(advisor, "allowed", lambda limits: (dict(few), {}))
    found = advise(KnownFederation(3, 4, np.array([[5], [50], [20], [9], [9]])), seconds=0.01)
    assert found.federation.counts.shape == (5, 10)
    assert found.federation.counts.sum(axis=1).tolist() == [5, 50, 20, 9, 9]
    assert any("dirichlet (alpha = 0.3) spreads 10 labels" in note for note in found.table().notes)
    assert max(found.auc["uniform"].values()) < 0.9  # of one label every answer would be right


def test_of_many_methods_the_best_are_compared_on_fresh_seeds(tmp_path, monkeypatch):
    names = ["uniform", "by-size", "f3ast", "fedgs", "flips", "fedss", "refl"]
    monkeypatch.setattr(advisor, "allowed", lambda limits: ({name: load(name) for name in names}, {}))
    advice = advise(federation(tmp_path), seconds=0.01)
    assert len(advice.finalists) == 4
    assert set(advice.auc["uniform"]) == set(range(8))
    screened = [label for label in names[1:] if label not in advice.finalists]
    assert all(set(advice.auc[label]) == {0, 1, 2} for label in screened)
    least = min(advice.screening_gain(label) for label in advice.finalists)
    assert all(advice.screening_gain(label) <= least for label in screened)
    comparisons = advice.compare_with_uniform(advice.auc)
    assert set(comparisons) == set(advice.finalists)
    for label, comparison in comparisons.items():
        gains = [advice.auc[label][seed] - advice.auc["uniform"][seed] for seed in range(3, 8)]
        assert comparison.seeds == 5
        assert comparison.difference == pytest.approx(np.mean(gains))
    rows = {row[0]: row for row in advice.table().rows}
    assert all(rows[label][3] == "not in the final" for label in screened)
    assert any("only these have intervals" in note for note in advice.table().notes)


def figures(gain):
    base = {seed: 0.5 + 0.01 * seed for seed in range(4)}
    return {"uniform": base, "x": {seed: value + gain + 0.001 * seed for seed, value in base.items()}}


def test_uniform_is_enough_where_nothing_is_shown_to_be_better(tmp_path):
    source = federation(tmp_path)
    poor = Advice(source, 6, figures(-0.05), figures(-0.05))
    good = Advice(source, 6, figures(0.05), figures(0.05))
    assert poor.best is None
    assert poor.sentence().startswith("Uniform is enough")
    wide = {"uniform": figures(0)["uniform"], "x": {seed: 0.53 + 0.1 * (-1) ** seed for seed in range(4)}}
    unsure = Advice(source, 6, wide, wide)
    assert unsure.sentence().startswith("Undecided after 4 simulated federations, so uniform may be enough: x leads")
    behind = {"uniform": figures(0)["uniform"], "x": {seed: 0.49 + 0.1 * (-1) ** seed for seed in range(4)}}
    assert "x comes nearest to uniform with −" in Advice(source, 6, behind, behind).sentence()
    assert good.best == "x"
    assert good.sentence().startswith("Use x: +5.")


DEVICES = {"speed": 40.0, "speed_spread": 1.0, "bandwidth": 1e6, "bandwidth_spread": 0.5}


def test_with_devices_every_method_has_the_time_of_uniform(tmp_path, monkeypatch):
    few = {"uniform": load("uniform"), "fedcs": load("fedcs", deadline=20.0), "microcosm": load("microcosm")}
    monkeypatch.setattr(advisor, "allowed", lambda limits: (dict(few), {}))
    source = federation(tmp_path, devices=DEVICES, work={"megabytes": 4.5}, clients=20, rounds=10)
    advice = advise(source, seconds=0.01)
    assert advice.is_timed
    assert set(advice.seconds) == set(range(5))
    assert all(seconds > 0 for seconds in advice.seconds.values())
    assert advice.time_to_target("uniform") == 1
    assert advice.traffic("fedcs") > 1.1  # the fast play more rounds in the same time
    assert "simulated seconds" in advice.table().title
    assert [row[-2] for row in advice.table().rows if row[0] == "uniform"] == ["1.00"]
    assert advice.sentence().startswith(("Use ", "Uniform is enough", "Undecided"))


def test_small_clients_take_the_seconds_of_the_real_ones(tmp_path):
    table = [
        {"client": client, "examples_per_second": 2.0 + client, "bandwidth_down": 1e5, "bandwidth_up": 2e5}
        for client in range(12)
    ]
    source = federation(tmp_path, devices={"table": table}, work={"epochs": 3, "megabytes": 2.0}, rounds=5)
    costs = setups(source, {"uniform": load("uniform")}, 5, seed=1)["uniform"].world.costs
    sizes = source.counts.sum(axis=1)
    expected = 3 * np.maximum(sizes, 1) / (2.0 + np.arange(12)) + 2e6 / 1e5 + 2e6 / 2e5
    assert costs.seconds(np.arange(12), 0) == pytest.approx(expected, rel=1e-6)


def test_stated_devices_follow_their_clients_into_the_sample(tmp_path):
    table = [{"client": client, "examples_per_second": 1.0 + client} for client in range(12)]
    whole = federation(tmp_path, devices={"table": table})
    small = shrunk(whole, 5)
    kept = [row["examples_per_second"] - 1 for row in small.devices.table]
    assert [row["client"] for row in small.devices.table] == list(range(5))
    assert (whole.counts[np.array(kept, int)] == small.counts).all()


def test_devices_that_send_need_the_size_of_the_model(tmp_path):
    with pytest.raises(InputError, match=r"work\.megabytes must be given.*bandwidth"):
        federation(tmp_path, devices={"bandwidth": 1e6})
    with pytest.raises(InputError, match=r"pace must be left out.*devices"):
        federation(tmp_path, pace={"overselect": 1.3})


def test_a_method_that_the_pace_refuses_is_ruled_out_by_name(tmp_path):
    pace = {"kind": "buffered", "buffer": 2, "concurrency": 3, "refill": "arrival"}
    source = federation(tmp_path, devices={"speed_spread": 1.0}, pace=pace)
    can_begin, ruled_out = usable({"uniform": load("uniform"), "fedcor": load("fedcor")}, source)
    assert list(can_begin) == ["uniform"]
    assert "FedCor counts rounds" in ruled_out["fedcor"]


def test_the_time_of_a_finalist_is_of_fresh_seeds(tmp_path):
    source = federation(tmp_path, devices={"speed_spread": 1.0})
    seconds = {"uniform": dict.fromkeys(range(6), 10.0), "x": {0: 1.0, 1: 1.0, 2: 1.0, 3: 8.0, 4: 9.0, 5: 12.0}}
    assert Advice(source, 6, seconds_to_target=seconds, finalists=["x"]).time_to_target("x") == 0.9
    assert Advice(source, 6, seconds_to_target=seconds).time_to_target("x") == pytest.approx(0.45)
