from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax
from scipy.stats import spearmanr
from tests.reference import clustered_literal
from tests.reference import hics_literal as literal

from sortition.core import BIAS_UPDATE, InputError, Population, Registrar, Round, stream
from sortition.selectors import hics, load
from sortition.selectors.hics import HiCS, entropy_estimate, selection_odds
from sortition.studies import build_federation
from sortition.studies.plan import plan
from sortition.testing import ScriptedWorld, play
from sortition.testing.play import everybody, share_of, turns

RNG = np.random.default_rng
ROWS = st.lists(st.floats(-1, 1), min_size=3, max_size=8).map(np.array)


# -- the literal twin ---------------------------------------------------------------------------------------------


class Varied(ScriptedWorld):
    """Clients whose updates have no kinds: every detail of the distance moves the groups."""

    def rows(self, signal, ids, t):
        rng = stream(self.seed, "varied", t)
        return (rng.normal(size=(self.n_clients, 4)) * rng.uniform(0.1, 1.5, (self.n_clients, 1)))[ids]


def agree(seed, share=1.0, linkage="ward", within="size", rounds=14):
    """Play HiCS beside its twin: the first difference in who may come, how many are forced and π·p̃, or None."""
    world, K = Varied(18, seed=seed), 4
    parameters = {"temperature": 0.4, "lam": 2.0, "gamma0": 3.0, "linkage": linkage, "within": within, "clusters": 5}
    registrar = Registrar(HiCS(**parameters), world.population, horizon=rounds, seed=seed)
    delta_b, law = {}, {}
    draw = hics.draw_weighted

    def watched(ids, weights, k, rng):
        law.update(zip(ids.tolist(), weights.tolist(), strict=True))
        return draw(ids, weights, k, rng)

    available = share_of(world, share, seed) if share < 1 else everybody(world)
    sizes = world.population.sizes.tolist()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hics, "draw_weighted", watched)
        for t, turn in enumerate(turns(registrar, world, rounds, K, available)):
            if turn.round is None:
                continue
            ids = turn.round.available.tolist()
            S0, forced, want = literal.one_round(
                t + 1, rounds, 18, K, ids, delta_b, sizes, Temp=0.4, lam=2.0, gamma0=3.0, M=5,
                linkage=linkage, by_size=within == "size",
            )  # fmt: skip
            chosen = turn.cohort.ids.tolist()
            if len(set(chosen) & set(S0)) != forced or len(chosen) != (min(K, len(ids)) if want else forced):
                return f"round {t}: chose {chosen}, of whom {forced} of {S0} are forced"
            if set(law) != set(want or {}) or any(abs(law[k] - p) > 1e-9 for k, p in (want or {}).items()):
                return f"round {t}: odds {law} but {want}"
            law.clear()
            rows = world.rows(BIAS_UPDATE, turn.cohort.ids, t)
            delta_b.update(zip(chosen, rows.tolist(), strict=True))
    return None


@pytest.mark.parametrize(
    ("share", "linkage", "within"), [(1.0, "ward", "size"), (0.5, "ward", "uniform"), (0.6, "average", "size")]
)
@pytest.mark.parametrize("seed", range(3))
def test_agrees_with_the_literal_twin(seed, share, linkage, within):
    assert agree(seed, share, linkage, within) is None


def test_one_weighted_draw_is_the_papers_loop_of_draws():
    # "draw a group, draw a client, until K are together" against exponential keys on π·p̃: all 10 sets of 3 of 5
    entropy, groups, sizes = np.array([0.1, 0.2, 1.5, 1.4, 0.1]), np.array([0, 0, 1, 1, 2]), np.array([1, 3, 2, 2, 5])
    law = selection_odds(entropy, groups, sizes, 1.5)
    exact = {
        S: literal.chance_of_set(dict(enumerate(law.tolist())), list(S)) for S in itertools.combinations(range(5), 3)
    }
    assert sum(exact.values()) == pytest.approx(1)
    rng, draws = RNG(0), 20_000
    seen = dict.fromkeys(exact, 0)
    for _ in range(draws):
        seen[tuple(sorted(hics.draw_weighted(np.arange(5), law, 3, rng).tolist()))] += 1
    chi2 = sum((seen[S] - draws * p) ** 2 / (draws * p) for S, p in exact.items())
    assert chi2 < 27.9  # 99.9 % of χ² with 9 degrees of freedom


