from __future__ import annotations

import math

import numpy as np
import pytest
from tests.mutations import slipped
from tests.reference.oort_literal import Oort as Literal

from sortition.core import DURATION, RMS_LOSSES, InputError, Population, Registrar, stream
from sortition.core.sampling import draw_weighted
from sortition.selectors import load, oort

N, K = 20, 4
RMS = RMS_LOSSES["all"].name
SETTINGS = {
    "epsilon": "exploration", "least": "least_exploration", "c": "cutoff", "clip": "clip", "alpha": "alpha",
    "W": "window", "most": "most_picks", "f": "fairness", "delta": "pacer_step", "normalise": "normalise",
    "decay": "decay",
}  # fmt: skip


def differs(seed, rounds=60, present=0.6, **parameters):
    """Whether a run is not the literal twin's; some members fall silent, in every round some clients are away."""
    rng = np.random.default_rng(seed)
    sizes, speed = rng.integers(5, 50, N), rng.lognormal(0, 0.6, N)
    selector = load("oort", speed=False, **parameters)
    twin = Literal(sizes.tolist(), {own: getattr(selector, ours) for own, ours in SETTINGS.items()})
    twin.K = K
    registrar = Registrar(selector, Population(sizes), seed=seed)
    for t in range(rounds):
        ids = np.flatnonzero(rng.random(N) < present)
        draws = stream(seed, "selection", t)
        draw = lambda own, w, k: draw_weighted(np.array(own, np.int64), np.array(w), k, draws).tolist()  # noqa: E731, B023
        expected = twin.select(ids.tolist(), K, draw)
        turn = registrar.begin(ids, K)
        if turn.cohort.ids.tolist() != expected or turn.cohort.notes.get("pool", 0) != len(twin.pool):
            return True
        done = turn.cohort.ids[rng.random(turn.cohort.ids.size) < 0.85]
        rms, took = rng.random(N) * 2 + 0.1, speed * rng.lognormal(0, 0.3, N)
        twin.feedback(expected, done.tolist(), rms.tolist(), took.tolist())
        registrar.finish(turn, done, {RMS: rms[done], DURATION.name: took[done]})
    return False


VARIANTS = [
    {},
    {"window": 2, "pacer_step": 0.4},
    {"window": 2, "decay": 0.8},
    {"most_picks": 3, "fairness": 0.4, "decay": 0.9},
    {"normalise": False, "cutoff": 0.3, "clip": 0.5, "alpha": 0.5, "exploration": 0.3},
    {"most_picks": 1, "present": 0.2},
]


@pytest.mark.parametrize("parameters", VARIANTS, ids=str)
@pytest.mark.parametrize("seed", range(2))
def test_chooses_as_the_literal_twin(seed, parameters):
    assert not differs(seed, **parameters)


@pytest.mark.parametrize(
    ("owner", "name", "right", "wrong"),
    [
        (
            oort.Oort,
            "_scores",
            "np.maximum(state.last_participation[ids], 1)",
            "np.maximum(t - state.last_participation[ids], 1)",
        ),
        (oort.Oort, "_scores", "** self.alpha", "** 1"),
        (oort.Oort, "_scores", "state.utility[ids], self.clip", "state.utility[ids], 1.0"),
        (oort.Oort, "observe", "np.setdiff1d(feedback.cohort.ids, losses.ids)", "losses.ids[:0]"),
        (oort.Oort, "_pace", "(earlier) > round_to_tie_grid", "(earlier) < round_to_tie_grid"),
        (oort.Oort, "_preferred_duration", "(1 + state.steps)\n", "1\n"),
        (oort.Oort, "select", "-state.picks[overused]", "state.picks[overused]"),
        (oort.Oort, "_epsilon", "self.decay ** (t - 1)", "self.decay ** t"),
        (oort, "exploit", "round_to_tie_grid(cutoff *", "round_to_tie_grid(1.0 *"),
    ],
)
def test_a_slip_is_caught(owner, name, right, wrong, monkeypatch):
    monkeypatch.setattr(owner, name, slipped(getattr(owner, name), right, wrong))
    assert any(differs(seed, 40, **parameters) for parameters in VARIANTS for seed in range(2))


def tried(selector, utility, duration=None, last=None, seed=0):
    """A registrar whose clients all took part before, with these utilities, durations and last rounds."""
    utility = np.asarray(utility, float)
    registrar = Registrar(selector, Population(np.ones(utility.size, int)), seed=seed)
    registrar.state.utility = utility
    registrar.state.duration = np.full(utility.size, np.nan) if duration is None else np.asarray(duration, float)
    registrar.state.last_participation = np.ones(utility.size, np.int64) if last is None else np.asarray(last)
    registrar.index = 100
    return registrar


def scores(selector, *state, **more):
    registrar = tried(selector, *state, **more)
    ids = np.arange(registrar.state.utility.size)
    return selector._scores(registrar.state, ids, selector._preferred_duration(registrar.state, 1), 100)


def test_a_client_that_takes_twice_the_preferred_time_has_a_quarter_of_its_score():
    found = scores(load("oort", pacer_step=1.0), np.ones(4), duration=[0.5, 1.0, 2.0, 4.0])
    assert found / found[0] == pytest.approx([1, 1, 1 / 4, 1 / 16])
    assert len(set(scores(load("oort", pacer_step=1.0, alpha=0.0), np.ones(4), duration=[0.5, 1, 2, 4]))) == 1


def test_without_durations_the_system_factor_is_1():
    assert scores(load("oort", pacer_step=1.0), [1, 2, 3]) == pytest.approx(scores(load("oort", alpha=0.0), [1, 2, 3]))


