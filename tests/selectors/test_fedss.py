from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference import fedss_literal as literal

from sortition.core import DISPERSION, InputError, Population, Registrar, stream
from sortition.selectors import load
from sortition.testing import QuadraticWorld, ScriptedWorld, play
from sortition.testing.play import share_of


def ask(population, available, budget, seed=0, **parameters):
    """The first cohort, and the registrar with its state."""
    registrar = Registrar(load("fedss", **parameters), population, seed=seed)
    turn = registrar.begin(np.asarray(available), budget)
    registrar.finish(turn)
    return turn.cohort, registrar


# -- the literal twin ---------------------------------------------------------------------------------------------


def agree(rounds=12, seed=0, neyman=True):
    """Play both on given groups; returns the first difference, or None."""
    rng = np.random.default_rng(seed)
    n, groups = 30, rng.integers(0, 5, 30)
    sizes = rng.integers(1, 50, n)
    parameters = {"by": "groups", "allocation": "neyman" if neyman else "proportional", "sketch": 4}
    registrar = Registrar(load("fedss", **parameters), Population(sizes, groups=groups), seed=seed)
    history, K = [], len(set(groups.tolist()))
    for t in range(rounds):
        available = np.flatnonzero(rng.random(n) < 0.6)
        budget = int(rng.integers(5, 14))
        turn = registrar.begin(available, budget)
        H = literal.spread_after(history, K) if neyman else [1.0] * K
        twin = literal.one_round(
            groups.tolist(), sizes.tolist(), available.tolist(), budget, H, stream(seed, "selection", t)
        )
        if turn.cohort.ids.tolist() != [n for n, _, _ in twin]:
            return f"round {t}: ids {turn.cohort.ids.tolist()} but {[n for n, _, _ in twin]}"
        if not np.allclose(turn.cohort.weights, [w for _, w, _ in twin], atol=1e-12):
            return f"round {t}: weights"
        # spreads that differ from stratum to stratum, so that Neyman's allocation moves
        rows = rng.normal(size=(turn.cohort.ids.size, 4)) * (1 + 3 * turn.cohort.groups[:, None])
        history.append(list(zip(turn.cohort.groups.tolist(), rows, strict=True)))
        reports = {signal.name: rows for signal in registrar.needs.reports}
        registrar.finish(turn, turn.cohort.ids, reports)
    return None


