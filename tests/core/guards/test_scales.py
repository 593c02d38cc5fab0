"""What is usual is remembered: whoever holds most places of one round is not the measure of the others."""

import numpy as np
import pytest

from sortition.core import (
    LOSS,
    UPDATE,
    Guards,
    InputError,
    Measure,
    Needs,
    Population,
    Reading,
    Registrar,
    Selector,
    State,
)
from sortition.core.cohort import Cohort
from sortition.core.guards.answer_screening import winsorise
from sortition.core.guards.scales import MODEL, Scales
from sortition.core.selector import method

N = 20
GUARDS = Guards(norm=10, remember=50, clip=2, strikes=1, quarantine=5)


@method
class Wanted(Selector[State]):
    """The first clients that are there; asks them for their loss, and wants their updates."""

    @property
    def needs(self):
        return Needs(asks=(LOSS,), reports=(UPDATE,))

    def select(self, state, round):
        yield Measure(LOSS, round.available)
        return Cohort.uniform(round.available[: round.budget])


def registrar(guards=GUARDS, n=N, **options):
    return Registrar(Wanted(), Population(np.full(n, 9)), guards=guards, **options)


def play(federation, available, lengths, budget=5):
    """One round in which client k sends a loss, a report and an update of length ``lengths[k]`` (default: 1)."""
    turn = federation.begin(available, budget)
    while turn.question is not None:
        turn.answer({int(k): lengths.get(int(k), 1.0) for k in turn.question.ids})
    ids = turn.cohort.ids
    norms = np.array([lengths.get(int(k), 1.0) for k in ids])
    verdict = turn.judge_updates(ids, norms)
    turn.blame({int(ids[row]): reason for row, reason in verdict.refused_rows.items()})
    sound = np.delete(ids, list(verdict.refused_rows))
    federation.finish(turn, sound, {"update": {int(k): [lengths.get(int(k), 1.0), 0.0] for k in sound}})
    return turn, verdict


def experienced(guards=GUARDS, rounds=8):
    """A federation whose 20 clients have all sent lengths of about 1."""
    federation = registrar(guards)
    for t in range(rounds):
        available = np.sort((np.arange(10) + 5 * t) % N)
        play(federation, available, {k: 1 + 0.01 * k for k in range(N)})
    return federation


def test_a_majority_of_one_round_does_not_decide_what_is_usual():
    federation = experienced()
    scale = federation.eligibility.scales.scale(MODEL, federation.index)
    turn, verdict = play(federation, np.arange(5), {0: 1e6, 1: 1e6, 2: 1e6})
    assert sorted(verdict.refused_rows) == [0, 1, 2]
    assert verdict.norm_limit == pytest.approx(2 * scale)
    assert set(turn.rejected) == {0, 1, 2}
    assert np.flatnonzero(federation.strikes).tolist() == [0, 1, 2]
    assert federation.eligibility.scales.scale(MODEL, federation.index) == pytest.approx(scale, rel=0.2)


def test_an_update_that_is_judged_again_counts_once_with_its_last_norm():
    federation = registrar()
    turn = federation.begin(np.arange(5), 5)
    turn.answer({})
    turn.judge_updates(turn.cohort.ids, np.full(5, 7.0))
    turn.judge_updates(turn.cohort.ids, np.full(5, 3.0))
    federation.finish(turn)
    assert federation.eligibility.scales._votes(MODEL, federation.index).tolist() == [3.0] * 5


def test_without_a_memory_they_are_the_measure():
    _, verdict = play(experienced(Guards(norm=10, strikes=1)), np.arange(5), {0: 1e6, 1: 1e6, 2: 1e6})
    assert verdict.refused_rows == {}
    assert verdict.norm_limit == np.inf


def test_nobody_is_framed_by_a_majority_that_sends_next_to_nothing():
    federation = experienced()
    _, verdict = play(federation, np.arange(5), {0: 1e-9, 1: 1e-9, 2: 1e-9})
    assert verdict.refused_rows == {}
    assert not federation.strikes.any()
    framed = experienced(Guards(norm=10, strikes=1, quarantine=5))
    play(framed, np.arange(5), {0: 1e-9, 1: 1e-9, 2: 1e-9})
    assert np.flatnonzero(framed.strikes).tolist() == [3, 4]


