from __future__ import annotations

import numpy as np
import pytest
from tests.mutations import slipped
from tests.reference import microcosm_literal as literal

from sortition.core import Cohort, Guards, InputError, Population, Registrar, Selector
from sortition.selectors import load, microcosm
from sortition.selectors.microcosm import portrait
from sortition.testing import QuadraticWorld, ScriptedWorld, play
from sortition.testing.play import AnswerFaults, everybody, share_of, turns


def facts(seed, n=14):
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 30, (n, 4)) + np.eye(4, dtype=int)[np.arange(n) % 4] * rng.integers(20, 90, (n, 1))
    return Population(counts.sum(axis=1), counts)


def differs(seed, *, one=1.5, repay=False, M=4, rounds=6, share=0.7):
    """Whether the fast method ever chooses another set than the literal twin, or weighs it otherwise."""
    population = facts(seed)
    n, p = population.n_clients, (population.sizes / population.sizes.sum()).tolist()
    phi, kappa = literal.features(population.label_counts.tolist(), p)
    d, lam, silent = [0.0] * n, one / kappa, set()
    registrar = Registrar(load("microcosm", trade_off=one, repay_mixture=repay, estimate=False), population, seed=seed)
    for t in range(rounds):
        rng = np.random.default_rng([seed, t])
        A = np.flatnonzero(rng.random(n) < share).tolist()
        turn = registrar.begin(A, M)
        owed = [p[k] + d[k] for k in range(n)]
        T = [sum(d[k] * phi[k][j] for k in range(n)) if repay else 0.0 for j in range(4)]
        S = sorted(literal.choose(phi, A, owed, T, lam, M))
        a = literal.weights(phi, S, [max(x, 0.0) for x in owed], T, lam)
        if min(a.values()) <= 0:
            return False  # a member without weight gives way: another test's subject
        if sorted(turn.cohort.ids.tolist()) != S:
            c = literal.provisional(A, owed, min(M, len(A)))
            ours, theirs = ({k: c[k] for k in one} for one in (turn.cohort.ids.tolist(), S))
            apart = literal.objective(phi, ours, owed, T, lam) - literal.objective(phi, theirs, owed, T, lam)
            return bool(abs(apart) > 1e-9)  # else both are as good, and the lot decides
        if not np.allclose(turn.cohort.weights, [a[k] for k in turn.cohort.ids.tolist()], atol=1e-9):
            return True
        done = turn.cohort.ids[rng.random(turn.cohort.ids.size) < 0.8]
        registrar.finish(turn, done)
        booked, silent = literal.had_their_turn(S, done.tolist(), silent)
        arrived = sum(a[k] for k in booked)
        rho = 1 - min(0.9, M / (2 * n))
        d = literal.booked(d, p, {k: a[k] / arrived for k in booked}, rho)
        if not np.allclose(registrar.state.owed, d, atol=1e-9):
            return True
    return False


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("one", "repay"), [(1.5, False), (0.05, False), (1.5, True)])
def test_chooses_and_weighs_as_the_literal_twin(seed, one, repay):
    assert not differs(seed, one=one, repay=repay)


SLIPS = [
    (portrait.Portrait, "choose", "2 * self.trade_off * self.owed", "2 * self.owed"),  # λ forgotten in the gain
    (portrait.Portrait, "choose", "residual - c[pick]", "residual + c[pick]"),  # the mixture runs away
    (portrait.Portrait, "_swap", " - leaving[:, None]", ""),  # a swap that forgets who leaves
    (microcosm.Microcosm, "observe", "owed[ids] -= weights", "pass"),  # nobody's weight is booked
    (microcosm.Microcosm, "_find_booked", " | state.silent[members]", ""),  # who is silent again is owed again
    (
        microcosm.Microcosm,
        "features",
        "rows[position[is_portrayed]] - mean",
        "rows[position[is_portrayed]]",
    ),  # features that are not centred
    (microcosm.Microcosm, "_estimate_parts", " / max(kappa, SMALLEST_SPREAD)", ""),  # λ without κ
]


@pytest.mark.parametrize(("owner", "name", "right", "wrong"), SLIPS, ids=[slip[2] for slip in SLIPS])
def test_a_slip_is_caught_by_the_twin(owner, name, right, wrong, monkeypatch):
    monkeypatch.setattr(owner, name, slipped(getattr(owner, name), right, wrong))
    assert any(differs(seed, one=one) for seed in range(5) for one in (1.5, 0.05))


