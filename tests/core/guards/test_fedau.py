"""FedAU: weights by the mean interval of participation, for any selector."""

from __future__ import annotations

import numpy as np
import pytest
from tests.mutations import slipped
from tests.reference import fedau_literal as literal

from sortition.core import Guards, Population, Registrar, StorageError
from sortition.core.guards.fedau import Intervals
from sortition.core.storage import snapshot
from sortition.selectors import load

FEDAU = Guards(reweight="fedau", cutoff=6)


def differs(seed, rounds=60, clients=9):
    """Whether weights are not the literal twin's; some members fall silent, in some rounds nobody is available."""
    rng = np.random.default_rng(seed)
    registrar = Registrar(load("uniform"), Population(rng.integers(5, 50, clients)), guards=FEDAU, seed=seed)
    twins = [literal.Client(FEDAU.cutoff) for _ in range(clients)]
    for t in range(rounds):
        turn = registrar.begin(np.flatnonzero(rng.random(clients) < (0 if t % 7 == 3 else 0.6)), 3)
        if not np.allclose(turn.cohort.weights, literal.weights(twins, turn.cohort.ids.tolist()), rtol=1e-12):
            return True
        done = turn.cohort.ids[rng.random(turn.cohort.ids.size) < 0.8]
        registrar.finish(turn, done)
        for n, twin in enumerate(twins):
            twin.after(n in done)
    return False


def test_weighs_as_the_literal_twin():
    assert not any(differs(seed) for seed in range(6))


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("record", "self.rounds_open[ends]) / (count + 1)", "self.rounds_open[ends]) / np.maximum(count, 1)"),
        ("record", "self.rounds_open >= self.cutoff", "self.rounds_open > self.cutoff"),
        ("record", "self.rounds_open[ends] = 0", "self.rounds_open[used] = 0"),
        ("weights", "/ self.mean.size", "/ ids.size"),
    ],
)
def test_a_slip_is_caught(name, right, wrong, monkeypatch):
    monkeypatch.setattr(Intervals, name, slipped(getattr(Intervals, name), right, wrong))
    assert any(differs(seed) for seed in range(3))


@pytest.mark.parametrize(("cutoff", "last"), [(50, 2.0), (0, 2.0), (3, 2.25)])
def test_intervals_by_hand(cutoff, last):
    intervals, used = Intervals(cutoff, 1), []
    for took_part in (0, 0, 1, 0, 1, 1, 0, 0, 0, 0):
        used.append(float(intervals.weights(np.array([0]))[0]))
        intervals.record(np.arange(took_part))
    assert used == [1, 1, 1, 3, 3, 2.5, 2, 2, 2, last]


@pytest.mark.parametrize(
    ("p", "cutoff", "limit"), [(0.1, 50, 9.948), (0.02, 50, 31.79), (0.1, 10, 6.513), (0.5, 5, 1.9375), (1.0, 50, 1)]
)
def test_the_mean_interval_of_coin_flips(p, cutoff, limit):
    rng, intervals = np.random.default_rng(0), Intervals(cutoff, 200)
    for _ in range(2500):
        intervals.record(np.flatnonzero(rng.random(200) < p))
    assert (1 - (1 - p) ** cutoff) / p == pytest.approx(limit, rel=1e-3)
    pooled = np.average(intervals.mean, weights=intervals.n_closed)  # clients with few intervals have longer ones
    assert pooled == pytest.approx(limit, rel=0.01)
    assert ((intervals.mean >= 1) & (intervals.mean <= cutoff)).all()


def test_two_clients_of_unequal_presence_count_alike():
    """Optima 0 and 1, present with 0.9 and 0.1: the mean over those present stays near 0.06, FedAU goes to 0.5."""
    ends = {}
    for rule, guards in (("mean", Guards()), ("fedau", Guards(reweight="fedau"))):
        registrar = Registrar(load("full"), Population([1, 1]), guards=guards)
        rng, x, path = np.random.default_rng(5), 0.5, []
        for _ in range(9000):
            turn = registrar.begin(np.flatnonzero(rng.random(2) < (0.9, 0.1)), 2)
            x += 0.02 * float(turn.cohort.weights @ (np.array([0.0, 1.0])[turn.cohort.ids] - x))
            registrar.finish(turn)
            path.append(x)
        ends[rule] = np.mean(path[3000:])
    assert ends["mean"] == pytest.approx(0.0604, abs=0.01)
    assert ends["fedau"] == pytest.approx(0.5, abs=0.03)


def test_the_mass_is_one_in_the_mean_and_never_rescaled():
    registrar, masses = Registrar(load("uniform"), Population(np.ones(20)), guards=Guards(reweight="fedau")), []
    for _ in range(600):
        turn = registrar.begin(np.arange(20), 4)
        assert turn.cohort.mass == "expected"
        masses.append(turn.cohort.weights.sum())
        registrar.finish(turn)
    assert masses[0] == pytest.approx(4 / 20)  # ω = 1 before the first interval
    assert np.mean(masses[200:]) == pytest.approx(1, abs=0.03)


def test_a_selection_goes_on_with_its_intervals(tmp_path):
    def begun(rounds, stop=None):
        registrar, found = Registrar(load("uniform"), Population(np.ones(12)), guards=FEDAU), []
        for t in range(rounds):
            if t == stop:
                registrar.save(tmp_path / "saved.npz")
                registrar = Registrar.load(tmp_path / "saved.npz", load("uniform"), Population(np.ones(12)))
            turn = registrar.begin(np.arange(12), 3)
            found.append((turn.cohort.ids.tolist(), turn.cohort.weights.tolist()))
            registrar.finish(turn)
        return registrar, found

    registrar, straight = begun(10)
    assert begun(10, stop=6)[1] == straight
    before = registrar.eligibility.intervals.mean.copy()
    registrar.join(Population(np.ones(15)))
    assert registrar.eligibility.intervals.mean.tolist() == [*before, 1, 1, 1]
    assert registrar.begin([14], 1).cohort.weights.tolist() == [1 / 15]
    arrays, header = registrar.export()
    snapshot.save(tmp_path / "bad.npz", arrays | {"intervals.closed": np.full(15, -1)}, header)
    with pytest.raises(StorageError, match=r"intervals\.closed with numbers that are not"):
        Registrar.load(tmp_path / "bad.npz", load("uniform"), Population(np.ones(15)))
