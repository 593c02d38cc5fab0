from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import DBSCAN
from tests.mutations import slipped
from tests.reference.pisces_literal import Pisces as Literal

from sortition.core import RMS_LOSSES, InputError, Population, Registrar, stream
from sortition.core.sampling import draw_uniformly, take_largest
from sortition.selectors import load, pisces

N, K = 20, 6
RMS = RMS_LOSSES["all"].name
SETTINGS = {
    "epsilon": "exploration", "least": "least_exploration", "decay": "decay", "lags": "lags", "beta": "beta",
    "speed": "speed_penalty", "outliers": "outliers", "most": "most_strikes",
}  # fmt: skip


def differs(seed, steps=60, **parameters):
    """Whether a run with work in flight is not the literal twin's; some of the work fails."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(5, 50, N)
    selector = load("pisces", **parameters)
    twin = Literal(sizes.tolist(), {short: getattr(selector, name) for short, name in SETTINGS.items()})
    registrar = Registrar(selector, Population(sizes), seed=seed)
    clock = 0.0
    for t in range(steps):
        busy = registrar.in_flight
        places = K - busy.size
        idle = np.setdiff1d(np.flatnonzero(rng.random(N) < 0.8), busy)
        if places < 1 or not idle.size:
            return True
        draws = stream(seed, "selection", t)
        expected = twin.select(
            idle.tolist(),
            places,
            busy.size,
            lambda m, p, draws=draws: int(draws.binomial(m, p)),
            lambda ids, scores, k, draws=draws: take_largest(
                np.array(ids, int), np.array(scores, float), k, draws
            ).tolist(),
            lambda ids, k, draws=draws: draw_uniformly(np.array(ids, int), k, draws).tolist(),
        )
        turn = registrar.begin(idle, places, clock=clock)
        if turn.cohort.ids.tolist() != expected:
            return True
        registrar.dispatch(turn)
        clock += float(rng.random() + 0.5)
        flying = registrar.in_flight
        arrived = np.sort(rng.permutation(flying)[: 1 + rng.integers(flying.size)])
        failed = arrived[rng.random(arrived.size) < 0.15]
        done = np.setdiff1d(arrived, failed)
        if failed.size:
            registrar.give_up(failed, "it broke")
        lags = dict(zip(done.tolist(), registrar.staleness(done).tolist(), strict=True))
        rms = rng.random(N) * 2 + 0.1 + 5 * (np.arange(N) == 3)
        took = rng.lognormal(0, 1, N)
        step = registrar.receive(done, {RMS: dict(zip(done.tolist(), rms[done], strict=True))}, durations=took[done])
        concurrency = places + busy.size
        version = registrar.version - 1
        twin.feedback(step.cohort.ids.tolist(), done.tolist(), rms, lags, took, version, concurrency)
    return False


VARIANTS = [
    {},
    {"beta": 2.0, "lags": 1, "exploration": 0.3},
    {"speed_penalty": 0.5, "decay": 0.7, "least_exploration": 0.05},
    {"outliers": True, "most_strikes": 2, "exploration": 0.5, "decay": 0.8},
]


@pytest.mark.parametrize("parameters", VARIANTS, ids=str)
@pytest.mark.parametrize("seed", range(2))
def test_chooses_as_the_literal_twin(seed, parameters):
    assert not differs(seed, **parameters)


@pytest.mark.parametrize(
    ("owner", "name", "right", "wrong"),
    [
        (pisces.Pisces, "_scores", "** self.beta", "** 1.5"),
        (pisces.Pisces, "observe", "state.lags[feedback.ids, 0] = feedback.staleness", "pass"),
        (pisces.Pisces, "observe", "= 0.0", "= np.nan"),
        (pisces.Pisces, "_epsilon", "self.decay**selection", "1"),
    ],
)
def test_the_twin_notices_slips(owner, name, right, wrong, monkeypatch):
    monkeypatch.setattr(owner, name, slipped(getattr(owner, name), right, wrong))
    assert any(differs(seed, **parameters) for seed in range(2) for parameters in VARIANTS)


def test_outliers_are_those_of_dbscan():
    rng = np.random.default_rng(0)
    for neighbours in (1, 2, 4, 7):
        losses = rng.gamma(1.0, 2.0, 40)
        labels = DBSCAN(eps=pisces.RADIUS, min_samples=neighbours).fit(losses[:, None]).labels_
        np.testing.assert_array_equal(pisces.is_outlier(losses, neighbours), labels == -1)


def test_stale_clients_lose_by_the_root():
    """A client whose updates were three versions old counts half."""
    lags = np.array([[3.0, np.nan], [0.0, 6.0], [np.nan, np.nan]])
    assert pisces.expected_lag(lags).tolist() == [3.0, 3.0, 0.0]
    state = pisces.Memory(3)
    state.utility[:] = 8.0
    state.lags = lags
    selector = load("pisces")
    np.testing.assert_allclose(selector._scores(state, np.arange(3), None), [4.0, 4.0, 8.0])


def test_exploration_falls_to_its_floor():
    selector = load("pisces")
    assert selector._epsilon(0) == 0.9
    assert selector._epsilon(1) == pytest.approx(0.882)
    assert selector._epsilon(1000) == 0.3
    assert load("pisces", exploration=0.1)._epsilon(50) == pytest.approx(0.1)


@pytest.mark.parametrize("parameters", [{"beta": -1}, {"lags": 0}, {"decay": 0.0}, {"least_exploration": 2.0}])
def test_bad_parameters(parameters):
    with pytest.raises(InputError, match=f"Pisces.{next(iter(parameters))} must be"):
        load("pisces", **parameters)
