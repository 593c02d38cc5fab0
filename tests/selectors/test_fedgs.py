from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference import fedgs_literal as literal

from sortition.core import InputError, Population, Reading, Registrar
from sortition.selectors import fedgs, load
from sortition.selectors.fedgs.dispersion import disperse
from sortition.selectors.fedgs.graph import EPSILON, SIGMA2, lengths, normalise, path_distances
from sortition.testing import QuadraticWorld, ScriptedWorld, play
from sortition.testing.play import everybody, play_turn, share_of, turns

VARIANTS = [
    {"graph": "labels"},
    {"graph": "labels", "similarity": "dot", "edges": "paper", "normalisation": "population", "alpha": 50.0},
    {"graph": "features", "edges": "paper", "epsilon": 0.3, "sigma2": 0.2, "alpha": 2.0},
    {"graph": "features", "similarity": "dot", "alpha": 0.5},
    {"graph": "labels", "alpha": 0.0},
]


def facts(seed, n):
    """Label counts of which some rows repeat, features with angles of all signs, sizes."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 4, (n, 4)) * 10
    counts[n // 2 :] = counts[rng.integers(n // 2, size=n - n // 2)]
    return Population(rng.integers(5, 90, n), counts, features=rng.normal(size=(n, 3)))


def differs(seed, options, *, n=16, M=5, rounds=5, share=1.0):
    """Whether the fast method ever chooses a set that is not the best by the literal twin."""
    population, method = facts(seed, n), load("fedgs", **options)
    U = population.label_counts if method.graph == "labels" else population.features
    epsilon = EPSILON[method.edges] if method.epsilon is None else method.epsilon
    sigma2 = SIGMA2[method.edges] if method.sigma2 is None else method.sigma2
    H = literal.graph(np.asarray(U, float).tolist(), method.similarity, method.edges, epsilon, sigma2)
    twin = literal.FedGS(H, method.alpha, method.normalisation)
    registrar = Registrar(method, population, seed=seed)
    for t in range(rounds):
        available = np.flatnonzero(np.random.default_rng([seed, t]).random(n) < share)
        if available.size == 0:
            continue
        turn = registrar.begin(available, M)
        S = turn.cohort.ids.tolist()
        best, _ = twin.best(available.tolist(), M)
        if abs(twin.objective(S, len(S)) - best) > 1e-8:
            return True
        if not np.allclose(turn.cohort.weights, twin.weights(S, population.sizes.tolist())):
            return True
        registrar.finish(turn)
        twin.count(S)
    return False


@pytest.mark.parametrize("options", VARIANTS, ids=str)
@pytest.mark.parametrize(("seed", "share"), [(0, 1.0), (1, 0.6), (2, 0.3)])
def test_chooses_what_is_best_by_the_literal_twin(options, seed, share):
    assert not differs(seed, options, share=share)


def between_clients(method, population):
    """(N, N) distances between clients after one round, and the registrar."""
    registrar = Registrar(method, population)
    turn = registrar.begin(range(population.n_clients), 3)
    if turn.question is not None:
        rows = np.asarray(population.label_counts, float)[turn.question.ids]
        turn.answer(Reading(turn.question.ids, rows @ rows.T))
    registrar.finish(turn)
    kind = registrar.state.kind
    H = registrar.state.distance[np.ix_(kind, kind)]
    np.fill_diagonal(H, 0.0)
    return H


def graph_differs(seed, similarity, edges, graph="labels", epsilon=None):
    """Whether the distances between clients are not those of the literal twin."""
    least = EPSILON[edges] if epsilon is None else epsilon
    population = facts(seed, 14)
    U = population.features if graph == "features" else population.label_counts
    H = np.array(literal.graph(np.asarray(U, float).tolist(), similarity, edges, least, SIGMA2[edges]))
    method = load("fedgs", graph=graph, similarity=similarity, edges=edges, epsilon=epsilon)
    return not np.allclose(between_clients(method, population), H, atol=1e-9)


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
@pytest.mark.parametrize("edges", ["released", "paper"])
@pytest.mark.parametrize("graph", ["labels", "features", "secure"])
def test_the_graph_of_kinds_is_the_graph_of_clients(similarity, edges, graph):
    """Equal rows share a node, which changes nothing; the secure graph, which sees products only, is the same."""
    assert not any(graph_differs(seed, similarity, edges, graph, e) for seed in range(3) for e in (None, 0.9))


@given(st.lists(st.integers(0, 6), min_size=5, max_size=8), st.integers(1, 4))
@settings(max_examples=40, deadline=None)
def test_costs_are_the_variance_of_counts(counts, M):
    """Var(v + s) = const + z's / (N − 1) for every s with M ones (eq. 6, 7, 14)."""
    v = np.array(counts)
    z = fedgs.costs(v, np.arange(v.size), M)
    left = set()
    for S in combinations(range(v.size), M):
        s = np.zeros(v.size, int)
        s[list(S)] = 1
        left.add(round(float(np.var(v + s, ddof=1) - z @ s / (v.size - 1)), 9))
    assert len(left) == 1


