from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from tests.reference.fedcor_literal import FedCorLiteral

from sortition.core import LOSS, Cohort, InputError, Measure, Population, Reading, Registrar, stream
from sortition.selectors.fedcor import FedCor
from sortition.testing import QuadraticWorld, ScriptedWorld, play
from sortition.testing.play import AnswerFaults, everybody, share_of, turns

SMALL = {"warmup": 4, "interval": 3, "dimension": 4, "steps": 20, "warmup_steps": 40, "sigma": 0.05}


def literal_cohorts(world: QuadraticWorld, rounds: int, budget: int, available, each_round: bool) -> list[list[int]]:
    """What the paper's pseudo-code chooses in a world of its own, with the registrar's streams."""
    others = {"theta": 0.9, "sigma": 0.05, "rate": 0.01, "steps": (40, 20), "each_round": each_round}
    twin = FedCorLiteral(world.population.sizes.tolist(), 4, W=4, dt=3, beta=0.9, M=(10, 1), **others)
    cohorts = []
    for t in range(rounds):

        def loss(ids: list[int], cohort: list[int] | None, t: int = t) -> dict[int, float]:
            after = None if cohort is None else Cohort.uniform(cohort)
            reading = world.measure(Measure(LOSS, np.array(ids), after), t)
            return dict(zip(reading.ids.tolist(), reading.values.tolist(), strict=True))

        chosen = twin.round(t, available(t).tolist(), budget, stream(0, "selection", t), loss)
        world.train(Cohort.uniform(chosen), (), t)
        cohorts.append(chosen)
    return cohorts


def agrees_with_the_literal_twin(share: float = 1.0, rounds: int = 14, warmup_fit: str = "end") -> bool:
    ours, theirs = (QuadraticWorld(14, kinds=4, spread=0.6, noise=0.1) for _ in range(2))
    who = share_of(ours, share) if share < 1 else everybody(ours)
    fast = play(FedCor(**SMALL, beta=0.9, warmup_fit=warmup_fit), ours, rounds, budget=3, available=who)
    return [c.ids.tolist() for c in fast] == literal_cohorts(theirs, rounds, 3, who, warmup_fit == "rounds")


@pytest.mark.parametrize("warmup_fit", ["end", "rounds"])
@pytest.mark.parametrize("share", [1.0, 0.7, 0.4])
def test_chooses_as_the_literal_twin(share: float, warmup_fit: str) -> None:
    assert agrees_with_the_literal_twin(share, warmup_fit=warmup_fit)


def test_in_warm_up_nothing_is_fitted_or_everything() -> None:
    for when, expected in (("end", [False] * 4 + [True]), ("rounds", [False] + [True] * 4)):
        cohorts = play(FedCor(**SMALL, warmup_fit=when), QuadraticWorld(12), 5, budget=3)
        assert [c.notes["fitted"] for c in cohorts] == expected


def test_a_skipped_end_of_warm_up_loses_nothing() -> None:
    nobody = np.empty(0, np.int64)
    world = QuadraticWorld(12)
    registrar = Registrar(FedCor(**SMALL), world.population)
    who = everybody(world)
    *_, last = turns(registrar, world, 6, 3, lambda t: nobody if t == 4 else who(t))
    assert last.cohort.notes["fitted"]
    assert not last.metered_questions  # three samples had been collected
    assert len(np.unique(last.state.history[:, 0])) == 3


def asked(selector: FedCor, rounds: int, world=None, **rest) -> list[list[tuple[int, int]]]:
    """Per round, for each question how many were asked and how many rehearsed."""
    world = world or QuadraticWorld(12)
    registrar = Registrar(selector, world.population, horizon=rounds)
    runs = turns(registrar, world, rounds, 3, rest.pop("available", everybody(world)), **rest)
    return [[(a.n_asked, a.n_rehearsed) for a in turn.metered_questions] for turn in runs]


def test_asks_in_warm_up_and_around_refits_only() -> None:
    quiet, refit = [], [(12, 0), (12, 3)]
    expected = [[(12, 0)]] * 5 + [quiet, refit, quiet, quiet, refit, quiet]  # W = 4 closes in round 4; then t % 3 == 0
    assert asked(FedCor(**SMALL), 11) == expected
    assert asked(FedCor(**SMALL, samples=2), 7)[6] == [(12, 0), (12, 3), (12, 3)]


def test_a_refit_from_the_real_round_rehearses_nothing() -> None:
    once = [(12, 0)]
    assert asked(FedCor(**SMALL, refit="round"), 11) == [once] * 5 + [[], once, once, [], once, once]


