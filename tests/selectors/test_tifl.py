from __future__ import annotations

import math

import numpy as np
import pytest
from tests.helpers.playing import play
from tests.mutations import slipped
from tests.reference.tifl_literal import TiFL as Literal

from sortition.core import DURATION, InputError, Population, Reading, Registrar, stream
from sortition.selectors import load, tifl
from sortition.selectors.tifl import adapt_chances

N = 20
SIZES = np.random.default_rng(1).integers(5, 40, N)
LATENCY = np.random.default_rng(2).lognormal(0, 0.7, N)


def measured(latency, accuracy=lambda t, ids: np.full(ids.size, 0.5)):
    """Answers of clients with these latencies and accuracies."""

    def answer(turn):
        ids = turn.question.ids
        return Reading(ids, latency[ids] if turn.question.signal is DURATION else accuracy(turn.index, ids))

    return answer


def differs(seed, rounds=40, **parameters):
    """Whether the tiers, chances or members of a run are not the literal twin's; some answers are lost."""
    rng = np.random.default_rng(seed)
    limit = parameters.get("latency_limit")
    selector = load("tifl", tiers=4, interval=3, credits=8, **parameters)
    twin = Literal(
        N, 4, 3, 8, selector.profile_rounds, math.inf if limit is None else limit, selector.ranks == "printed"
    )
    registrar = Registrar(selector, Population(SIZES), seed=seed)
    for t in range(rounds):
        ids, draws = np.flatnonzero(rng.random(N) < 0.5), stream(seed, "selection", t)
        turn = registrar.begin(ids, 3)
        if (asked := twin.to_profile(ids.tolist())) != ([] if _of(turn) != "duration" else turn.question.ids.tolist()):
            return True
        if asked:
            heard = turn.question.ids[rng.random(len(asked)) < 0.8]
            took = LATENCY[heard] * rng.lognormal(0, 0.2, heard.size)
            twin.profile(asked, dict(zip(heard.tolist(), took.tolist(), strict=True)))
            turn.answer(Reading(heard, took))
        tiers = twin.tiers()
        if twin.looks(t):
            heard = turn.question.ids[rng.random(turn.question.ids.size) < 0.8]
            right = rng.random(heard.size)
            twin.evaluate(t, tiers, dict(zip(heard.tolist(), right.tolist(), strict=True)), SIZES.tolist())
            turn.answer(Reading(heard, right))
        there = {tiers[i] for i in ids.tolist() if i in tiers}
        if there:
            tier = twin.tier(there, draws.random(1)[0])
            members = {i for i in ids.tolist() if tiers.get(i) == tier}
            if turn.cohort.notes["tier"] != tier or not np.allclose(registrar._open_turn.state.chance, twin.P):
                return True
            if not set(turn.cohort.ids.tolist()) <= members or turn.cohort.ids.size != min(3, len(members)):
                return True
        registrar.finish(turn)
    return False


def _of(turn):
    return None if turn.question is None else turn.question.signal.name


VARIANTS = [{}, {"ranks": "printed"}, {"profile_rounds": 2, "latency_limit": 1.5}]