def test_a_tenth_that_holds_every_place_for_twenty_rounds_hardly_moves_the_scale():
    federation = experienced(Guards(norm=0, remember=50))
    before = federation.eligibility.scales.scale(MODEL, federation.index)
    for t in range(20):
        play(federation, np.arange(2), {0: 2.0**t, 1: 2.0**t}, budget=2)
    after = federation.eligibility.scales.scale(MODEL, federation.index)
    assert after <= 1.05 * before


def test_the_scale_follows_once_most_clients_send_more():
    federation = experienced()
    for t in range(8):
        play(federation, np.sort((np.arange(10) + 5 * t) % N), dict.fromkeys(range(N), 100.0))
    assert federation.eligibility.scales.scale(MODEL, federation.index) == 100.0


def test_before_anything_is_known_the_shortest_update_bounds_the_round_and_nobody_is_blamed():
    federation = registrar()
    turn, verdict = play(federation, np.arange(5), {0: 1e6, 1: 2e6, 2: 3e6, 3: 1.5})
    assert verdict.norm_limit == 1.0
    assert turn.guarded["shortened"] == 4
    assert not federation.strikes.any()


def test_shortened_updates_are_counted_by_client_however_they_are_judged():
    federation = registrar()
    turn = federation.begin(np.arange(6), 6)
    turn.answer({})
    turn.judge_updates(np.array([0, 1, 2]), np.array([2.0, 3.0, 1.0]))
    turn.judge_updates(np.array([3, 4, 5]), np.array([1.0, 1.0, 5.0]))
    assert turn.guarded["shortened"] == 3
    turn.judge_updates(np.array([0, 4, 5]), np.array([1.0, 1.0, 1.0]))  # judged again
    assert turn.guarded["shortened"] == 1


def test_selections_before_one_step_add_up_what_the_guards_did():
    federation = registrar(Guards(winsorise=3, explore=0.5, norm=0, remember=50))
    for available in (np.arange(10), np.arange(10, 20)):
        turn = federation.begin(available, 2)
        turn.answer({int(client): 1e6 if client % 10 == 7 else 1.0 + client for client in turn.question.ids})
        federation.dispatch(turn)
        assert turn.guarded["winsorised"] == 1
    step = federation.receive(federation.in_flight)
    assert step.guarded["winsorised"] == 2
    assert len(step.guarded["explored"]) == 2


def test_what_is_absurd_by_itself_is_always_a_strike():
    federation = registrar()
    play(federation, np.arange(5), {0: np.nan, 1: 1e20})
    assert np.flatnonzero(federation.strikes).tolist() == [0, 1]


def test_a_lone_arrival_is_held_against_the_scale():
    _, verdict = play(experienced(), np.array([3]), {3: 1e9}, budget=1)
    assert list(verdict.refused_rows) == [0]


def test_who_arrives_alone_before_anybody_was_heard_moves_nothing():
    """The first updates of a pace that steps with every arrival were of any length below the bound."""
    federation = registrar()
    assert play(federation, np.array([0]), {0: 1e9}, budget=1)[1].norm_limit == 0.0
    assert play(federation, np.array([1]), {1: 1.5}, budget=1)[1].norm_limit == 0.0
    assert play(federation, np.array([2]), {2: 1e9}, budget=1)[1].norm_limit == 1.5
    assert play(federation, np.array([3]), {}, budget=1)[1].norm_limit == 1.0
    assert play(federation, np.array([4]), {4: 1e9}, budget=1)[1].norm_limit == 1.0


def test_of_two_clients_one_is_enough():
    federation = registrar(n=2)
    assert play(federation, np.arange(2), {0: 3.0}, budget=1)[1].norm_limit == 3.0


def test_snapshots_remember_and_abandoned_turns_do_not(tmp_path):
    federation = experienced()
    turn = federation.begin(np.arange(5), 5)
    turn.judge_updates(np.arange(5), np.full(5, 1e6))
    federation.save(tmp_path / "state.npz")
    again = Registrar.load(tmp_path / "state.npz", Wanted(), Population(np.full(N + 3, 9)))
    scales = federation.eligibility.scales
    assert again.eligibility.scales.known_scales(again.index) == scales.known_scales(federation.index)
    assert set(scales.known_scales(federation.index)) == {MODEL, "loss", "update"}
    assert again.eligibility.presence.shares[-3:].tolist() == [0, 0, 0]
    play(again, np.arange(5), {0: 1e6, 1: 1e6, 2: 1e6})
    assert again.strikes[:3].tolist() == [1, 1, 1]