def test_who_took_part_long_ago_gets_the_printed_bonus():
    found = scores(load("oort", normalise=False), np.zeros(2), last=[1, 99])
    assert found == pytest.approx([0.679, 0.068], abs=5e-4)  # √(0.1 ln 100 / L)


def test_the_choice_does_not_depend_on_the_unit_of_losses():
    losses = np.random.default_rng(0).random(12) + 0.5
    assert scores(load("oort"), losses * 1000) == pytest.approx(scores(load("oort"), losses))


def test_draws_come_from_the_cut_off_pool_only():
    utility = np.array([1.0, 0.97, 0.96, 0.5, 0.4, 0.1])
    settings = {"exploration": 0.0, "clip": 1.0, "cutoff": 0.95, "normalise": False, "staleness": 0.0}
    seen = set()
    for seed in range(60):
        seen |= set(tried(load("oort", **settings), utility, seed=seed).begin(np.arange(6), 1).cohort.ids.tolist())
    assert seen == {0, 1, 2}


def shares(speed, rounds=400):
    """How often each untried client is explored first."""
    counts = np.zeros(len(speed))
    for seed in range(rounds):
        registrar = Registrar(load("oort"), Population(np.ones(len(speed), int), speed=np.asarray(speed)), seed=seed)
        assert registrar.selector.speed
        counts[registrar.begin(np.arange(len(speed)), 1).cohort.ids] += 1
    return counts / rounds


def test_untried_clients_are_drawn_by_speed_where_it_is_known():
    assert shares([1.0, 1.0, 2.0, 4.0]) == pytest.approx([1 / 8, 1 / 8, 1 / 4, 1 / 2], abs=0.07)
    assert not Registrar(load("oort"), Population(np.ones(3, int))).selector.speed


def test_exploration_starts_at_90_per_cent_and_ends_at_20():
    selector = load("oort")
    share = [selector._epsilon(t) for t in range(1, 120)]
    assert share[0] == 0.9
    assert share[74] > 0.2 == share[75]  # 0.9 · 0.98⁷⁵ < 0.2
    assert load("oort", exploration=0.1)._epsilon(1) == 0.1


def test_a_whole_population_is_tried_before_epsilon_matters():
    everybody, seen = np.arange(12), set()
    registrar = Registrar(load("oort", exploration=1.0, least_exploration=1.0), Population(np.ones(12, int)))
    for _ in range(4):
        turn = registrar.begin(everybody, 3)
        assert not seen & set(turn.cohort.ids.tolist())
        seen |= set(turn.cohort.ids.tolist())
        registrar.finish(turn, None, {RMS: np.ones(3), DURATION.name: np.ones(3)})
    assert registrar.begin(everybody, 3).cohort.notes["exploited"] == 3


def test_who_was_picked_often_is_left_out_but_never_more_than_30_per_cent():
    registrar = tried(load("oort", exploration=0.0, most_picks=2), np.linspace(1, 2, 10))
    registrar.state.picks[:] = [9, 8, 7, 6, 5, 5, 5, 5, 5, 5]
    assert sorted(registrar.begin(np.arange(10), 7).cohort.ids.tolist()) == [3, 4, 5, 6, 7, 8, 9]


def test_places_that_would_stay_empty_go_to_those_who_were_picked_often():
    registrar = tried(load("oort", exploration=0.0, most_picks=2), np.linspace(1, 2, 10))
    registrar.state.picks[:] = [9, 7, 8, 6, 5, 5, 5, 5, 5, 5]
    cohort = registrar.begin(np.arange(4), 3).cohort
    assert cohort.ids.tolist() == [3, 1, 2]  # one who was not left out, then by picks
    assert cohort.notes["readmitted"] == 2


def test_clients_who_are_always_alone_are_chosen_in_every_round():
    registrar = Registrar(load("oort"), Population(np.ones(10, int)))
    for _ in range(15):
        turn = registrar.begin(np.arange(3), 3)
        assert sorted(turn.cohort.ids.tolist()) == [0, 1, 2]
        registrar.finish(turn, None, {RMS: np.ones(3), DURATION.name: np.ones(3)})


def test_complete_fairness_is_a_round_robin():
    registrar = tried(load("oort", fairness=1.0, most_picks=None, exploration=0.0), np.linspace(1, 9, 9))
    registrar.state.picks[:] = 1
    for _ in range(9):
        turn = registrar.begin(np.arange(9), 3)
        registrar.finish(turn, None, {RMS: np.ones(3), DURATION.name: np.ones(3)})
    assert registrar.state.picks.tolist() == [4] * 9


def test_the_preferred_duration_never_falls():
    rng, limits = np.random.default_rng(0), []
    registrar = Registrar(load("oort", window=2, pacer_step=1.0), Population(np.ones(N, int)))
    for _ in range(40):
        turn = registrar.begin(np.arange(N), K)
        limits.append(turn.cohort.notes.get("preferred_duration", 0.0))
        registrar.finish(turn, None, {RMS: rng.random(K), DURATION.name: rng.random(K) * 3})
    assert limits == sorted(limits)
    assert limits[-1] > limits[1] == 1.0
    assert math.isinf(load("oort")._preferred_duration(oort.Memory(3), 2))


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"exploration": 1.5}, r"Oort\.exploration must be ≤ 1"),
        ({"window": 0}, r"Oort\.window must be ≥ 1"),
        ({"utility": "middle"}, r"Oort\.utility must be "),
    ],
)
def test_bad_parameters_are_named(parameters, sentence):
    with pytest.raises(InputError, match=sentence):
        load("oort", **parameters)
