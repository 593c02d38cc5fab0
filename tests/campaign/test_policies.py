"""The campaign's worlds keep their policies; and the oracle that says so sees a violation."""

import pytest

from campaign import policies
from sortition import Policy
from sortition.federation.policies import PolicyKeeper, Tally


@pytest.mark.parametrize("seed", [*range(20), 766])  # 766: the clock is set back while the server restarts
def test_no_policy_is_violated_in_memory(seed):
    assert policies.play(seed) == []


@pytest.mark.parametrize("seed", range(100, 104))
def test_no_policy_is_violated_by_two_jobs_on_one_ledger(seed, tmp_path):
    assert policies.play(seed, folder=tmp_path) == []


@pytest.mark.parametrize("wrong", ["separation", "participations", "lifetime", "megabytes"])
def test_a_keeper_that_forgets_a_rule_is_found_out(wrong, monkeypatch):
    whole = Tally.broken

    def forgetful(self, *args, **options):
        rule = whole(self, *args, **options)
        return None if rule is not None and rule.name == wrong else rule

    monkeypatch.setattr(Tally, "broken", forgetful)
    assert any(policies.play(seed) for seed in range(20))


@pytest.mark.parametrize("part", ["_broken_before", "_broken_by_facts"])
def test_a_keeper_that_does_not_look_at_the_hour_is_found_out(part, monkeypatch):
    whole = getattr(PolicyKeeper, part)

    def forgetful(self, *args):
        return {client: rule for client, rule in whole(self, *args).items() if rule.name != "hours"}

    monkeypatch.setattr(PolicyKeeper, part, forgetful)
    faults = [fault for seed in range(40) for fault in policies.play(seed)]
    assert any("outside of the hours" in fault for fault in faults)


def test_the_oracle_sees_each_kind_of_violation():
    def use(round_index, at, n_bytes=1, job="a"):
        return policies.Use(job, round_index, "c", "", (), at, 1, n_bytes)

    uses = [use(0, 0.0), use(1, 50.0), use(5, 100.0)]
    broken = [
        Policy(separation="2 rounds"),
        Policy(separation="1 minute"),
        Policy(participations=2, window="6 rounds"),
        Policy(participations=2, window="2 minutes"),
        Policy(megabytes=0.000002, window="2 minutes"),
        Policy(lifetime=2),
    ]
    kept = [
        Policy(separation="1 round"),
        Policy(separation="50 seconds"),
        Policy(participations=2, window="5 rounds"),
        Policy(participations=2, window="100 seconds"),
        Policy(megabytes=0.000003, window="2 minutes"),
        Policy(lifetime=3),
    ]
    assert all(policies.violations([policy], uses) for policy in broken)
    assert not policies.violations(kept, uses)
    assert not policies.violations([Policy(separation="2 rounds")], [use(0, 0.0), use(1, 0.0, job="b")])