# -- the estimate of heterogeneity --------------------------------------------------------------------------------


def test_entropy_by_hand():
    # softmax of (ln 2, 0, 0) is (½, ¼, ¼): H = 1.5 ln 2
    assert entropy_estimate(np.array([[math.log(2), 0, 0]]) * 0.01, 0.01)[0] == pytest.approx(1.5 * math.log(2))
    assert entropy_estimate(np.zeros((1, 10)), 0.0025)[0] == pytest.approx(math.log(10))


@given(ROWS, st.floats(0.001, 10), st.floats(-5, 5))
def test_entropy_is_bounded_and_blind_to_a_constant(row, temperature, shift):
    H = entropy_estimate(row[None], temperature)[0]
    assert -1e-9 <= H <= math.log(row.size) + 1e-9
    assert pytest.approx(literal.H_hat(row.tolist(), temperature), abs=1e-9) == H
    assert entropy_estimate(row[None] + shift, temperature)[0] == pytest.approx(H, abs=1e-6)


def test_entropy_at_the_ends_of_temperature():
    rows = np.array([[3.0, 1.0, -1.0, 0.5]])
    assert entropy_estimate(rows, 1e9)[0] == pytest.approx(math.log(4))
    assert entropy_estimate(rows, 1e-4)[0] == pytest.approx(0, abs=1e-12)


def biases_after(local, bias):
    """Δb of 20 clients after softmax regression on digits from zero weights and this bias, and their D (20, 10)."""
    partition = {"name": "dirichlet-blocks", "alphas": [0.01, 0.3, 10.0]}
    study = {
        "cohort": 4,
        "rounds": 1,
        "method": [{"name": "uniform"}],
        "data": {"name": "digits", "clients": 20, "partition": partition},
        "model": {"name": "softmax"},
        "local": local,
    }
    world = build_federation.setup(plan(study).runs[0])[1].world
    params = np.zeros(650, np.float32)  # 64 weights and a bias for each of ten digits, biases last
    params[-10:] = bias
    rows = world.train(params, np.arange(20), (BIAS_UPDATE,), 0).reports[BIAS_UPDATE.name].values
    return rows, world.label_counts / world.label_counts.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("bias", [np.zeros(10), np.linspace(-1, 1, 10)])
def test_the_expectation_of_eq_6_on_a_linear_model(bias):
    # E[Δb_i] = η·(steps)·(D_i Σ_c E_c − E_i), where E_c is the output for class c: softmax(bias) from zero weights.
    # Exact for one step on all of a client's data, and to first order in η for many small ones
    E = softmax(bias)
    one, D = biases_after({"steps": 1, "batch": 2000, "lr": 0.05}, bias)
    np.testing.assert_allclose(one, 0.05 * (D * E.sum() - E), atol=1e-6)
    many, _ = biases_after({"steps": 20, "batch": 2000, "lr": 1e-4}, bias)
    np.testing.assert_allclose(many / (20 * 1e-4), D * E.sum() - E, atol=0.01)
    np.testing.assert_allclose(one.sum(axis=1), 0, atol=1e-6)


def test_the_estimate_ranks_clients_by_their_label_entropy():
    rows, D = biases_after({"epochs": 2, "batch": 20, "lr": 0.01}, np.zeros(10))
    truth = -(D * np.log(np.maximum(D, 1e-300))).sum(axis=1)
    assert np.ptp(truth) > 1.5
    assert spearmanr(truth, entropy_estimate(rows, 0.02)).statistic > 0.8


# -- groups and draws ---------------------------------------------------------------------------------------------


def test_odds_by_hand():
    # H̄ = (0.5, 1.5), γ = 2: π_1/π_0 = e^2; inside by size 1:3 and alone
    got = selection_odds(np.array([0.4, 0.6, 1.5]), np.array([0, 0, 1]), np.array([10, 30, 7]), 2.0)
    pi = 1 / (1 + math.exp(2))
    np.testing.assert_allclose(got, [pi / 4, 3 * pi / 4, 1 - pi])