def test_without_alpha_the_least_chosen_of_the_available_are_taken():
    world = ScriptedWorld(30)
    registrar = Registrar(load("fedgs", alpha=0.0), world.population)
    for t in range(40):
        available, before = share_of(world, 0.5)(t), registrar.state.counts.copy()
        cohort = play_turn(registrar, world, available, 6).cohort
        assert before[cohort.ids].sum() == np.sort(before[available])[:6].sum()


@pytest.mark.parametrize("alpha", [0.0, 0.001])
def test_with_everybody_there_counts_never_differ_by_more_than_one(alpha):
    world = ScriptedWorld(30)
    registrar = Registrar(load("fedgs", alpha=alpha), world.population)
    for turn in turns(registrar, world, 15, 5, everybody(world)):
        assert np.ptp(turn.state.counts) <= 1


def test_counts_even_out_under_uneven_availability():
    world = ScriptedWorld(30)
    rates = np.linspace(0.2, 1.0, 30)
    rng = np.random.default_rng(0)
    masks = rng.random((200, 30)) < rates
    counts = {}
    for name, options in (("fedgs", {"alpha": 1.0}), ("uniform", {})):
        cohorts = play(load(name, **options), world, 200, budget=5, available=lambda t: np.flatnonzero(masks[t]))
        counts[name] = np.bincount(np.concatenate([c.ids for c in cohorts]), minlength=30)
    assert counts["fedgs"].var() < counts["uniform"].var() / 10


def test_a_constant_added_to_all_counts_changes_nothing():
    world = ScriptedWorld(40)
    chosen = []
    for extra in (0, 7):
        registrar = Registrar(load("fedgs"), world.population)
        registrar.state.counts[:] = np.arange(40) % 3 + extra
        chosen.append(registrar.begin(range(40), 6).cohort.ids.tolist())
    assert chosen[0] == chosen[1]


def test_at_thirty_percent_availability_no_set_repeats():
    world = ScriptedWorld(100)
    cohorts = play(load("fedgs"), world, 30, budget=8, available=share_of(world, 0.3))
    assert len({tuple(c.ids.tolist()) for c in cohorts}) == 30


def test_kinds_of_updates_are_told_apart():
    world = QuadraticWorld(12, kinds=3, spread=0.02)
    for cohort in play(load("fedgs", graph="updates", edges="paper", alpha=5.0, sketch=None), world, 4, budget=3):
        assert sorted(world.kinds[cohort.ids]) == [0, 1, 2]


def test_the_probe_tells_kinds_of_models_apart():
    world = QuadraticWorld(12, kinds=3, spread=0.02)
    method = load("fedgs", graph="probe", edges="paper", alpha=5.0, noise_size=3, noise_mean=(0.5, -0.2, 0.1))
    for cohort in play(method, world, 4, budget=3):
        assert sorted(world.kinds[cohort.ids]) == [0, 1, 2]


@pytest.mark.parametrize("graph", ["updates", "probe"])
def test_clients_are_asked_once_when_first_met(graph):
    world = ScriptedWorld(20)
    registrar = Registrar(load("fedgs", graph=graph, noise_size=4), world.population)
    halves = [np.arange(0, 12), np.arange(6, 20), np.arange(20)]
    asked = [play_turn(registrar, world, ids, 4).metered_questions for ids in halves]
    assert [[one.n_asked for one in turn] for turn in asked] == [[12], [8], []]
    assert registrar.state.kind.min() >= 0


def test_secure_products_are_asked_only_of_pairs_that_are_unknown():
    world = ScriptedWorld(6)
    registrar = Registrar(load("fedgs", graph="secure"), world.population)
    asked = [
        play_turn(registrar, world, np.array(ids), 2).metered_questions
        for ids in ([0, 1, 2], [2, 3], [0, 1, 2], [0, 1, 2, 3])
    ]
    # client 3 met only 2, so that 0, 1 and 3 must come together once more; 2 knows everybody
    assert [[one.n_asked for one in turn] for turn in asked] == [[3], [2], [], [3]]
    assert not np.isnan(registrar.state.products[:4, :4]).any()
    assert (registrar.state.kind[4:] == -1).all()


def test_clients_who_never_answer_are_still_chosen():
    world = ScriptedWorld(10)
    registrar = Registrar(load("fedgs", graph="updates"), world.population)
    for _ in range(5):
        turn = registrar.begin(range(10), 4)
        turn.answer(Reading.empty())
        registrar.finish(turn)
    assert registrar.state.counts.tolist() == [2] * 10


@pytest.mark.parametrize(
    "counts",
    [np.full((8, 3), 5), np.zeros((8, 3), int), np.eye(8, dtype=int)],
    ids=["identical clients", "no data", "no edges"],
)
@pytest.mark.parametrize("edges", ["released", "paper"])
@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_degenerate_graphs_balance_counts(counts, edges, similarity):
    population = Population(np.ones(8), counts)
    registrar = Registrar(load("fedgs", edges=edges, similarity=similarity), population)
    for _ in range(4):
        turn = registrar.begin(range(8), 4)
        assert turn.cohort.ids.size == 4
        registrar.finish(turn)
    assert registrar.state.counts.tolist() == [2] * 8