def test_votes_are_of_the_last_rounds_and_there_must_be_enough():
    scales = Scales(["loss"], rounds=10, n_clients=40)
    assert scales.scale("loss", 0) is None
    scales.record([("loss", np.arange(9), np.ones(9))], index=0)
    assert scales.scale("loss", 1) is None
    scales.record([("loss", np.arange(9, 20), np.full(11, 3.0))], index=5)
    assert scales.scale("loss", 6) == 3.0
    assert scales.scale("loss", 10) == 3.0  # the votes of the first round no longer count
    assert scales.scale("loss", 16) is None
    assert scales.scale("unheard of", 6) is None


def test_a_loss_that_is_larger_than_usual_is_clipped_and_nobody_is_blamed():
    guards = Guards(norm=10, remember=50, winsorise=3, strikes=1, quarantine=5)
    federation = experienced(guards)
    scale = federation.eligibility.scales.scale("loss", federation.index)
    turn = federation.begin(np.arange(5), 5)
    turn.answer({0: 1e6, 1: 1e6, 2: 1e6, 3: 1.0, 4: 1.0})
    assert turn.rejected == {}
    assert turn.guarded["winsorised"] == 3
    federation.finish(turn)
    assert not federation.strikes.any()
    reading, clipped = winsorise(Reading(np.arange(5), np.array([1e6, 1e6, 1e6, 1.0, 1.0])), 3, upper_limit=10 * scale)
    assert reading.values.max() == 10 * scale
    assert clipped == 3


def test_a_clip_needs_a_memory():
    with pytest.raises(InputError, match=r"Guards\.clip must be 0 where nothing is remembered"):
        Guards(clip=2)
    with pytest.raises(InputError, match=r"Guards\.returning must be a share"):
        Guards(returning=1.5)


class TestReturning:
    GUARDS = Guards(returning=0.2)

    def away(self, guards, rounds=30, budget=5):
        """Clients 0 to 3 of 20 are away at first; the method wants them above all."""
        federation = registrar(guards)
        for _ in range(rounds):
            play(federation, np.arange(4, N), {}, budget)
        return federation

    def test_clients_that_come_back_together_get_a_place_and_not_the_cohort(self):
        federation = self.away(self.GUARDS)
        turn, _ = play(federation, np.arange(N), {})
        assert (turn.cohort.ids < 4).sum() == 1
        assert turn.kept_out["returning"].size == 3
        assert turn.guarded["just_come"] == 3
        free, _ = play(self.away(Guards()), np.arange(N), {})
        assert (free.cohort.ids < 4).sum() == 4

    def test_newcomers_are_limited_too(self):
        federation = self.away(self.GUARDS)
        federation.join(Population(np.full(N + 10, 9)))
        turn, _ = play(federation, np.arange(4, N + 10), {})
        assert (turn.round.available >= N).sum() == 1

    def test_the_limit_gives_way_where_places_would_stay_empty(self):
        federation = self.away(self.GUARDS)
        turn, _ = play(federation, np.array([0, 1, 2, 7, 8, 9, 10]), {}, budget=6)
        assert turn.cohort.ids.size == 6

    def test_those_who_have_just_come_have_no_vote_and_a_majority_of_them_blames_nobody(self):
        guards = Guards(norm=10, remember=50, strikes=1, quarantine=5)
        federation = self.away(guards, budget=16)
        before = federation.eligibility.scales.norms[MODEL].copy()
        turn = federation.begin(np.array([0, 1, 2, 7, 8, 9, 10]), 5)
        turn.answer({})
        verdict = turn.judge_updates(turn.cohort.ids, np.array([1e6, 1e6, 1e6, 1e6, 1.0]))
        assert sorted(verdict.refused_rows) == [0, 1, 2, 3]
        turn.blame(dict.fromkeys(turn.cohort.ids[:4].tolist(), "too long"))
        federation.finish(turn, [8])
        assert turn.excused == {0, 1, 2, 7}
        assert not federation.strikes.any()
        assert federation.eligibility.scales.norms[MODEL][:4].tolist() == before[:4].tolist()