def test_in_the_last_round_groups_are_alike():
    world = ScriptedWorld(20, seed=1)
    state = hics.Memory(20, update=world.rows(BIAS_UPDATE, np.arange(20), 0), entropy=np.linspace(0, 2, 20))
    population, rng = Population(world.population.sizes), RNG(0)
    laws = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            hics,
            "selection_odds",
            lambda *arguments: laws.append((arguments[1], selection_odds(*arguments))) or laws[-1][1],
        )
        last = HiCS(gamma0=50.0).select(state, Round(99, 100, np.arange(20), 4, population, rng))
    assert last.notes["gamma"] == 0
    groups, law = laws[0]
    np.testing.assert_allclose(np.bincount(groups, law), 1 / 4)
    none = HiCS(gamma0=50.0).select(state, Round(99, None, np.arange(20), 4, population, rng))
    assert none.notes["gamma"] == 50
    assert "horizon" in none.notes


def test_a_strong_preference_takes_the_balanced():
    entropy = np.where(np.arange(40) < 8, 2.0, 0.1)
    rows = np.tile(RNG(0).normal(size=10), (40, 1)) + 0.01 * RNG(1).normal(size=(40, 10))
    state = hics.Memory(40, update=rows, entropy=entropy)
    round = Round(20, 1000, np.arange(40), 4, Population(np.full(40, 10)), RNG(0))
    assert (HiCS(gamma0=30.0).select(state, round).ids < 8).all()


def test_zero_sizes_inside_a_group_do_not_stop_it():
    got = selection_odds(np.array([1.0, 1.0, 1.0]), np.array([0, 0, 1]), np.array([0, 0, 5]), 0.0)
    np.testing.assert_allclose(got, [0.25, 0.25, 0.5])


# -- warm-up, newcomers, silence ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "K"), [(20, 5), (22, 5), (7, 3), (4, 10)])
def test_after_the_warm_up_everybody_was_chosen_once(n, K):
    world = ScriptedWorld(n)
    cohorts = play(HiCS(), world, math.ceil(n / K), budget=K)
    chosen = np.concatenate([c.ids for c in cohorts])
    assert sorted(chosen.tolist()) == list(range(n))
    other = play(HiCS(), world, math.ceil(n / K), budget=K, seed=1)
    assert n == 4 or [c.ids.tolist() for c in cohorts] != [c.ids.tolist() for c in other]  # by lot, not by index


def test_a_newcomer_is_chosen_when_it_is_first_met():
    small, large = ScriptedWorld(12), ScriptedWorld(14)
    registrar = Registrar(HiCS(), small.population, horizon=30)
    list(turns(registrar, small, 8, 4, everybody(small)))
    registrar.join(large.population)
    turn = next(turns(registrar, large, 1, 4, everybody(large)))
    assert {12, 13} <= set(turn.cohort.ids.tolist())
    assert turn.cohort.ids.size == 4
    assert turn.cohort.notes["forced"] == 2


def test_who_never_reports_is_forced_in_no_more_than_three_times():
    world, mute = ScriptedWorld(8), 5
    registrar = Registrar(HiCS(temperature=0.5), world.population, horizon=60)
    times = 0
    for t in range(40):
        turn = registrar.begin(np.arange(8), 2)
        ids = turn.cohort.ids
        times += mute in ids
        reports = world.train(turn.cohort, registrar.needs.reports, t)
        registrar.finish(turn, ids, {name: reading.restrict(ids[ids != mute]) for name, reading in reports.items()})
    assert times == hics.MOST_TRIES
    alone = registrar.begin(np.array([mute]), 2)  # but it is still there when nobody else is
    assert alone.cohort.ids.tolist() == [mute]


def test_a_client_without_report_is_never_taken_for_balanced():
    world, mute, drawn_from = ScriptedWorld(8), 5, set()
    registrar = Registrar(HiCS(temperature=0.5), world.population, horizon=60)
    draw = hics.draw_weighted
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hics, "draw_weighted", lambda ids, *rest: drawn_from.update(ids.tolist()) or draw(ids, *rest))
        for t in range(30):
            turn = registrar.begin(np.arange(8), 2)
            heard = turn.cohort.ids[turn.cohort.ids != mute]
            reports = world.train(turn.cohort, registrar.needs.reports, t)
            registrar.finish(turn, turn.cohort.ids, {name: row.restrict(heard) for name, row in reports.items()})
    assert np.isnan(registrar.state.entropy[mute])
    assert drawn_from == set(range(8)) - {mute}


