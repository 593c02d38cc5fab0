from __future__ import annotations

import numpy as np
import pytest
from tests.reference import clustered_literal as literal
from tests.reference import hics_literal

from sortition.core import UPDATE, InputError, Population, Registrar, Round
from sortition.selectors import clustered, load
from sortition.selectors._parts import bins
from sortition.testing import ScriptedWorld, play
from sortition.testing.play import share_of, turns

RNG = np.random.default_rng


class Still:
    """A generator that shuffles nothing, so that the order inside groups is that of the ids."""

    def random(self, size):
        return np.zeros(size)

    def permutation(self, ids):
        return ids


def angle_merges(rows):
    table = [[hics_literal.angle(u, k) for k in rows] for u in rows]
    for i in range(len(rows)):
        table[i][i] = 0.0
    return literal.ward_merges(table)


def agree(seed, n=9, m=3, large=False):
    """Both algorithms beside their twins: the first difference, or None."""
    rng = RNG(seed)
    sizes = rng.integers(1, 20, n)
    if large:
        sizes[seed % n] = 4 * sizes.sum()  # p > 1/m
    rows = rng.normal(size=(n, 4))
    rows[[seed % n, (seed + 4) % n]] = 0  # have not trained yet; three would tie in the tree
    round = Round(0, None, np.arange(n), m, Population(sizes), Still())
    state = clustered.Memory(n, update=rows)
    one = clustered.Clustered(by="size").bins(state, round).table(n)
    if not np.allclose(one, np.array(literal.algorithm_1(sizes.tolist(), m), float), atol=1e-12):
        return f"Algorithm 1: {one}"
    two = clustered.Clustered().bins(state, round).table(n)
    twin = np.array(literal.algorithm_2(sizes.tolist(), m, angle_merges(rows.tolist())), float)
    if not np.allclose(two, twin, atol=1e-12):
        return f"Algorithm 2: {two} but {twin}"
    return None


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_agrees_with_the_literal_twin(seed, large):
    assert agree(seed, large=large) is None


def test_the_released_algorithm_2_is_biased_where_a_client_exceeds_a_bin_and_ours_is_not():
    n, m = [9, 1], 2
    released = literal.algorithm_2_as_released(n, m, [(0, 1)])
    assert released == [[0, 1], [1, 0]]  # so both train every round with weight ½, though p = (.9, .1)
    assert [sum(column) / m for column in zip(*released, strict=True)] == [0.5, 0.5]
    ours = bins.fill_bins_by_groups(np.array(n), m, np.array([0, 1]), RNG(0)).table(2)
    np.testing.assert_allclose(ours.mean(axis=0), [0.9, 0.1])


def test_the_released_algorithm_2_agrees_where_no_client_exceeds_a_bin():
    for seed in range(6):
        rng = RNG(seed)
        sizes, rows = rng.integers(8, 12, 9).tolist(), rng.normal(size=(9, 3)).tolist()
        merges = angle_merges(rows)
        assert literal.algorithm_2_as_released(sizes, 3, merges) == literal.algorithm_2(sizes, 3, merges)


def test_alike_clients_share_a_distribution():
    world = ScriptedWorld(20, seed=4)  # four kinds, k mod 4
    sizes = np.full(20, 10)
    state = clustered.Memory(20, update=world.rows(UPDATE, np.arange(20), 0))
    round = Round(0, None, np.arange(20), 4, Population(sizes), RNG(0))
    table = clustered.Clustered().bins(state, round).table(20)
    for row in table:
        assert np.unique(np.flatnonzero(row) % 4).size == 1
    for _ in range(20):  # so each cohort holds one of each kind
        cohort = clustered.Clustered().select(state, Round(0, None, np.arange(20), 4, Population(sizes), round.rng))
        assert sorted(cohort.ids % 4) == [0, 1, 2, 3]


@pytest.mark.parametrize("by", ["size", "similarity"])
def test_unbiased_for_the_available(by):
    world = ScriptedWorld(30, seed=2)
    registrar = Registrar(load("clustered", by=by), world.population, seed=1)
    list(turns(registrar, world, 6, 5, share_of(world, 0.5)))
    ids = share_of(world, 0.3)(77)
    sizes = np.asarray(world.population.sizes)
    round = Round(6, None, ids, 5, Population(sizes), RNG(0))
    table = registrar.selector.bins(registrar.state, round).table(ids.size)
    np.testing.assert_allclose(table.mean(axis=0), sizes[ids] / sizes[ids].sum(), atol=1e-12)


def test_under_30_percent_availability_where_no_client_set_repeats():
    world = ScriptedWorld(40, seed=9)
    available = share_of(world, 0.3)
    sets = [tuple(available(t)) for t in range(40)]
    assert len(set(sets)) == 40
    for by in ("size", "similarity"):
        for t, cohort in enumerate(play(load("clustered", by=by), world, 40, budget=5, available=available)):
            assert set(cohort.ids) <= set(sets[t])
            assert cohort.weights.sum() == pytest.approx(1)
            np.testing.assert_allclose(cohort.weights * 5, np.rint(cohort.weights * 5), atol=1e-9)  # counts / m


def test_one_available_client_takes_all_draws():
    cohort = play(load("clustered"), ScriptedWorld(), 1, budget=4, available=lambda t: np.array([7]))[0]
    assert cohort.ids.tolist() == [7]
    assert cohort.weights.tolist() == [1.0]


def total_variance(table, rows):
    """Trace of the covariance of (1/m) Σ_k Δ_{draw k}: what clustered sampling makes small."""
    mean = table @ rows
    return float((table @ (rows**2) - mean**2).sum() / len(table) ** 2)


def test_the_form_for_many_clients_is_near_the_exact_one_and_better_than_a_subsample():
    # 600 clients of 12 kinds, tree of a sample of 60. A plain subsample of 60 is a draw of its own: its variance is
    # that of the exact method inside, plus that of the 60 as an average of all.
    rng = RNG(0)
    n, m, kinds = 600, 12, np.arange(600) % 12
    rows = rng.normal(size=(12, 8))[kinds] + 0.1 * rng.normal(size=(n, 8))
    population = Population(rng.integers(5, 60, n))
    variance = {}
    for limit in (n, 60):
        round = Round(0, None, np.arange(n), m, population, RNG(1))
        table = clustered.Clustered(exact_up_to=limit).bins(clustered.Memory(n, update=rows), round).table(n)
        np.testing.assert_allclose(table.mean(axis=0), population.sizes / population.sizes.sum(), atol=1e-12)
        variance[limit] = total_variance(table, rows)
    plain = total_variance(np.tile(population.sizes / population.sizes.sum(), (m, 1)), rows)  # draws by size
    spread = ((rows - rows.mean(axis=0)) ** 2).sum(axis=1).mean() / 60  # at least what 60 clients by lot add
    assert variance[60] < 1.2 * variance[n]
    assert variance[60] < 0.5 * (variance[n] + spread)
    assert variance[n] < 0.4 * plain


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [({"by": "label"}, "Clustered.by"), ({"gap": "cosine"}, "Clustered.gap"), ({"sketch": 0}, "Clustered.sketch")],
)
def test_bad_parameters(parameters, sentence):
    with pytest.raises(InputError, match=sentence):
        load("clustered", **parameters)


def test_by_size_asks_nothing_of_clients():
    assert load("clustered", by="size").needs.reports == ()
    assert load("clustered").needs.individual
