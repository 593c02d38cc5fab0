"""Cohorts of several runs in one stack have the bits of each alone."""

import numpy as np
import pytest
from tests.learning.test_cohort import KEPT, RULES, X, Y

from sortition.learning import Learner, build, stacked
from sortition.learning.optimiser import state_size
from sortition.learning.together import train_together

MODELS = {
    "softmax": ("softmax", {}),
    "mlp": ("mlp", {"hidden": (9, 6)}),
    "dropout": ("mlp", {"hidden": (17,), "dropout": 0.5}),
}
NAMES = ("deltas", "losses", "steps", "examples", "dispersion", "rms_losses", "states")
EVERY = RULES | {f"kept {name}": rule for name, rule in KEPT.items()}


def cohorts(name, rule, runs, tracked=False, rounds=None):
    """One per run, each of some clients with some examples."""
    model, options = MODELS[name]
    drawn_cohorts = []
    for run in range(runs):
        rng = np.random.default_rng(run)
        learner = Learner(build(model, (12,), 4, seed=run, **options), X, Y, rule)
        ids = rng.choice(50, int(rng.integers(1, 6)), replace=False)
        members = [rng.choice(len(Y), int(rng.integers(1, 20)), replace=False) for _ in ids]
        t = rounds[run] if rounds else 3
        keys = {"seed": run, "t": t, "purpose": "train", "dispersion": tracked, "rms_losses": tracked, "rule": rule}
        if rule.keep_state:  # squares and counts are not negative
            keys["states"] = rng.integers(0, 9, (len(ids), state_size(rule, learner.layout.weights))).astype(np.float32)
        drawn_cohorts.append(
            (learner.draw_cohort(learner.initial, members, ids, **keys), (learner, members, ids, keys))
        )
    return drawn_cohorts


def alone(learner, members, ids, keys):
    return learner.train(learner.initial, members, ids, **keys)


def same(ours, theirs):
    pairs = [(getattr(ours, name), getattr(theirs, name)) for name in NAMES]
    return all((a is None and b is None) or np.array_equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("tracked", [False, True])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("rule", EVERY)
def test_the_bits_are_those_of_each_cohort_alone(rule, model, tracked):
    drawn_cohorts = cohorts(model, EVERY[rule], 9, tracked)
    train_together([cohort for cohort, _ in drawn_cohorts])
    assert all(same(cohort.trained, alone(*arguments)) for cohort, arguments in drawn_cohorts)


def test_cohorts_of_one_shape_share_a_stack(monkeypatch):
    calls = []
    train_stack = stacked.train_stack

    def counted(layers, job):
        calls.append(len(job.plans))
        return train_stack(layers, job)

    monkeypatch.setattr(stacked, "train_stack", counted)
    drawn_cohorts = [cohort for cohort, _ in cohorts("mlp", RULES["plain"], 9)]
    padded = [max(plan.index.shape[1] for plan in cohort.plans) for cohort in drawn_cohorts]
    train_together(drawn_cohorts)
    assert len(calls) == len(set(padded)) < len(drawn_cohorts)
    assert sum(calls) == sum(len(cohort.plans) for cohort in drawn_cohorts)


def test_a_round_of_another_learning_rate_trains_apart():
    rule = RULES["plain"].__class__(lr=0.1, steps=3, batch=8, decay=0.5)
    drawn_cohorts = cohorts("softmax", rule, 4, rounds=[0, 1, 1, 2])
    train_together([cohort for cohort, _ in drawn_cohorts])
    assert all(same(cohort.trained, alone(*arguments)) for cohort, arguments in drawn_cohorts)


def test_large_cohorts_and_other_engines_train_by_themselves(monkeypatch):
    monkeypatch.setattr("sortition.learning.together.MOST_SHARED_WORK", 1)
    large = cohorts("mlp", RULES["plain"], 3)
    rule = RULES["plain"]
    other = Learner(build("mlp", (12,), 4, hidden=(9,)), X, Y, rule, engine="sequential")
    members, ids = [np.arange(9)], np.array([3])
    keys = {"seed": 0, "t": 0, "purpose": "train", "dispersion": False, "rms_losses": False, "rule": rule}
    drawn_cohorts = [*large, (other.draw_cohort(other.initial, members, ids, **keys), (other, members, ids, keys))]
    monkeypatch.setattr("sortition.learning.together._train_in_one_stack", None)  # never called
    train_together([cohort for cohort, _ in drawn_cohorts])
    assert all(same(cohort.trained, alone(*arguments)) for cohort, arguments in drawn_cohorts)