def test_provisional_weights_agree_with_the_twin():
    owed = np.random.default_rng(2).normal(0.05, 0.1, 12)
    twin = literal.provisional(list(range(12)), owed.tolist(), 5)
    assert portrait.provisional_weights(owed, 5) == pytest.approx(list(twin.values()))


# -- what docs/methods/microcosm.md proves of the ledger ----------------------------------------------------------


def ledger(forgetting, rounds=400, silent=0.3, n=40):
    """Every round's ledger, p, and the weights that were booked, under uneven availability and dropouts."""
    world = ScriptedWorld(n)
    rates = np.linspace(0.1, 1.0, n)
    masks = np.random.default_rng(1).random((rounds, n)) < rates
    registrar = Registrar(load("microcosm", forgetting=forgetting), world.population)
    p, weights = world.population.sizes / world.population.sizes.sum(), []
    booked = microcosm.Microcosm.observe

    def seen(self, state, feedback):
        a, ids = np.zeros(n), self._find_booked(state.copy(), feedback)
        a[ids] = feedback.cohort.weights_of(ids)[0]
        if ids.size:
            weights.append(a)
        booked(self, state, feedback)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(microcosm.Microcosm, "observe", seen)
        played = turns(registrar, world, rounds, 4, lambda t: np.flatnonzero(masks[t]), AnswerFaults(silent=silent))
        rows = [turn.state.owed.copy() for turn in played]
    return np.array(rows), np.asarray(p), np.array(weights)


@pytest.mark.parametrize("forgetting", [0.0, 0.05, 0.5])
def test_mass_is_kept_and_the_ledger_is_bounded(forgetting):
    owed, p, _ = ledger(forgetting)
    assert np.abs(owed.sum(axis=1)).max() < 1e-9
    if forgetting:
        rho = 1 - forgetting
        assert (owed <= rho * p / (1 - rho) + 1e-12).all()
        assert (owed >= -rho * (1 - p) / (1 - rho) - 1e-12).all()


@pytest.mark.parametrize("forgetting", [0.0, 0.05])
def test_the_mean_weight_is_the_share_less_what_is_owed(forgetting):
    """ā_k = p_k − ((1−ρ)/ρ)·d̄_k − d_k(T)/(ρT), where d̄ is the mean before each of the T booked rounds."""
    owed, p, weights = ledger(forgetting, silent=0.0)
    rho, rounds = 1 - forgetting, len(weights)
    before = np.vstack([np.zeros(p.size), owed[:-1]])
    expected = p - (1 - rho) / rho * before.mean(axis=0) - owed[-1] / (rho * rounds)
    assert weights.mean(axis=0) == pytest.approx(expected, abs=1e-9)


def test_without_forgetting_the_mean_weights_tend_to_the_shares():
    off = [np.abs(weights.mean(axis=0) - p).max() for _, p, weights in (ledger(0.0, 100), ledger(0.0, 1600))]
    assert off[1] < off[0] / 4


def test_a_round_that_brings_nothing_is_not_booked():
    world = ScriptedWorld(20)
    registrar = Registrar(load("microcosm"), world.population)
    before = registrar.state.owed.copy()
    registrar.finish(registrar.begin(range(20), 4), [])
    assert registrar.state.owed.tolist() == before.tolist()


def test_members_that_fall_silent_are_owed():
    world = ScriptedWorld(20)
    registrar = Registrar(load("microcosm"), world.population)
    turn = registrar.begin(range(20), 4)
    registrar.finish(turn, turn.cohort.ids[1:])
    silent, done = turn.cohort.ids[0], turn.cohort.ids[1:]
    assert registrar.state.owed[silent] > 0
    assert (registrar.state.owed[done] < 0).all()


@pytest.mark.parametrize("silent_when", ["always", "every other time"])
def test_adversaries_that_drop_out_gain_no_places(silent_when):
    """Ten per cent of the clients take a place and send nothing, to be owed more: at most twice their share."""
    registrar, times, captured = Registrar(load("microcosm"), facts(1, 50)), np.zeros(50, int), 0
    for _ in range(100):
        turn = registrar.begin(range(50), 5)
        ids = turn.cohort.ids
        times[ids] += 1
        captured += int((ids < 5).sum())
        silent = (ids < 5) & ((silent_when == "always") | (times[ids] % 2 == 1))
        registrar.finish(turn, ids[~silent])
    assert captured <= 2 * 0.1 * times.sum()


