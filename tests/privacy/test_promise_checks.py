"""Which combinations of selection and promise are unsound."""

from __future__ import annotations

import pytest

from sortition.core import Guards, InputError
from sortition.privacy import Deployment, Promises, lint
from sortition.privacy.promise_checks import REFERENCES, RULES
from sortition.selectors import discover, find, load

SECURE = Promises(secure_aggregation=True)
PRIVATE = Promises(differential_privacy="central")
AMPLIFIED = Promises(differential_privacy="central", amplification=True)
LARGE = Deployment(clients=100, cohort=10, rounds=50, guards=Guards(minimum=2, reweight="uniform"))


def rules(name, promises, deployment=LARGE, **parameters):
    """The broken rules, and those that only note something."""
    found = lint(load(name, **parameters), promises, deployment)
    assert all(key in REFERENCES for finding in found for key in finding.references)
    return {f.rule for f in found if f.unsound}, {f.rule for f in found if not f.unsound}


@pytest.mark.parametrize("name", discover())
def test_without_a_promise_nothing_is_broken_and_every_method_can_be_judged(name):
    for parameters in find(name).examples():
        selector = find(name).load(**parameters)
        assert lint(selector, Promises()) == []
        unsound = {f.rule for f in lint(selector, SECURE, LARGE) if f.unsound}
        assert ("single-updates" in unsound) == selector.needs.individual


def test_the_signal_of_hics_is_what_label_recovery_uses():
    assert rules("hics", SECURE) == ({"single-updates", "label-recovery"}, {"overlapping-sums"})
    assert rules("hics", AMPLIFIED)[0] == {"amplification", "beside-the-noise", "label-recovery"}
    cited = next(f for f in lint(load("hics"), PRIVATE) if f.rule == "label-recovery")
    assert "arXiv 2105.09369" in str(cited)
    assert "label-recovery" in rules("clustered", PRIVATE, sketch=8)[0]  # a sketch of an update is one, too


def test_informed_selection_voids_amplification():
    for informed in ("power-of-choice", "fedgs", "fedcor", "ocs"):
        assert "amplification" in rules(informed, AMPLIFIED)[0], informed
        assert "amplification" not in rules(informed, PRIVATE)[0]
    assert rules("uniform", AMPLIFIED) == (set(), {"amplification"})


def test_overlapping_sums_isolate_clients_but_whole_batches_do_not():
    assert rules("uniform", SECURE) == (set(), {"overlapping-sums"})
    assert rules("uniform", SECURE, Deployment(100, 10, 100, Guards(minimum=2)))[0] == {"overlapping-sums"}
    assert rules("uniform", SECURE, Deployment(100, 10, 1, Guards(minimum=2))) == (set(), set())
    assert rules("batch-partitioning", SECURE, Deployment(100, 10, 100, Guards(minimum=2))) == (set(), set())


def test_what_has_no_noise_is_not_covered():
    assert rules("fedss", PRIVATE)[0] == {"beside-the-noise"}
    assert rules("flips", PRIVATE, epsilon=1.0) == (set(), {"beside-the-noise"})
    assert rules("by-size", PRIVATE) == (set(), set())


def test_sums_of_one_and_rules_that_need_single_updates():
    assert "lone-sums" in rules("uniform", SECURE, Deployment(cohort=1))[0]
    assert "lone-sums" in rules("uniform", SECURE, Deployment(cohort=5))[1]
    assert rules("uniform", SECURE, Deployment(cohort=5, rounds=1, combine="median"))[0] == {"single-updates"}


def test_noise_must_fit_the_largest_weight():
    assert rules("uniform", PRIVATE, Deployment(guards=Guards(reweight="fedau")))[1] == {"sensitivity"}
    found = lint(load("uniform"), PRIVATE, Deployment(guards=Guards(reweight="fedau", cutoff=20)))
    assert "cutoff/N = 20/N" in str(found[0])


def test_bad_promises():
    with pytest.raises(InputError, match=r"privacy\.differential_privacy must be 'none' or .* got 'yes'"):
        Promises(differential_privacy="yes")
    with pytest.raises(InputError, match=r"privacy\.amplification must be false without differential_privacy"):
        Promises(amplification=True)


def test_rules_are_named_apart():
    assert len({rule.__name__ for rule in RULES}) == len(RULES)
