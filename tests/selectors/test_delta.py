from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from tests.mutations import slipped
from tests.reference.delta_literal import Delta as Literal

from sortition.core import DISPERSION, STEP_GRADIENT, UPDATE_NORM, Guards, InputError, Population, Registrar, stream
from sortition.selectors import delta, load

N, M = 11, 4


def differs(seed, by="diversity", alpha=0.8, mix=0.1, rounds=25):
    """Whether a run is not the literal twin's."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(3, 60, N)
    registrar = Registrar(load("delta", by=by, alpha=alpha, mix=mix), Population(sizes), seed=seed)
    twin = Literal(sizes.tolist(), alpha, mix, by)
    for t in range(rounds):
        here = np.flatnonzero(rng.random(N) < 0.7)
        here = here if here.size else np.arange(N)
        turn = registrar.begin(here, M)
        wanted = twin.draw(here.tolist(), stream(seed, "selection", t).random(M).tolist())
        ids = turn.cohort.ids
        if ids.tolist() != sorted(wanted) or not np.allclose(turn.cohort.weights, [wanted[k] for k in ids.tolist()]):
            return True
        g, sigma = np.round(rng.normal(size=(ids.size, 5)), 3), np.round(rng.random(ids.size) + 0.1, 3)
        given = {UPDATE_NORM.name: sigma} if by == "norm" else {STEP_GRADIENT.name: g}
        registrar.finish(turn, reports=given | ({DISPERSION.name: sigma} if by != "norm" and alpha < 1 else {}))
        twin.learn(
            dict(zip(ids.tolist(), g.tolist(), strict=True)), dict(zip(ids.tolist(), sigma.tolist(), strict=True))
        )
    return not np.allclose(registrar.state.share / N, twin.p)


@pytest.mark.parametrize(
    "settings", [{}, {"by": "norm"}, {"alpha": 1.0}, {"mix": 0.0}, {"alpha": 0.0, "mix": 0.5}], ids=str
)
def test_draws_weighs_and_learns_as_the_literal_twin(settings):
    assert not any(differs(seed, **settings) for seed in range(3))


@pytest.mark.parametrize(
    ("owner", "name", "right", "wrong"),
    [
        (delta.Delta, "select", "* counts / draws.size", "/ draws.size"),
        (delta.Delta, "select", "+ self.mix)", ")"),
        (delta.Delta, "observe", "state.share[ids].sum() * z", "z"),
        (delta, "diversity", "rows - rows.mean(axis=0)", "rows"),
        (delta, "diversity", "np.square(sigma)", "sigma"),
    ],
)
def test_a_slip_is_caught(owner, name, right, wrong, monkeypatch):
    monkeypatch.setattr(owner, name, slipped(getattr(owner, name), right, wrong))
    assert any(differs(seed) for seed in range(3))


def learnt(selector, gradients, sigma=None):
    """p after a round in which all took part."""
    gradients = np.atleast_2d(np.asarray(gradients, float))
    registrar = Registrar(selector, Population(np.ones(len(gradients))))
    for _ in range(400):  # until a cohort has everybody
        turn = registrar.begin(np.arange(len(gradients)), 20)
        if turn.cohort.ids.size == len(gradients):
            break
    spread = np.zeros(len(gradients)) if sigma is None else np.asarray(sigma, float)
    given = {
        STEP_GRADIENT.name: gradients,
        DISPERSION.name: spread,
        UPDATE_NORM.name: np.linalg.norm(gradients, axis=1),
    }
    registrar.finish(turn, reports={s.name: given[s.name] for s in selector.needs.reports})
    return registrar.state.share / len(gradients)


def test_the_papers_toy_of_three_parabolas():
    """10x², 3(x + 8)², 3(x − 8)² at x = −2: FedIS favours the two long ones, DELTA the two that disagree (Fig. 4)."""
    gradients = [[-40.0], [36.0], [-60.0]]
    assert learnt(load("delta", by="norm"), gradients) == pytest.approx([0.294, 0.265, 0.441], abs=1e-3)
    assert learnt(load("delta", alpha=1.0), gradients) == pytest.approx([0.163, 0.500, 0.337], abs=1e-3)


def test_probabilities_by_hand_and_their_variance():
    z = np.array([0.5, 1, 2, 4])
    p = learnt(load("delta", by="norm"), z[:, None])
    assert p == pytest.approx([0.0667, 0.1333, 0.2667, 0.5333], abs=1e-4)
    assert (4 * (z**2).sum()) / z.sum() ** 2 == pytest.approx(1.5111, abs=1e-4)  # the paper's ratio, uniform over DELTA
    assert (z**2 * 4).sum() / (z**2 / p).sum() == pytest.approx(1.5111, abs=1e-4)  # Σ z²/p is that of the draws


def test_clients_that_are_alike_keep_what_they_have():
    alike = np.full((4, 3), 0.1)
    assert learnt(load("delta"), alike) == pytest.approx(np.full(4, 0.25))  # all z are 0
    assert learnt(load("delta"), alike, [2, 2, 2, 2]) == pytest.approx(np.full(4, 0.25))
    assert learnt(load("delta", alpha=0.5), alike, [1, 1, 1, 3]) == pytest.approx([1 / 6, 1 / 6, 1 / 6, 0.5])
    centred = np.array([[1.0, 0], [-1, 0], [0, 3], [0, -3]])  # mean 0: DELTA without variance is FedIS
    assert learnt(load("delta", alpha=1.0), centred) == pytest.approx(learnt(load("delta", by="norm"), centred))


def test_only_participants_change_and_the_total_stays():
    registrar = Registrar(load("delta", by="norm"), Population(np.ones(N)))
    rng = np.random.default_rng(1)
    for _ in range(30):
        before = registrar.state.share.copy()
        turn = registrar.begin(np.arange(N), M)
        registrar.finish(turn, reports={UPDATE_NORM.name: rng.random(turn.cohort.ids.size)})
        away = np.setdiff1d(np.arange(N), turn.cohort.ids)
        assert (registrar.state.share[away] == before[away]).all()
        assert registrar.state.share.sum() == pytest.approx(N)


def test_draws_with_replacement_are_unbiased_and_distinct_ones_are_not():
    share, updates = np.array([0.4, 0.3, 0.2, 0.1]), np.array([1.0, -2.0, 5.0, 3.0])
    means = {}
    for draw in ("replacement", "distinct"):
        registrar, total = Registrar(load("delta", by="norm", draw=draw, mix=0.0), Population(np.ones(4))), np.zeros(4)
        for _ in range(6000):
            registrar.state.share[:] = 4 * share
            turn = registrar.begin(np.arange(4), 2)
            assert turn.cohort.mass == "expected"
            total[turn.cohort.ids] += turn.cohort.weights
            registrar.finish(turn)
        means[draw] = total / 6000
    assert means["replacement"] == pytest.approx(np.full(4, 0.25), abs=0.02)
    assert means["replacement"] @ updates == pytest.approx(updates.mean(), abs=0.1)
    chance = {
        i: sum(share[a] * share[b] / (1 - share[a]) for a, b in permutations(range(4), 2) if i in (a, b))
        for i in range(4)
    }
    assert [chance[i] for i in range(4)] == pytest.approx([0.72, 0.61, 0.44, 0.23], abs=0.01)
    assert means["distinct"] == pytest.approx([chance[i] / (2 * 4 * share[i]) for i in range(4)], abs=0.02)


def test_nobody_falls_out_and_clients_join():
    registrar = Registrar(load("delta", by="norm", mix=0.2), Population(np.ones(4)))
    turn = registrar.begin(np.arange(4), 40)
    registrar.finish(turn, reports={UPDATE_NORM.name: np.where(turn.cohort.ids == 0, 1.0, 0.0)})
    assert registrar.state.share.tolist() == [4, 0, 0, 0]
    assert registrar.begin(np.arange(4), 5).cohort.notes["smallest"] == pytest.approx(0.2 / 4)
    registrar.join(Population(np.ones(5)))
    assert registrar.state.share[4] == 1
    assert registrar.begin([1, 2], 3).cohort.weights.sum() == pytest.approx(1)


@pytest.mark.parametrize("by", ["diversity", "norm"])
@pytest.mark.parametrize("size", [5e-324, 1e-320, 1e-310, 1e-160, 1e170, 8e307])
def test_lengths_at_the_ends_of_the_floats_leave_probabilities(by, size):
    registrar = Registrar(load("delta", by=by, alpha=1.0), Population(np.ones(6)), guards=Guards(bound=0))
    for t in range(4):
        turn = registrar.begin(np.arange(6), 4)
        ids = turn.cohort.ids
        values = size * (1 - 0.1 * np.arange(ids.size)) if t else np.full(ids.size, size)
        four = np.stack([values / 2] * 4, axis=1)  # as long as the values
        registrar.finish(turn, reports={UPDATE_NORM.name: values} if by == "norm" else {STEP_GRADIENT.name: four})
        assert (registrar.state.share >= 0).all()
        assert registrar.state.share.sum() == pytest.approx(6, rel=0.01)  # a subnormal has few digits


def test_needs_and_bad_parameters():
    assert not load("delta", by="norm").needs.individual
    assert load("delta").needs.individual
    with pytest.raises(InputError, match=r"Delta.alpha must be ≤ 1"):
        load("delta", alpha=2.0)