def test_a_cohort_that_falls_silent_again_and_again_does_not_block_the_federation():
    registrar, quiet = Registrar(load("microcosm"), Population(np.full(12, 10), np.ones((12, 2), int))), range(4)
    for _ in range(40):
        turn = registrar.begin(range(12), 2)
        registrar.finish(turn, [k for k in turn.cohort.ids.tolist() if k not in quiet])
    assert np.abs(registrar.state.owed).max() < 0.5
    assert registrar.state.owed.sum() == pytest.approx(0.0, abs=1e-9)


# -- features -----------------------------------------------------------------------------------------------------


def test_cohorts_hold_every_kind_of_client_where_labels_tell_kinds():
    world = QuadraticWorld(12, kinds=3, spread=0.02)
    for cohort in play(load("microcosm", trade_off=0.1), world, 6, budget=3):
        assert sorted(world.kinds[cohort.ids]) == [0, 1, 2]


@pytest.mark.parametrize("by", ["updates", "bias"])
def test_kinds_are_learnt_from_what_the_cohort_reports(by):
    world = QuadraticWorld(12, kinds=2, spread=0.02)
    cohorts = play(load("microcosm", by=by, trade_off=1.0, repay_mixture=False), world, 24, budget=2)
    assert [sorted(world.kinds[cohort.ids]) for cohort in cohorts[9:]] == [[0, 1]] * 15


def test_secure_products_choose_as_the_label_counts_themselves():
    population = facts(0, 20)
    world = ScriptedWorld(20)
    world.population = population
    chosen = [
        play(load("microcosm", by=by, estimate=False), world, 6, budget=4, available=share_of(world, 1.0))
        for by in ("labels", "secure")
    ]
    for plain, secure in zip(*chosen, strict=True):
        assert plain.ids.tolist() == secure.ids.tolist()
        assert plain.weights == pytest.approx(secure.weights, abs=1e-6)


@pytest.mark.parametrize("product", [1e15, 1e300, -1e300])
def test_products_that_cannot_be_stop_nobody(product):
    registrar = Registrar(load("microcosm", by="secure"), Population(np.full(8, 10)), guards=Guards(bound=0, norm=0))
    for _ in range(3):
        turn = registrar.begin(range(8), 4)
        while turn.question is not None:
            turn.answer({k: np.full(8, product if k < 4 else 25.0) for k in range(8)})
        assert np.isfinite(turn.cohort.weights).all()
        registrar.finish(turn)


def test_sizes_alone_take_turns():
    population = Population(np.full(12, 5), np.ones((12, 2), int))
    registrar = Registrar(load("microcosm", by="sizes", forgetting=0.0), population)
    seen = []
    for _ in range(4):
        turn = registrar.begin(range(12), 3)
        seen += turn.cohort.ids.tolist()
        registrar.finish(turn)
    assert sorted(seen) == list(range(12))


def test_noised_counts_are_drawn_once_a_client_and_kept():
    world = ScriptedWorld(20)
    registrar = Registrar(load("microcosm", epsilon=0.5), world.population)
    rows = [turn.state.rows.copy() for turn in turns(registrar, world, 3, 4, everybody(world))]
    shares = world.population.label_counts / world.population.label_counts.sum(axis=1, keepdims=True)
    assert np.array_equal(rows[0], rows[2])
    assert np.abs(rows[0] - shares).max() > 0.01


def test_individuals_count_more_the_less_labels_tell_clients_apart():
    """κ is 1 where each client has one label, and λ grows without end as all come to hold the same mixture."""
    pure, mixed = np.eye(2, dtype=int)[np.arange(8) % 2] * 40, np.full((8, 2), 20)
    found = []
    for counts in (pure, pure + mixed, pure + 3 * mixed, mixed):
        cohort = Registrar(load("microcosm"), Population(counts.sum(axis=1), counts)).begin(range(8), 4).cohort
        found.append(cohort.notes["trade_off"])
    assert found == pytest.approx([1.5, 6.0, 24.0, 1e6])


def test_the_trade_off_is_estimated_once_enough_updates_are_known():
    world = QuadraticWorld(60, kinds=3, spread=1.0)
    cohorts = play(load("microcosm", estimate=True, trade_off=5.0), world, 25, budget=6)
    found = [cohort.notes["trade_off"] for cohort in cohorts]
    assert found[0] == pytest.approx(5.0)  # each client has one label
    assert found[-1] == 1.0  # kinds explain nearly all: the floor


def test_every_selection_estimates_from_all_sketches_that_have_come(monkeypatch):
    n_known = []

    def counted(features, updates, data_shares):
        n_known.append(len(updates))
        return portrait.unexplained_ratio(features, updates, data_shares)

    monkeypatch.setattr(microcosm, "unexplained_ratio", counted)
    cohorts = play(load("microcosm", estimate=True), QuadraticWorld(60, kinds=3, spread=1.0), 10, budget=6)
    answered = [np.unique(np.concatenate([cohort.ids for cohort in cohorts[:t]])) for t in range(1, 10)]
    assert n_known == [ids.size for ids in answered]