@pytest.mark.parametrize("parameters", VARIANTS, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_chooses_as_the_literal_twin(seed, parameters):
    assert not differs(seed, **parameters)


@pytest.mark.parametrize(
    ("owner", "name", "right", "wrong"),
    [
        (tifl.TiFL, "_adapt", "<= round_to_tie_grid(previous)", "> round_to_tie_grid(previous)"),
        (tifl.TiFL, "_accuracies", "sizes * reading.values", "reading.values"),
        (tifl.TiFL, "_tiers", "round_to_tie_grid(state.total[ids]", "round_to_tie_grid(-state.total[ids]"),
        (tifl.TiFL, "_draw_tier", "state.credits[tier] -= 1", "pass"),
        (tifl.TiFL, "_profile", "state.total[silent] += limit", "pass"),
        (tifl, "adapt_chances", "(n - 1 - np.arange(n))", "(n - np.arange(n))"),
        (tifl, "adapt_chances", "round_to_tie_grid(accuracy[ids])", "round_to_tie_grid(-accuracy[ids])"),
    ],
)
def test_a_slip_is_caught(owner, name, right, wrong, monkeypatch):
    monkeypatch.setattr(owner, name, slipped(getattr(owner, name), right, wrong))
    assert any(differs(seed, **parameters) for parameters in VARIANTS for seed in range(3))


def test_chances_by_rank():
    accuracy, everybody = np.array([0.1, 0.3, 0.5, 0.7, 0.9]), np.ones(5, bool)
    assert adapt_chances(accuracy, everybody, "printed") == pytest.approx([0.4, 0.3, 0.2, 0.1, 0.0])
    assert adapt_chances(accuracy, everybody, "positive") == pytest.approx([1 / 3, 4 / 15, 0.2, 2 / 15, 1 / 15])
    assert adapt_chances(accuracy, np.arange(5) > 2, "positive") == pytest.approx([0, 0, 0, 2 / 3, 1 / 3])
    assert adapt_chances(accuracy, np.arange(5) == 2, "printed") == pytest.approx([0, 0, 1, 0, 0])


@pytest.mark.parametrize("policy", ["uniform", "random", "fast", "slow", "fast1", "fast2", "fast3"])
def test_tiers_are_used_by_their_shares_and_rounds_take_the_expected_time(policy):
    latency = np.repeat([1.0, 2.0, 4.0, 8.0, 16.0], 4)[np.random.default_rng(0).permutation(20)]
    cohorts, registrar = play(
        load("tifl", policy=policy), 3000, budget=3, sizes=np.ones(len(latency), int), answer=measured(latency)
    )
    share = np.bincount([c.notes["tier"] for c in cohorts], minlength=5) / 3000
    assert share == pytest.approx(registrar.state.chance, abs=0.03)
    took = np.mean([latency[c.ids].max() for c in cohorts])
    assert took == pytest.approx(registrar.state.chance @ [1, 2, 4, 8, 16], rel=0.05)  # L = Σ P_j L_j
    assert all(len(set(latency[c.ids])) == 1 for c in cohorts)


def test_no_tier_is_used_more_often_than_its_credits():
    cohorts, _ = play(load("tifl", credits=7), 35, budget=3, sizes=np.ones(N, int), answer=measured(LATENCY))
    assert np.bincount([c.notes["tier"] for c in cohorts], minlength=5).tolist() == [7] * 5
    horizon = 33  # ⌈33 / 5⌉ = 7
    cohorts, _ = play(load("tifl"), 35, budget=3, sizes=np.ones(N, int), answer=measured(LATENCY), horizon=horizon)
    assert np.bincount([c.notes["tier"] for c in cohorts], minlength=5).tolist() == [7] * 5


def test_a_tier_on_which_the_model_stays_bad_is_drawn_more_often():
    bad = lambda t, ids: np.where(LATENCY[ids] >= np.sort(LATENCY)[-4], 0.1, 0.9)  # noqa: E731  (the slowest tier)
    _, registrar = play(
        load("tifl", interval=2, credits=1000), 12, budget=3, sizes=np.ones(N, int), answer=measured(LATENCY, bad)
    )
    assert registrar.state.chance.argmax() == 4
    rising = lambda t, ids: np.full(ids.size, t / 100)  # noqa: E731
    _, registrar = play(
        load("tifl", interval=2, credits=1000), 12, budget=3, sizes=np.ones(N, int), answer=measured(LATENCY, rising)
    )
    assert registrar.state.chance == pytest.approx(np.full(5, 0.2))  # it improves: nothing changes


def test_accuracies_are_asked_every_interval_and_profiles_once():
    asked, registrar = [], Registrar(load("tifl", interval=4), Population(SIZES))
    for _ in range(9):
        turn = registrar.begin(np.arange(N), 3)
        while turn.question is not None:
            asked.append((registrar.index, turn.question.signal.name))
            turn.answer(Reading(turn.question.ids, np.ones(turn.question.ids.size)))
        registrar.finish(turn)
    assert asked == [(0, "duration"), (0, "accuracy"), (4, "accuracy"), (8, "accuracy")]


def test_who_always_reaches_the_limit_is_left_out_until_profiled_anew():
    latency = np.where(np.arange(10) < 2, 9.0, 1.0)
    cohorts, _ = play(
        load("tifl", tiers=2, latency_limit=5.0, policy="uniform"),
        60,
        budget=3,
        sizes=np.ones(len(latency), int),
        answer=measured(latency),
    )
    assert not {0, 1} & {k for c in cohorts for k in c.ids.tolist()}
    latency = latency.copy()
    registrar = Registrar(
        load("tifl", tiers=2, latency_limit=5.0, policy="uniform", reprofile=5), Population(np.ones(10))
    )
    seen = set()
    for t in range(40):
        latency[:] = 1.0 if t >= 5 else latency
        turn = registrar.begin(np.arange(10), 3)
        while turn.question is not None:
            turn.answer(Reading(turn.question.ids, latency[turn.question.ids]))
        seen |= set(turn.cohort.ids.tolist())
        registrar.finish(turn)
    assert {0, 1} <= seen


def test_equal_latencies_give_tiers_by_id():
    state = tifl.Memory(10)
    state.total[:], state.profiles[:] = 2.0, 1
    assert load("tifl")._tiers(state, None).tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


def test_bad_parameters_are_named():
    with pytest.raises(InputError, match=r"TiFL\.tiers must be 5 where policy = 'random'; got 3"):
        Registrar(load("tifl", tiers=3, policy="random"), Population(SIZES))
    with pytest.raises(InputError, match=r"TiFL\.interval must be ≥ 1"):
        load("tifl", interval=0)
