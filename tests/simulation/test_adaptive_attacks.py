"""Adversaries that stay just below the guards: every guard believes them."""

import numpy as np
import pytest
from tests.simulation.small import world

from sortition.core import DURATION, LOSS, UPDATE, Guards, InputError, Population, Reading
from sortition.core.guards.answer_screening import row_norms, screen, winsorise
from sortition.core.guards.eligibility_and_quarantine import cap_facts
from sortition.selectors import load
from sortition.simulation import Setup, run
from sortition.simulation.adaptive_attacks import AdaptiveAdversaries, adversaries_of
from sortition.simulation.attacks import Adversaries, Attacks

N = 40
GUARDS = Guards(norm=5, winsorise=3, size_cap=2)
COUNTS = np.stack([np.array([k % 4 + 1, 3, 9]) for k in range(N)])


@pytest.fixture
def adversaries():
    return adversaries_of(Attacks(kind="adaptive", share=0.1), N, seed=3)


def test_the_kind_makes_the_class():
    assert type(adversaries_of(Attacks(kind="loss"), N, 0)) is Adversaries
    assert type(adversaries_of(Attacks(kind="adaptive"), N, 0)) is AdaptiveAdversaries
    with pytest.raises(InputError, match=r"Attacks\.norm must be > 0"):
        Attacks(kind="adaptive", norm=0.0)


def test_losses_are_the_largest_and_pass_every_guard(adversaries):
    honest = Reading(np.arange(N), 1 + 0.3 * np.cos(np.arange(N)))
    sent = adversaries.reading(LOSS, honest, COUNTS)
    reading, rejected, *_ = screen(LOSS, sent, np.arange(N), None, GUARDS)
    assert rejected == {}
    assert winsorise(reading, 3.0)[1] == 0
    assert set(reading.largest(adversaries.ids.size)) == set(adversaries.ids)


def test_vectors_and_updates_are_alike_reversed_and_short_enough(adversaries):
    rows = np.random.default_rng(1).normal(1, 1, (N, 7))
    sent = adversaries.reading(UPDATE, Reading(np.arange(N), rows), COUNTS).values
    assert screen(UPDATE, Reading(np.arange(N), sent), np.arange(N), None, GUARDS).rejected == {}
    assert np.ptp(sent[adversaries.ids], axis=0).max() == 0
    assert sent[adversaries.ids[0]] @ rows[~adversaries.mask].mean(axis=0) < 0
    updates = adversaries.updates(np.arange(N), rows)
    assert row_norms(updates)[adversaries.ids[0]] > 4 * np.median(row_norms(rows))
    assert GUARDS.find_refused(row_norms(updates)) == {}


def test_sizes_are_below_the_cap_and_of_the_rarest_label(adversaries):
    claimed = adversaries.facts({"sizes": COUNTS.sum(axis=1), "label_counts": COUNTS})
    assert not cap_facts(Population(claimed["sizes"], claimed["label_counts"]), GUARDS)[1].any()
    assert claimed["sizes"][adversaries.ids[0]] > 1.8 * np.median(COUNTS.sum(axis=1))
    assert (claimed["label_counts"][adversaries.ids] > 0).sum() == adversaries.ids.size


def test_without_honest_company_losses_are_true_and_updates_reversed(adversaries):
    alone = Reading(adversaries.ids, np.ones(adversaries.ids.size))
    assert adversaries.reading(LOSS, alone, COUNTS) is alone
    update = np.random.default_rng(1).normal(1, 1, (1, 7))
    sent = adversaries.updates(adversaries.ids[:1], update)
    assert sent[0] == pytest.approx(-4.9 * update[0])
    everybody, facts = AdaptiveAdversaries(Attacks("adaptive", share=0.99), N, 0), {"sizes": 0, "label_counts": COUNTS}
    assert everybody.facts(facts) == facts
    assert (adversaries.reading(DURATION, Reading(np.arange(N), np.ones(N)), COUNTS).values == 0).sum() == 4


class TestWhen:
    """Adversaries that wait until they are the majority, or come back together."""

    ROWS = np.random.default_rng(2).normal(1, 1, (N, 7)).astype(np.float32)

    def cohort(self, adversaries, theirs):
        """Five clients, so many of them adversaries."""
        honest = np.flatnonzero(~adversaries.mask)
        return np.concatenate([adversaries.ids[:theirs], honest[: 5 - theirs]])

    def of(self, **options):
        return adversaries_of(Attacks(kind="adaptive", share=0.1, **options), N, seed=3)

    def test_by_chance_they_attack_only_as_the_majority(self):
        adversaries = self.of(when="chance", strength=1e6)
        few = self.cohort(adversaries, 2)
        assert adversaries.updates(few, self.ROWS[few]) is not None
        np.testing.assert_array_equal(adversaries.updates(few, self.ROWS[few]), self.ROWS[few])
        most = self.cohort(adversaries, 3)
        sent = adversaries.updates(most, self.ROWS[most])
        assert (row_norms(sent)[:3] > 1e5 * row_norms(self.ROWS[most]).max()).all()
        np.testing.assert_array_equal(sent[3:], self.ROWS[most][3:])
        facts = {"sizes": COUNTS.sum(axis=1), "label_counts": COUNTS}
        assert adversaries.facts(facts) == facts

    def test_their_reports_of_updates_are_alike(self):
        adversaries = self.of(when="chance", strength=1e6)
        most = self.cohort(adversaries, 3)
        sent = adversaries.reading(UPDATE, Reading(most, self.ROWS[most]), COUNTS).values
        assert (row_norms(sent)[:3] > 1e5).all()

    def test_they_stay_away_and_return_together(self):
        adversaries = self.of(when="return", away=3)
        assert [adversaries.away(t) is not None for t in range(6)] == [True] * 3 + [False] * 3
        in_turns = self.of(when="return", away=2, present=1)
        assert [in_turns.away(t) is not None for t in range(6)] == [True, True, False] * 2
        assert self.of(when="chance").away(0) is None
        few = self.cohort(adversaries, 1)
        assert row_norms(adversaries.updates(few, self.ROWS[few]))[0] < 5.01 * np.median(row_norms(self.ROWS[few][1:]))

    def test_who_is_away_cannot_be_chosen(self):
        attacks = Attacks(kind="adaptive", share=0.3, when="return", away=2)
        setup = Setup(world(attacks=attacks), load("full"), 3, 4)
        records = []
        run(setup, on_record=lambda _, record: records.append(record))
        assert [record["available"] for record in records] == [7, 7, 10, 10]

    def test_framing_sends_next_to_nothing(self):
        adversaries = self.of(when="framing")
        cohort = self.cohort(adversaries, 3)
        sent = row_norms(adversaries.updates(cohort, self.ROWS[cohort]))
        assert (sent[:3] < 1e-6).all()
        assert set(Guards(norm=5).find_refused(sent)) == {3, 4}  # what a round's own median says of the honest

    @pytest.mark.parametrize("options", [{"when": "never"}, {"kind": "loss", "when": "chance"}, {"away": -1}])
    def test_a_mistake_is_refused(self, options):
        with pytest.raises(InputError, match=r"Attacks|when"):
            Attacks(**{"kind": "adaptive", **options})