def test_members_without_weight_give_their_place_to_others():
    """Client 0 has been paid far more than its share: chosen only where nobody else is there, and it weighs nothing."""
    population = Population(np.full(6, 10), np.ones((6, 2), int))
    registrar = Registrar(load("microcosm"), population)
    registrar.state.owed[:] = [-3.0, 0.6, 0.6, 0.6, 0.6, 0.6]
    cohort = registrar.begin([0, 1, 2], 3).cohort
    assert sorted(cohort.ids.tolist()) == [1, 2]
    assert cohort.notes["left_empty"] == 1
    assert "left_empty" not in registrar.begin([0, 1, 2, 3], 3).cohort.notes


def test_equal_clients_are_chosen_by_lot_and_not_in_the_order_of_ids():
    population = Population(np.full(30, 10), np.ones((30, 2), int))
    first = [Registrar(load("microcosm"), population, seed=s).begin(range(30), 5).cohort.ids.tolist() for s in range(4)]
    assert len({tuple(sorted(ids)) for ids in first}) == 4


@pytest.mark.parametrize("by", ["updates", "bias", "sizes"])
def test_an_estimate_needs_features_that_are_given(by):
    with pytest.raises(InputError, match=r"Microcosm\.estimate must be false"):
        Registrar(load("microcosm", by=by, estimate=True), facts(0))


def test_secure_products_of_too_many_clients_are_refused():
    with pytest.raises(InputError, match="beyond 2000 clients"):
        Registrar(load("microcosm", by="secure"), Population(np.ones(2001)))


def test_empty_clients_and_clients_alike_are_no_problem():
    population = Population([0, 0, 4, 4], [[0, 0], [0, 0], [2, 2], [2, 2]])
    for by in ("labels", "sizes"):
        cohort = Registrar(load("microcosm", by=by), population).begin(range(4), 2).cohort
        assert sorted(cohort.ids.tolist()) == [2, 3]


def test_it_is_a_selector_that_rules_secure_aggregation_out_only_with_updates():
    kinds = ("labels", "sizes", "secure", "updates", "bias")
    exact = {by: load("microcosm", by=by, estimate=False).needs.individual for by in kinds}
    assert load("microcosm", by="labels").needs.individual  # λ and the ledger are learnt from sketches
    assert exact == {"labels": False, "sizes": False, "secure": False, "updates": True, "bias": True}
    assert isinstance(load("microcosm"), Selector)
    assert isinstance(play(load("microcosm"), ScriptedWorld(8), 1, budget=2)[0], Cohort)


# -- auto ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "secure", "by"),
    [(True, False, "labels"), (True, True, "labels"), (False, False, "updates"), (False, True, "sizes")],
)
def test_auto_takes_the_variant_that_facts_and_limits_allow(labels, secure, by):
    world = ScriptedWorld(12)
    people = world.population if labels else Population(world.population.sizes)
    registrar = Registrar(load("auto", secure_aggregation=secure), people)
    learns = labels and not secure
    assert registrar.selector == load("microcosm", by=by, secure_aggregation=secure, estimate=learns)
    assert registrar.begin(range(12), 3).cohort.notes["by"] == by
    assert registrar.needs.individual is not secure


@pytest.mark.parametrize("parameters", [{"by": "updates"}, {"by": "labels", "estimate": True}])
def test_secure_aggregation_refuses_what_sees_single_updates(parameters):
    with pytest.raises(InputError, match=r"Microcosm\.secure_aggregation must be false"):
        Registrar(load("microcosm", secure_aggregation=True, **parameters), facts(0))


# -- the privacy label ------------------------------------------------------------------------------------------------


def test_the_unresolved_label_says_what_the_server_may_come_to_see():
    """Whatever facts clients give, a resolved label shows nothing that the unresolved one does not name."""
    for options in ({}, {"estimate": True}, {"estimate": False}, {"secure_aggregation": True}):
        unresolved = load("microcosm", **options)
        seen = [set(unresolved.resolve(facts).needs.reports) for facts in ((), ("label_counts",))]
        label = unresolved.needs
        assert set(label.reports) | set(label.may_report) == seen[0] | seen[1], options
        assert not label.reports, options  # nobody is kept out for what may never be needed
    assert load("auto").needs.individual
    assert not load("auto", secure_aggregation=True).needs.individual