def test_under_30_percent_availability_where_no_client_set_repeats():
    world, rounds = ScriptedWorld(40, seed=5), 60
    available = share_of(world, 0.3)
    sets = [tuple(available(t)) for t in range(rounds)]
    assert len(set(sets)) == rounds
    registrar = Registrar(HiCS(temperature=0.5), world.population, horizon=rounds)
    for t, turn in enumerate(turns(registrar, world, rounds, 5, available)):
        assert set(turn.cohort.ids) <= set(sets[t])
        assert turn.cohort.ids.size == min(5, len(sets[t])) or t < 8  # only the warm-up leaves places empty
        np.testing.assert_allclose(turn.cohort.weights, 1 / turn.cohort.ids.size)
    assert not np.isnan(registrar.state.entropy).any()


def test_resumes_after_the_warm_up(tmp_path):
    world, selector = ScriptedWorld(12), HiCS(temperature=0.5)
    straight = [c.ids.tolist() for c in play(selector, world, 10, budget=4)]
    registrar = Registrar(selector, world.population, horizon=10)
    list(turns(registrar, world, 6, 4, everybody(world)))
    registrar.save(tmp_path / "r.npz")
    again = Registrar.load(tmp_path / "r.npz", selector, world.population)
    assert [t.cohort.ids.tolist() for t in turns(again, world, 4, 4, everybody(world))] == straight[6:]


# -- variants -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fallback", "threshold", "clustered"),
    [
        ("diverse", 0.01, True),
        ("diverse", 9.0, False),
        ("alike", 9.0, True),
        ("alike", 0.01, False),
        ("never", 0.01, False),
    ],
)
def test_falls_back_to_clustered_sampling(fallback, threshold, clustered):
    world = ScriptedWorld(20, seed=3)
    selector = HiCS(temperature=0.5, fallback=fallback, threshold=threshold)
    cohort = play(selector, world, 8, budget=4)[-1]
    assert (cohort.notes.get("stage") == "clustered") == clustered
    assert cohort.weights.sum() == pytest.approx(1)


def test_an_estimate_is_renewed_always_or_kept():
    world = ScriptedWorld(8, seed=3)
    for refresh in ("always", "once"):
        registrar = Registrar(HiCS(temperature=0.5, refresh=refresh), world.population, horizon=20)
        list(turns(registrar, world, 2, 4, everybody(world)))  # the warm-up
        first = registrar.state.entropy.copy()
        list(turns(registrar, world, 6, 4, everybody(world)))
        assert np.array_equal(first, registrar.state.entropy) == (refresh == "once")
        assert not np.isnan(first).any()


def test_the_fallback_is_clustered_sampling_on_hics_distances():
    # Algorithm 2 gets the sizes, the places, and the tree of eq. 9's distances by Ward, cut where groups fill a bin
    world, given = Varied(12, seed=2), []
    sizes = world.population.sizes
    rows = world.rows(BIAS_UPDATE, np.arange(12), 0)
    state = hics.Memory(12, update=rows, entropy=entropy_estimate(rows, 0.4))
    with pytest.MonkeyPatch.context() as patch:
        bins = hics.fill_bins_by_groups
        patch.setattr(hics, "fill_bins_by_groups", lambda *arguments: given.append(arguments) or bins(*arguments))
        selector = HiCS(temperature=0.4, lam=2.0, fallback="diverse", threshold=0.0)
        cohort = selector.select(state, Round(5, 50, np.arange(12), 4, Population(sizes), RNG(0)))
    H = [literal.H_hat(row.tolist(), 0.4) for row in rows]
    table = literal.Dist(rows.tolist(), H, 2.0)
    mass = [Fraction(4 * int(n), int(sizes.sum())) % 1 for n in sizes]
    want = clustered_literal.cut(clustered_literal.ward_merges(table), mass, 1)
    masses, places, groups, _ = given[0]
    assert masses.tolist() == sizes.tolist()
    assert places == 4
    assert cohort.notes["stage"] == "clustered"
    found = {frozenset(np.flatnonzero(groups == group).tolist()) for group in range(groups.max() + 1)}
    assert found == set(map(frozenset, want))


