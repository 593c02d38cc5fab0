from __future__ import annotations

import numpy as np
import pytest
from tests.mutations import slipped
from tests.reference.feddance_literal import FedDance as Literal

from sortition.core import ACCURACY, TRAINING_LOSS, InputError, Population, Registrar, stream
from sortition.core.sampling import take_largest
from sortition.selectors import feddance, load

N, K = 15, 4
SETTINGS = {"K_h": "history", "K": "window", "beta": "participations", "falling": "falling"}


def differs(seed, rounds=50, **parameters):
    """Whether a run is not the literal twin's; some members fall silent, in every round some clients are away."""
    rng = np.random.default_rng(seed)
    selector = load("feddance", **parameters)
    twin = Literal(N, {short: getattr(selector, name) for short, name in SETTINGS.items()})
    registrar = Registrar(selector, Population(rng.integers(5, 50, N)), seed=seed)
    often = rng.random(N)
    for t in range(rounds):
        ids = np.flatnonzero(rng.random(N) < 0.2 + 0.8 * often)
        draws = stream(seed, "selection", t)
        expected = twin.select(
            ids.tolist(),
            K,
            lambda own, u, k, draws=draws: take_largest(np.array(own, int), np.array(u), k, draws).tolist(),
        )
        turn = registrar.begin(ids, K)
        if turn.cohort.ids.tolist() != expected:
            return True
        done = turn.cohort.ids[rng.random(turn.cohort.ids.size) < 0.85]
        loss, accuracy = rng.random(N) + 0.1, np.clip(t / rounds + rng.normal(0, 0.1, N), 0, 1)
        twin.feedback(expected, done.tolist(), loss.tolist(), accuracy.tolist())
        registrar.finish(turn, done, {TRAINING_LOSS.name: loss[done], ACCURACY.name: accuracy[done]})
    return False


VARIANTS = [{}, {"history": 3, "window": 1}, {"participations": 2, "falling": "size"}]


@pytest.mark.parametrize("parameters", VARIANTS, ids=str)
@pytest.mark.parametrize("seed", range(2))
def test_chooses_as_the_literal_twin(seed, parameters):
    assert not differs(seed, **parameters)


@pytest.mark.parametrize(
    ("owner", "name", "right", "wrong"),
    [
        (feddance.FedDance, "_utilities", "10.0 *", "1.0 *"),
        (feddance.FedDance, "_slopes", "counts[rows_with_two] - 1)", "counts[rows_with_two])"),
        (feddance.FedDance, "_check_in", "state.there << 1", "state.there << 0"),
        (feddance.FedDance, "observe", "feedback.cohort.ids", "feedback.ids"),
    ],
)
def test_the_twin_notices_slips(owner, name, right, wrong, monkeypatch):
    monkeypatch.setattr(owner, name, slipped(getattr(owner, name), right, wrong))
    assert any(differs(seed, **parameters) for seed in range(3) for parameters in VARIANTS)


def test_utility_by_hand():
    state = feddance.Memory(2)
    state.there[:] = [0b1011, 0]
    state.rounds[:] = [4, 0]
    state.last_participation[:] = [3, 0]
    state.loss[:] = [2.0, np.nan]
    state.accuracies = np.array([[0.7, 0.4, 0.1], [0.5, np.nan, np.nan]])
    state.mean_loss, state.mean_slope = 0.5, 0.2
    expected = [
        (1 - np.exp(-0.75 * 5)) * 2.0 * 0.3 * (1 + np.log10(10) / 40),
        (1 - np.exp(-0.5 * 5)) * 0.5 * 0.2 * (1 + np.log10(10) / 10),
    ]
    np.testing.assert_allclose(load("feddance")._utilities(state, np.arange(2), 9), expected)


def test_clients_at_work_are_there():
    selector = load("feddance")
    registrar = Registrar(selector, Population(np.ones(4)), seed=0)
    turn = registrar.begin([0, 1], 1, in_flight=[3])
    registrar.finish(turn, turn.cohort.ids, {})
    assert registrar.state.there.tolist() == [1, 1, 0, 1]


@pytest.mark.parametrize("parameters", [{"history": 63}, {"window": 0}, {"participations": 1}])
def test_bad_parameters(parameters):
    with pytest.raises(InputError, match=f"FedDance.{next(iter(parameters))} must be"):
        load("feddance", **parameters)
