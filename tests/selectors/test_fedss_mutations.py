"""The comparisons with the literal twins can fail: each of these slips in the fast code is caught by them."""

from __future__ import annotations

import pytest
from tests.mutations import slipped
from tests.selectors import test_cs_ucb_q, test_fedss

from sortition.selectors import cs_ucb_q, fedss
from sortition.selectors.fedss import allocation


def some_seed_of_fedss_differs():
    return any(test_fedss.agree(seed=seed, neyman=neyman) for seed in range(4) for neyman in (False, True))


def some_seed_of_cs_ucb_q_differs():
    return any(test_cs_ucb_q.agree(seed, beta=beta) for seed in range(3) for beta in (0.05, 0.5))


PLACES = [
    (fedss.FedSS, "_draw_from_stratum", "draw_uniformly(pool", "draw_uniformly(pool[::-1]"),  # other people
    (fedss.FedSS, "_draw_from_stratum", "if not relative_weight.any()", "if True"),  # heads, not data, inside a stratum
    (
        fedss.FedSS,
        "_allocate_seats",
        "return seats, strata.mass",
        "return seats, strata.n_known / strata.n_known.sum()",
    ),  # heads
    (allocation, "apportion", "-np.round(target", "np.round(target"),  # the smallest remainders
    (
        allocation,
        "allocate_within_caps",
        "multiplier * share, 1.0, ceiling",
        "multiplier * share, 1.0, 99.0",
    ),  # no caps
]


@pytest.mark.parametrize(("module", "name", "right", "wrong"), PLACES, ids=[place[1] for place in PLACES])
def test_a_slip_in_a_function_of_fedss_is_caught(module, name, right, wrong, monkeypatch):
    wrong_one = slipped(getattr(module, name), right, wrong)
    monkeypatch.setattr(module, name, wrong_one)
    if hasattr(fedss, name):
        monkeypatch.setattr(fedss, name, wrong_one)
    assert some_seed_of_fedss_differs()


@pytest.mark.parametrize(
    ("cls", "name", "right", "wrong", "differs"),
    [
        (
            fedss.FedSS,
            "select",
            "stratum_weight[groups] * part",
            "part / len(set(groups.tolist()))",
            some_seed_of_fedss_differs,
        ),
        (fedss.FedSS, "observe", "rows - rows.mean(axis=0)", "rows - 0.0", some_seed_of_fedss_differs),
        (fedss.FedSS, "_spreads", "np.sqrt(state.squares", "(state.squares", some_seed_of_fedss_differs),
        (cs_ucb_q.CSUCBQ, "select", "required - state.chosen", "required", some_seed_of_cs_ucb_q_differs),
        (cs_ucb_q.CSUCBQ, "select", "+ n_skipped * required", "", some_seed_of_cs_ucb_q_differs),
        (cs_ucb_q.CSUCBQ, "_optimistic_rewards", "2.0 * math.log(t)", "math.log(t)", some_seed_of_cs_ucb_q_differs),
        (cs_ucb_q.CSUCBQ, "observe", ") / state.plays[ids]", ")", some_seed_of_cs_ucb_q_differs),
    ],
)
def test_a_slip_in_a_method_is_caught(cls, name, right, wrong, differs, monkeypatch):
    monkeypatch.setattr(cls, name, slipped(getattr(cls, name), right, wrong))
    assert differs()