def test_the_released_signal_takes_entropy_from_row_means():
    selector = load("hics", signal="head", temperature=0.5)
    assert [s.name for s in selector.needs.reports] == ["head-update", "head-row-means"]

    class Client:
        def train(self):
            return self

        output_weight = np.array([[1.0, 3.0], [0.0, -2.0]])

    np.testing.assert_allclose(hics.ROW_MEANS.row(Client()), [2, -1])
    registrar = Registrar(selector, Population(np.full(3, 10)), horizon=10)
    turn = registrar.begin([0, 1, 2], 1)
    (who,) = turn.cohort.ids.tolist()
    registrar.finish(turn, [who], {"head-update": {who: [1.0, 3.0, 0.0, -2.0]}, "head-row-means": {who: [2.0, -1.0]}})
    assert registrar.state.update[who].tolist() == [1, 3, 0, -2]
    assert registrar.state.entropy[who] == pytest.approx(literal.H_hat([2.0, -1.0], 0.5))


def test_two_classes_among_many_clients():
    # with two labels updates have two directions only: twenty groups have two centres
    rng, n = RNG(0), 300
    half = rng.uniform(0.1, 0.5, n) * rng.choice([-1, 1], n)
    rows = np.stack([half, -half], axis=1)
    state = hics.Memory(n, update=rows, entropy=entropy_estimate(rows, 0.0025))
    for seed in range(5):
        round = Round(60, 100, np.arange(n), 20, Population(np.full(n, 10)), RNG(seed))
        cohort = HiCS(exact_up_to=100).select(state, round)
        assert cohort.ids.size == 20
        assert 2 <= cohort.notes["groups"] < 20


def test_the_form_for_many_clients_is_near_the_exact_one_and_better_than_a_subsample():
    # 800 clients of 8 directions, a tenth of them balanced. Compared: the odds of each client to be drawn first. A
    # subsample gives all the odds to 80 clients, so half the absolute differences (total variation) is at least 0.9.
    rng = RNG(0)
    n, K = 800, 8
    balanced = rng.random(n) < 0.1
    centres = np.eye(10)[:8] * 0.02 - 0.002
    rows = np.where(
        balanced[:, None], 0.0005 * rng.normal(size=(n, 10)), centres[np.arange(n) % 8] * rng.uniform(0.8, 1.2, (n, 1))
    )
    entropy = entropy_estimate(rows, 0.0025)
    population = Population(rng.integers(10, 50, n))
    state = hics.Memory(n, update=rows, entropy=entropy)
    law = {}
    for limit in (n, 80):
        round = Round(10, 100, np.arange(n), K, population, RNG(2))
        groups = HiCS(exact_up_to=limit)._group_clients(
            state, np.arange(n), round, lambda links, _: hics.cut_to_count(links, K)
        )
        law[limit] = selection_odds(entropy, groups, population.sizes, 3.0)
    assert 0.5 * np.abs(law[n] - law[80]).sum() < 0.3
    assert law[80] @ entropy == pytest.approx(law[n] @ entropy, rel=0.15)


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"temperature": 0.0}, "HiCS.temperature"),
        ({"clusters": 0}, "HiCS.clusters"),
        ({"linkage": "single"}, "HiCS.linkage"),
        ({"gama0": 4.0}, "Did you mean 'gamma0'"),
    ],
)
def test_bad_parameters(parameters, sentence):
    with pytest.raises(InputError, match=sentence):
        load("hics", **parameters)


class Trained:
    """A client's training: labels of one kind, of which the model predicts a share ``fit``; rate 0.1, 10 steps."""

    def __init__(self, fit, classes=10):
        self.output_bias = 0.1 * 10 * (1 - fit) * (np.eye(classes)[0] - 1 / classes)
        self.loss, self.steps, self.learning_rate = -np.log(fit), 10, 0.1


def test_a_fitted_client_looks_balanced_to_the_paper_and_not_to_the_relative_estimate():
    fresh, fitted = Trained(0.1), Trained(0.999)
    raw = [hics.entropy_estimate(one.output_bias[None], 0.0025)[0] for one in (fresh, fitted)]
    relative = [hics.entropy_estimate(hics.relative_bias(one)[None], 0.1)[0] for one in (fresh, fitted)]
    assert raw[0] < 0.01
    assert raw[1] > 2.2  # of ln 10 = 2.3: fooled
    assert max(relative) < 0.1


def test_a_loss_of_nothing_is_no_division_by_zero():
    one = Trained(0.5)
    one.loss, one.output_bias = 0.0, np.zeros(10)
    assert np.all(hics.relative_bias(one) == 0)
