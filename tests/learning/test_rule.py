import pytest

from sortition.core.errors import InputError
from sortition.learning import LocalRule


def test_learning_rate_of_a_round():
    assert LocalRule(lr=0.1, steps=1, decay=0.5).lr_at(3) == pytest.approx(0.0125)
    halved = LocalRule(lr=0.005, steps=1, milestones=(150, 300))  # FedCor's Fashion-MNIST schedule
    assert [halved.lr_at(t) for t in (0, 149, 150, 299, 300)] == pytest.approx([0.005, 0.005, 0.0025, 0.0025, 0.00125])
    every = LocalRule(lr=1.0, steps=1, decay=0.5, decay_every=10)  # HiCS-FL's
    assert [every.lr_at(t) for t in (9, 10, 25)] == [1.0, 0.5, 0.25]


def test_steps_of_a_client():
    rule = LocalRule(lr=1.0, epochs=3, batch=64)
    assert [rule.steps_of(n) for n in (1, 64, 65, 480)] == [3, 3, 6, 24]  # FedCor: 3 epochs of 480/64 are 24 steps
    assert LocalRule(lr=1.0, epochs=3, batch=None).steps_of(480) == 3


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "LocalRule must be given either steps or epochs"),
        ({"steps": 1, "epochs": 1}, "either steps or epochs"),
        ({"steps": 0}, "LocalRule.steps must be a whole number ≥ 1; got 0."),
        ({"steps": 1, "batch": 1.5}, "LocalRule.batch must be"),
        ({"steps": 1, "lr": float("nan")}, "LocalRule.lr must be finite and > 0"),
        ({"steps": 1, "lr": "0.1"}, "LocalRule.lr must be a number; got '0.1'"),
        ({"steps": 1, "proximal": None}, "LocalRule.proximal must be a number; got None"),
        ({"steps": 1, "milestones": 3}, "LocalRule.milestones must be a list of rounds; got 3"),
        ({"steps": 1, "momentum": 1.0}, r"LocalRule.momentum must be in \[0, 1\)"),
        ({"steps": 1, "proximal": -1.0}, "LocalRule.proximal must be finite and ≥ 0"),
        ({"steps": 1, "milestones": (-1,)}, "LocalRule.milestones must be rounds ≥ 0"),
        ({"steps": 1, "optimizer": "adma"}, "Did you mean 'adam'"),
        ({"steps": 1, "optimizer": "adam", "momentum": 0.9}, "LocalRule.momentum must be 0 with optimizer = 'adam'"),
        ({"steps": 1, "keep_state": True}, "LocalRule.keep_state must be false where the optimizer has no state"),
        ({"steps": 1, "momentum": 0.9, "keep_state": 1}, "LocalRule.keep_state must be true or false"),
    ],
)
def test_bad_rules_are_refused(fields, message):
    with pytest.raises(InputError, match=message):
        LocalRule(**{"lr": 0.1, **fields})