def test_one_client_and_one_place():
    population = Population([3, 4, 5], np.eye(3, dtype=int))
    assert Registrar(load("fedgs"), Population([3], [[1, 2]])).begin([0], 5).cohort.ids.tolist() == [0]
    registrar = Registrar(load("fedgs"), population)
    seen = [play_turn_ids(registrar) for _ in range(3)]
    assert sorted(seen) == [0, 1, 2]


def play_turn_ids(registrar):
    turn = registrar.begin([0, 1, 2], 1)
    registrar.finish(turn)
    return int(turn.cohort.ids[0])


def test_a_hit_time_limit_is_noted_and_the_cohort_stands():
    world = ScriptedWorld(60)
    cohort = play(load("fedgs", time_limit=1e-9), world, 1, budget=10)[0]
    assert cohort.notes["solver"] == "time limit"
    assert cohort.ids.size == 10


def test_the_form_for_many_clients_is_near_the_exact_one_and_beats_a_subsample():
    """Of what the exact solution gains over chance: paths through all or a quarter of the clients, and a subsample."""
    rng = np.random.default_rng(0)
    n, M, few = 600, 20, 150
    counts = rng.dirichlet(np.full(10, 0.3), n)
    U = counts / np.linalg.norm(counts, axis=1, keepdims=True)
    H = path_distances(lengths(normalise(U @ U.T - np.eye(n), 0.0, 1.0), "released", 0.01, 0.1), np.ones(n, int))
    totals = np.zeros(5)
    for seed in range(3):
        everybody = Population(np.ones(n), counts)
        sample = np.random.default_rng(seed).choice(n, few, replace=False)
        plans = [("uniform", {}), ("fedgs", {"exact_up_to": 9}), ("fedgs", {"exact_up_to": 9, "nodes": few})]
        chosen = [Registrar(load(name, **p), everybody, seed=seed).begin(range(n), M).cohort.ids for name, p in plans]
        alone = Registrar(load("fedgs"), Population(np.ones(few), counts[sample]), seed=seed).begin(range(few), M)
        chosen += [sample[alone.cohort.ids], disperse(np.arange(n), np.zeros(n), H, 2 / (M * (M - 1)), M, rng).members]
        totals += [H[np.ix_(ids, ids)].sum() / (M * (M - 1)) / 3 for ids in chosen]
    whole, quarter, subsample = (totals[1:4] - totals[0]) / (totals[4] - totals[0])
    assert whole > 0.97
    assert quarter > 1.5 * subsample  # measured: 0.57 against 0.35


def test_counts_balance_among_many_clients_too():
    counts = np.random.default_rng(0).dirichlet(np.full(6, 0.5), 60)
    registrar = Registrar(
        load("fedgs", alpha=0.0, exact_up_to=9, nodes=20, shortlist=2), Population(np.ones(60), counts)
    )
    for _ in range(6):  # α = 0 and everybody there: all are chosen once before one is chosen twice
        registrar.finish(registrar.begin(range(60), 10))
    assert (registrar.state.counts == 1).all()


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"alpha": -1.0}, "FedGS.alpha"),
        ({"graph": "friends"}, "FedGS.graph"),
        ({"sigma2": 0.0}, "FedGS.sigma2"),
        ({"time_limit": 0.0}, "FedGS.time_limit"),
        ({"alhpa": 1.0}, "Did you mean 'alpha'"),
    ],
)
def test_bad_parameters(parameters, sentence):
    with pytest.raises(InputError, match=sentence):
        load("fedgs", **parameters)


def test_noise_moments_must_fit_the_input():
    with pytest.raises(InputError, match="noise_mean"):
        Registrar(load("fedgs", graph="probe", noise_size=4, noise_mean=(1.0, 2.0)), Population([1, 2]))


def test_secure_products_of_many_clients_are_refused():
    with pytest.raises(InputError, match="secure"):
        Registrar(load("fedgs", graph="secure", exact_up_to=10), Population(np.ones(11)))


def test_needs_are_the_privacy_label():
    assert load("fedgs").needs.reads == ("sizes", "label_counts")
    assert load("fedgs", graph="features").needs.reads == ("sizes", "features")
    assert load("fedgs", graph="updates").needs.individual
    assert [s.name for s in load("fedgs", graph="secure").needs.asks] == ["products"]


@pytest.mark.parametrize("exact_up_to", [10, 1000])
def test_clients_are_placed_the_same_however_many_at_a_time(exact_up_to, monkeypatch):
    world = ScriptedWorld(80)
    method = load("fedgs", exact_up_to=exact_up_to, nodes=40, shortlist=30)
    together = play(method, world, 5, available=share_of(world, 0.6))
    monkeypatch.setattr(fedgs, "CHUNK", 7)
    apart = play(method, world, 5, available=share_of(world, 0.6))
    assert [cohort.ids.tolist() for cohort in apart] == [cohort.ids.tolist() for cohort in together]
