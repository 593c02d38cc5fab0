"""No client trains more often than a multiple of its fair share, whatever it reports."""

import numpy as np
import pytest
from tests.helpers.playing import play

from sortition.core import Guards, InputError, Population, Reading, Registrar, StorageError
from sortition.core.guards.ceiling import Ceiling
from sortition.selectors import load

N, BUDGET, ROUNDS = 50, 5, 40
ADVERSARIES = np.arange(5)
METHODS = {"power-of-choice": load("power-of-choice", d=30), "active": load("active"), "uniform": load("uniform")}


def attacked(name, guards, rounds=ROUNDS, available=None):
    """Play rounds in which five adversaries report by far the largest losses; return how often each was chosen, too."""

    def losses(turn):
        ids = turn.question.ids
        return Reading(ids, np.where(ids < 5, 4.0, 1.0 + 0.01 * np.cos(ids + turn.index)))

    def reports(turn):
        return {signal.name: np.where(turn.cohort.ids < 5, 4.0, 1.0) for signal in turn.needs.reports}

    cohorts, registrar = play(
        METHODS[name],
        rounds,
        budget=BUDGET,
        sizes=np.full(N, 10),
        available=available,
        answer=losses,
        report=reports,
        guards=guards,
    )
    return registrar, np.bincount(np.concatenate([cohort.ids for cohort in cohorts]), minlength=N)


@pytest.mark.parametrize("name", ["power-of-choice", "active"])
def test_adversaries_hold_at_most_the_ceiling_times_their_share(name):
    bare = attacked(name, Guards())[1]
    registrar, chosen = attacked(name, Guards(ceiling=2.0))
    assert bare[ADVERSARIES].sum() / bare.sum() > 0.25
    assert chosen[ADVERSARIES].sum() / chosen.sum() <= 0.2
    assert chosen.max() <= 2 * ROUNDS * BUDGET / N
    assert chosen.sum() == ROUNDS * BUDGET  # every place is filled
    assert registrar.eligibility.ceiling.fair_share == pytest.approx(np.full(N, ROUNDS * BUDGET / N))


def test_who_is_rarely_there_has_a_smaller_share():
    def available(t):
        return np.arange(N) if t % 4 == 0 else np.arange(5, N)

    registrar, chosen = attacked("power-of-choice", Guards(ceiling=2.0), available=available)
    assert (chosen[ADVERSARIES] <= np.ceil(2 * registrar.eligibility.ceiling.fair_share[ADVERSARIES] - 1e-6)).all()
    assert registrar.eligibility.ceiling.fair_share[0] < registrar.eligibility.ceiling.fair_share[9] / 3


@pytest.mark.parametrize(("ceiling", "clients", "budget"), [(1.0, 4, 2), (1.0, 50, 5), (1.2, 10, 3)])
def test_a_federation_whose_clients_are_all_at_the_ceiling_goes_on(ceiling, clients, budget):
    """Nobody was below, no round was played, so nobody's fair share grew: the federation stood still for ever."""
    registrar, chosen = Registrar(load("uniform"), Population(np.ones(clients)), guards=Guards(ceiling=ceiling)), []
    for _ in range(60):
        turn = registrar.begin(range(clients), budget)
        chosen += turn.cohort.ids.tolist()
        registrar.finish(turn)
    counts = np.bincount(chosen, minlength=clients)
    assert len(chosen) > 0.8 * 60 * budget
    assert counts.max() <= ceiling * len(chosen) / clients + 1


@pytest.mark.parametrize("budget", [2, 10, 20])
def test_cohorts_smaller_than_the_budget_add_one_round_to_the_bound(budget):
    people = Population([10**9] + [1] * 19)
    registrar = Registrar(load("by-size"), people, guards=Guards(ceiling=5))  # draws the first client again and again
    for _ in range(80):
        registrar.finish(registrar.begin(range(20), budget))
        ceiling = registrar.eligibility.ceiling
        assert ceiling.times_chosen[0] <= np.ceil(5 * (ceiling.fair_share[0] + budget / 20) - 1e-9)
    assert ceiling.times_chosen[0] < 80


@pytest.mark.parametrize("limit", [1.0, 1.2, 1.5, 2.0])
def test_who_goes_round_is_never_kept_out(limit):
    """In a rotation a client's next turn comes before its fair share is a whole place more."""
    ceiling = Ceiling(limit, N)
    rng = np.random.default_rng(0)
    for _ in range(6):
        for cohort in rng.permutation(N).reshape(-1, BUDGET):
            assert ceiling.mask_below(np.arange(N), BUDGET)[cohort].all()
            ceiling.record(np.arange(N), cohort)


def test_what_it_did_is_noted_and_logged():
    registrar, _ = attacked("power-of-choice", Guards(ceiling=1.0), rounds=3)
    turn = registrar.begin(np.arange(N), BUDGET)
    assert turn.guarded["at_ceiling"] == turn.kept_out["ceiling"].size > 0
    assert not np.isin(turn.kept_out["ceiling"], turn.round.available).any()


def test_an_abandoned_turn_counts_for_nobody():
    registrar, _ = attacked("uniform", Guards(ceiling=2.0), rounds=2)
    before = registrar.eligibility.ceiling.times_chosen.copy()
    registrar.begin(np.arange(N), BUDGET)
    registrar.begin(np.arange(N), BUDGET)
    assert registrar.eligibility.ceiling.times_chosen.tolist() == before.tolist()


def test_snapshots_and_newcomers_keep_it(tmp_path):
    registrar, chosen = attacked("uniform", Guards(ceiling=2.0), rounds=5)
    registrar.save(tmp_path / "r.npz")
    again = Registrar.load(tmp_path / "r.npz", load("uniform"), Population(np.full(N + 3, 10)))
    assert again.eligibility.ceiling.times_chosen.tolist() == [*chosen, 0, 0, 0]
    assert again.eligibility.ceiling.mask_below(np.arange(N + 3), 5)[-3:].all()
    registrar.join(Population(np.full(N + 3, 10)))
    assert registrar.eligibility.ceiling.fair_share[: N + 3].tolist() == again.eligibility.ceiling.fair_share.tolist()
    arrays, header = registrar.export()
    for wrong in (np.full(3, -1.0), np.full(3, np.nan), np.zeros((2, 2)), np.zeros(3, int), np.zeros(99)):
        with pytest.raises(StorageError, match="Snapshot is incomplete"):
            registrar.restore({**arrays, "ceiling.fair": wrong}, header)


def test_nobody_available_and_first_rounds():
    ceiling = Ceiling(1.5, 3)
    assert ceiling.mask_below(np.arange(3), 1).all()  # everybody has one place, whatever the fair share
    ceiling.record(np.arange(3), np.array([0]))
    assert ceiling.mask_below(np.arange(3), 1).tolist() == [False, True, True]
    assert ceiling.mask_below(np.empty(0, np.int64), 1).size == 0
    ceiling.record(np.empty(0, np.int64), np.empty(0, np.int64))
    with pytest.raises(InputError, match=r"ceiling must be 0 \(off\) or ≥ 1"):
        Guards(ceiling=0.5)