def test_without_warm_up_the_first_round_rehearses() -> None:
    assert asked(FedCor(**{**SMALL, "warmup": 0}), 4) == [[(12, 0), (12, 3)], [], [], [(12, 0), (12, 3)]]


def test_chooses_one_of_each_kind() -> None:
    # clients of one kind have nearly the same loss, so their changes are correlated and one of them is enough
    world = QuadraticWorld(30, kinds=3, spread=0.05)
    cohorts = play(FedCor(warmup=12, dimension=3, sigma=0.05), world, 20, budget=3)
    kinds = [len(set(world.kinds[c.ids])) for c in cohorts[12:]]
    assert np.mean(kinds) > 2.8
    assert np.mean([len(set(world.kinds[c.ids])) for c in cohorts[:12]]) < 2.6  # by lot: 3·(1 − (2/3)³) = 2.1


def test_a_small_beta_avoids_the_last_cohort() -> None:
    world = QuadraticWorld(30, kinds=3, spread=0.05)
    for beta, repeated in ((0.05, False), (1.0, True)):
        cohorts = play(FedCor(warmup=8, interval=50, dimension=3, beta=beta), world, 12, budget=3)
        both = [set(a.ids) & set(b.ids) for a, b in itertools.pairwise(cohorts[8:])]
        assert all(bool(common) == repeated for common in both)


def test_annealing_starts_again_at_each_refit() -> None:
    world = QuadraticWorld(12)
    registrar = Registrar(FedCor(**SMALL), world.population)
    chosen = [turn.state.chosen.sum() for turn in turns(registrar, world, 9, 3, everybody(world))]
    assert chosen == [0, 0, 0, 0, 3, 6, 3, 6, 9]


def test_availability_where_no_client_set_repeats() -> None:
    world = QuadraticWorld(40, kinds=4, spread=0.1)
    who = share_of(world, 0.3)
    sets = [frozenset(who(t).tolist()) for t in range(40)]
    assert len(set(sets)) == 40
    registrar = Registrar(FedCor(warmup=10, interval=3, dimension=4, sigma=0.05, history=10), world.population)
    for t, turn in enumerate(turns(registrar, world, 40, 4, who)):
        state = turn.state
        assert turn.cohort.ids.size == 4
        assert np.isfinite(state.X).all()
        assert (state.X[state.samples == 0] == 0).all()
        if turn.cohort.notes["fitted"] and t > 10:
            assert state.samples[who(t)].all()  # all who were there for a refit have an embedding from then on
    met = state.samples > 0
    X = state.X[met] / np.linalg.norm(state.X[met], axis=1, keepdims=True)
    correlation, same = X @ X.T, world.kinds[met][:, None] == world.kinds[met]
    assert met.sum() > 36
    assert correlation[same].mean() > correlation[~same].mean() + 0.3  # the kinds are found from what little was seen


def test_newcomers_bring_a_refit_forward() -> None:
    world = QuadraticWorld(12)
    half = [np.arange(6), np.arange(6, 12)]
    calls = asked(FedCor(**{**SMALL, "interval": 50}), 9, world, available=lambda t: half[t >= 7])
    assert calls[5:] == [[], [], [(6, 0), (6, 3)], []]


def test_a_round_in_which_nobody_trained_is_no_sample() -> None:
    world = QuadraticWorld(12)
    registrar = Registrar(FedCor(**SMALL), world.population)
    for turn in turns(registrar, world, 4, 3, everybody(world), AnswerFaults(silent=1.0)):
        assert not turn.cohort.notes["fitted"]
    assert len(registrar.state.history) == 0


def test_only_those_who_answered_twice_enter_a_sample() -> None:
    world = ScriptedWorld(10)
    registrar = Registrar(FedCor(**SMALL), world.population)
    evens, low = np.arange(0, 10, 2), np.arange(5)
    list(turns(registrar, world, 2, 3, lambda t: low if t else evens))
    np.testing.assert_array_equal(registrar.state.history[:, 1:3], [[1, 0], [1, 2], [1, 4]])
    np.testing.assert_array_equal(np.flatnonzero(registrar.state.samples), [0, 2, 4])


def test_the_discounted_mean_is_taken_off() -> None:
    # every loss falls by 1 each round: with its mean taken off nothing is left to explain, and embeddings shrink
    class Falling(ScriptedWorld):
        def measure(self, question: Measure, t: int) -> Reading:
            return Reading(question.ids, np.full(question.ids.size, 10.0 - t))

    sizes = {}
    for mean in ("zero", "history"):
        registrar = Registrar(FedCor(**SMALL, mean=mean), Falling(10).population)
        list(turns(registrar, Falling(10), 5, 3, everybody(Falling(10))))
        sizes[mean] = np.linalg.norm(registrar.state.X)
    assert sizes["history"] < 0.8 * sizes["zero"]