@pytest.mark.parametrize("neyman", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_agrees_with_the_literal_twin(seed, neyman):
    assert agree(seed=seed, neyman=neyman) is None


# -- Lemma 1 and Lemma 2 ------------------------------------------------------------------------------------------


def test_lemma_1_on_four_clients():
    # ω = (0, 0, 1, 1), groups {0, 1} and {2, 3}, A = {0, 1, 2}: (2/(2·3) − 1/4)·0 + (1/(2·3) − 1/4)·2 = −1/6
    assert literal.bias_of_simple_sampling([0, 0, 1, 1], [0, 0, 1, 1], {0, 1, 2}) == pytest.approx(-1 / 6)


def test_unbiased_by_enumeration_of_everything_that_can_be_available():
    # 7 clients of equal size in two groups; A^k any equally likely set of a given size, S = 3, S^k by the method.
    # Inside a stratum draws are uniform, so E[weight | A] = share_k / A^k for every available member.
    groups = np.array([0, 0, 0, 0, 1, 1, 1])
    population = Population(np.full(7, 10), groups=groups)
    expected = np.zeros(7)
    sets = [
        np.array(a + b) for a in itertools.combinations(range(4), 2) for b in itertools.combinations(range(4, 7), 2)
    ]
    for available in sets:
        cohort, _ = ask(population, available, 3, by="groups")
        seats = np.bincount(cohort.groups, minlength=2)
        share = np.bincount(cohort.groups, weights=cohort.weights, minlength=2)
        draws = [list(itertools.combinations(available[groups[available] == k], seats[k])) for k in (0, 1)]
        for first, second in itertools.product(*draws):
            for k, members in ((0, first), (1, second)):
                expected[list(members)] += share[k] / seats[k] / (len(draws[0]) * len(draws[1]) * len(sets))
    assert expected == pytest.approx(np.full(7, 1 / 7), abs=1e-12)


def test_draws_inside_a_stratum_are_uniform():
    population, hits = Population(np.ones(8, int), groups=[0] * 5 + [1] * 3), np.zeros(8)
    for seed in range(600):
        cohort, _ = ask(population, [0, 2, 3, 4, 5, 6], 3, seed=seed, by="groups")
        hits[cohort.ids] += cohort.weights
    # share 5/8 over four reachable, 3/8 over two; standard error about 0.01
    assert hits / 600 == pytest.approx([5 / 32, 0, 5 / 32, 5 / 32, 5 / 32, 3 / 16, 3 / 16, 0], abs=0.035)


def test_more_strata_than_places_stays_unbiased():
    # six owners of unequal mass for three places; owner 0 is heavier than one place in three
    sizes = np.array([50, 10, 10, 10, 10, 10])
    population, mean = Population(sizes, groups=np.arange(6)), np.zeros(6)
    for seed in range(1500):
        cohort, _ = ask(population, range(6), 3, seed=seed, by="groups")
        assert cohort.ids.size == 3
        assert cohort.weights.sum() == pytest.approx(1)
        assert cohort.notes["strata_left_out"] == 3
        mean[cohort.ids] += cohort.weights / 1500
    assert mean == pytest.approx(sizes / 100, abs=0.02)  # four standard errors
    # certain: π_0 = 1 at weight 0.5; the other two places weigh 0.25 each
    assert np.sort(cohort.weights).tolist() == pytest.approx([0.25, 0.25, 0.5])


# -- limits -------------------------------------------------------------------------------------------------------


def test_one_stratum_is_federated_averaging():
    sizes = np.array([5, 10, 20, 40, 80, 160])
    cohort, _ = ask(Population(sizes, groups=np.zeros(6, int)), range(6), 3, by="groups")
    assert cohort.weights == pytest.approx(sizes[cohort.ids] / sizes[cohort.ids].sum())


def test_clients_of_one_label_are_found_with_silhouette_one():
    counts = np.eye(6, dtype=int)[np.arange(30) % 6] * 40
    cohort, registrar = ask(Population(counts.sum(axis=1), counts), range(30), 12)
    assert cohort.notes["strata"] == 6
    assert cohort.notes["silhouette"] == pytest.approx(1.0)
    stratum = registrar.state.stratum
    for label in range(6):
        assert len(set(stratum[np.arange(30) % 6 == label].tolist())) == 1
    assert np.bincount(cohort.groups).tolist() == [2] * 6  # 12 places, equal strata


def test_equal_spreads_are_proportional_and_neyman_gives_6_and_3():
    population = Population(np.ones(100, int), groups=np.arange(100) // 50)
    cohort, registrar = ask(population, range(100), 9, by="groups", allocation="neyman", spread="dispersion")
    assert np.bincount(cohort.groups).tolist() == [5, 4]  # not yet measured: 4.5 each, the tie to the lower stratum
    turn = registrar.begin(np.arange(100), 9)
    registrar.finish(turn, turn.cohort.ids, {DISPERSION.name: np.where(turn.cohort.groups == 0, 2.0, 1.0)})
    assert np.bincount(registrar.begin(np.arange(100), 9).cohort.groups).tolist() == [6, 3]  # H = (2, 1)


def test_empty_strata_give_their_mass_in_proportion_and_are_noted():
    population = Population([10, 10, 30, 30, 20], groups=[0, 0, 1, 1, 2])
    cohort, _ = ask(population, [0, 1, 4], 2, by="groups")
    assert cohort.notes["empty_strata"] == [1]
    assert dict(zip(cohort.groups.tolist(), cohort.weights, strict=True)) == pytest.approx({0: 0.5, 2: 0.5})


def test_draws_by_size_have_no_bias_inside_a_stratum():
    # sizes 10, 20 and 60 in one stratum, 10 in the other; 2 + 1 places: π = 2·(10, 20, 60)/90, so the third is certain
    sizes = np.array([10, 20, 60, 10])
    population, mean = Population(sizes, groups=[0, 0, 0, 1]), np.zeros(4)
    for seed in range(800):
        cohort, _ = ask(population, range(4), 3, seed=seed, by="groups", draw="size")
        assert cohort.weights.sum() == pytest.approx(1)
        mean[cohort.ids] += cohort.weights / 800
    assert mean == pytest.approx(sizes / 100, abs=0.02)  # uniform draws give the first 0.9·(1/3 + 1/7)/3 = 0.14
    cohort, _ = ask(Population([0, 0, 7], groups=[0, 0, 0]), range(3), 2, by="groups", draw="size")
    assert cohort.ids.tolist() == [2]  # who has no data has no chance


def test_places_that_a_small_stratum_cannot_fill_go_to_the_others():
    population = Population(np.ones(20, int), groups=np.arange(20) // 10)
    cohort, _ = ask(population, [0, *range(10, 20)], 6, by="groups")
    assert np.bincount(cohort.groups).tolist() == [1, 5]
    assert np.bincount(cohort.groups, weights=cohort.weights) == pytest.approx([0.5, 0.5])


def test_the_mass_of_a_stratum_is_kept_when_members_fall_silent():
    population = Population(np.ones(12, int), groups=np.arange(12) // 6)
    cohort, _ = ask(population, range(12), 6, by="groups")
    answered = cohort.ids[[0, 3, 4, 5]]  # two of the first stratum's three are silent
    weights, _ = cohort.weights_of(answered)
    assert weights == pytest.approx([0.5, 1 / 6, 1 / 6, 1 / 6])


def test_clients_without_data_weigh_nothing_or_share_equally():
    cohort, _ = ask(Population([0, 0, 5, 5], groups=[0, 0, 1, 1]), range(4), 4, by="groups")
    assert cohort.weights.tolist() == [0, 0, 0.5, 0.5]
    cohort, _ = ask(Population([0, 0, 0, 0], groups=[0, 0, 1, 1]), range(4), 4, by="groups")
    assert cohort.weights.tolist() == [0.25] * 4


def test_newcomers_find_their_stratum_and_new_groups_get_one():
    registrar = Registrar(load("fedss", by="groups", allocation="neyman"), Population([1, 1], groups=[7, 9]))
    registrar.finish(registrar.begin([0, 1], 2))
    registrar.join(Population([1, 1, 1, 1], groups=[7, 9, 3, 7]))
    turn = registrar.begin([0, 1, 2, 3], 4)
    registrar.finish(turn)
    assert registrar.state.stratum.tolist() == [0, 1, 2, 0]
    counts = np.eye(3, dtype=int)[[0, 0, 1, 1, 2, 2]] * 9
    registrar = Registrar(load("fedss"), Population(counts.sum(axis=1), counts))
    registrar.finish(registrar.begin(range(6), 4))
    more = np.concatenate([counts, counts[[3]]])
    registrar.join(Population(more.sum(axis=1), more))
    registrar.finish(registrar.begin(range(7), 4))
    assert registrar.state.stratum[6] == registrar.state.stratum[3]


@given(st.integers(0, 10**6), st.integers(1, 12), st.floats(0.05, 1.0))
def test_weights_sum_to_one_and_strata_keep_their_share(seed, budget, rate):
    rng = np.random.default_rng(seed)
    groups, sizes = rng.integers(0, 4, 24), rng.integers(1, 30, 24)
    available = np.flatnonzero(rng.random(24) < rate)
    if not available.size:
        return
    cohort, _ = ask(Population(sizes, groups=groups), available, budget, seed=seed, by="groups")
    assert cohort.ids.size == min(budget, available.size)
    assert cohort.weights.sum() == pytest.approx(1)
    there = np.unique(groups[available])
    if there.size <= cohort.ids.size:
        mass = np.array([sizes[groups == g].sum() for g in there], float)
        found = [cohort.weights[groups[cohort.ids] == g].sum() for g in there]
        assert found == pytest.approx(mass / mass.sum())


def test_thirty_percent_available_and_no_set_repeats():
    world = QuadraticWorld(40, kinds=4)
    who = share_of(world, 0.3)
    cohorts = play(load("fedss", allocation="neyman"), world, 40, budget=8, available=who)
    assert len({frozenset(who(t).tolist()) for t in range(40)}) == 40
    for t, cohort in enumerate(cohorts):
        assert set(cohort.ids) <= set(who(t).tolist())
        assert cohort.ids.size == min(8, who(t).size)
        covered = {int(k) % 4 for k in cohort.ids}
        assert covered == {int(k) % 4 for k in who(t)}  # every reachable kind is sampled in every round


def test_measured_spread_is_the_sample_variance_inside_a_stratum():
    # two strata around different means: only the deviation from a stratum's own mean counts
    population = Population(np.ones(8, int), groups=np.arange(8) // 4)
    selector = load("fedss", by="groups", allocation="neyman", sketch=2)
    registrar = Registrar(selector, population)
    turn = registrar.begin(np.arange(8), 8)
    rows = np.where(turn.cohort.groups[:, None] == 0, 100.0, 0.0) + np.outer([1, -1, 1, -1] * 2, [1.0, 2.0])
    registrar.finish(turn, turn.cohort.ids, {selector.needs.reports[0].name: rows})
    # Σ‖±(1, 2)‖² = 4·5 = 20 with 3 degrees of freedom
    assert registrar.state.squares.tolist() == pytest.approx([20, 20])
    assert registrar.state.freedom.tolist() == [3, 3]


def test_noise_is_noted_and_strata_fade_with_it():
    world = ScriptedWorld(60)
    exact = play(load("fedss"), world, 1, budget=12)[0]
    assert "epsilon" not in exact.notes
    loud = play(load("fedss", epsilon=0.02), world, 1, budget=12)[0]
    assert loud.notes["epsilon"] == 0.02
    assert loud.notes["noise"] == "laplace"
    assert loud.notes["silhouette"] < exact.notes["silhouette"] - 0.2


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"epsilon": 0.0}, r"FedSS\.epsilon must be > 0"),
        ({"most": 0}, r"FedSS\.most must be ≥ 1"),
        ({"allocation": "optimal"}, r"FedSS\.allocation must be one of"),
        ({"delta": 1.0}, r"FedSS\.delta must be < 1"),
        ({"alocation": "neyman"}, "Did you mean 'allocation'"),
    ],
)
def test_bad_parameters_are_named(parameters, sentence):
    with pytest.raises(InputError, match=sentence):
        load("fedss", **parameters)