def test_notes_tell_scores_and_embeddings() -> None:
    cohort = play(FedCor(**SMALL), QuadraticWorld(12), 7, budget=3)[6]
    assert len(cohort.notes["scores"]) == 3
    assert sorted(cohort.notes["embedding"]["ids"]) == list(range(12))
    assert np.shape(cohort.notes["embedding"]["x"]) == (12, 4)


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"beta": 0.0}, "FedCor.beta must be > 0; got 0.0"),
        ({"interval": 0}, "FedCor.interval must be ≥ 1; got 0"),
        ({"noise": "white"}, "FedCor.noise must be"),
        ({"sigma": -1.0}, "FedCor.sigma must be > 0"),
        ({"warmpu": 3}, "Did you mean 'warmup'?"),
    ],
)
def test_bad_parameters(parameters: dict, sentence: str) -> None:
    with pytest.raises(InputError, match=re.escape(sentence)):
        FedCor.load(**parameters)


# -- many clients ------------------------------------------------------------------------------------------------------


class LatentWorld:
    """Loss changes that are exactly FedCor's model: Δl = Xz + noise, z of its own in every round and rehearsal."""

    def __init__(self, n_clients: int, d: int, seed: int) -> None:
        rng = stream(seed, "latent world")
        self.n_clients, self.seed = n_clients, seed
        self.X = rng.normal(size=(n_clients, d)) + 2 * rng.normal(size=(6, d))[rng.integers(6, size=n_clients)]
        self.population = Population(rng.integers(10, 100, n_clients))
        self.path = np.cumsum(rng.normal(size=(200, d)), axis=0)  # Σ z of the rounds before

    def measure(self, question: Measure, t: int) -> Reading:
        rehearsed = question.after is not None
        rng = stream(self.seed, "rehearsal" if rehearsed else "loss", t)
        z = self.path[t] + (rng.normal(size=self.X.shape[1]) if rehearsed else 0)
        loss = 100 + self.X @ z + 0.02 * rng.normal(size=self.n_clients)
        return Reading(question.ids, loss[question.ids])

    def train(self, cohort, signals, t: int) -> dict[str, Reading]:
        return {}

    def first_picks(self, cohorts: list[Cohort]) -> float:
        """The score of eq. 12 that the first pick has in truth, as a share of the best, over the cohorts."""
        p = self.population.sizes / self.population.sizes.sum()
        score = self.X @ (p @ self.X) / np.linalg.norm(self.X, axis=1)
        return float(np.mean([score[c.ids[0]] for c in cohorts]) / score.max())


def test_the_capped_form_is_close_to_the_exact_one_and_beats_subsampling() -> None:
    common = {
        "dimension": 6,
        "warmup": 12,
        "history_warmup": 12,
        "interval": 2,
        "beta": 1.0,
        "sigma": 0.05,
        "steps": 50,
    }
    common |= {"warmup_steps": 60}
    found: dict[str, list[float]] = {"exact": [], "capped": [], "subsample": []}
    for seed in range(3):
        world = LatentWorld(300, 6, seed)
        few = np.sort(stream(seed, "subsample").choice(300, 25, replace=False))
        caps = {"ask_at_most": 100, "fit_at_most": 25}
        for name, parameters, who in (
            ("exact", common, everybody(world)),
            ("capped", common | caps, everybody(world)),
            ("subsample", common, lambda t, few=few: few),
        ):
            cohorts = play(FedCor(**parameters), world, 40, budget=2, available=who)
            found[name].append(world.first_picks(cohorts[30:]))
    mean = {name: np.mean(values) for name, values in found.items()}
    assert mean["exact"] - mean["capped"] < 0.5 * (mean["exact"] - mean["subsample"]), mean
    assert mean["capped"] > mean["subsample"] + 0.05, mean


def test_at_most_so_many_are_asked_and_fitted() -> None:
    world = ScriptedWorld(60)
    registrar = Registrar(FedCor(**SMALL, ask_at_most=20, fit_at_most=8), world.population)
    for turn in turns(registrar, world, 12, 4, share_of(world, 0.8)):
        assert all(a.n_asked <= 20 for a in turn.metered_questions)
        assert np.isfinite(turn.state.X).all()
    assert registrar.state.anchor.sum() >= 8
    assert (registrar.state.samples > 0).sum() > 20  # not always the same
