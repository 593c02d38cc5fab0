"""Adversaries that stay just below the guards: every guard believes them."""

import numpy as np
import pytest

from sortition.core import DURATION, LOSS, UPDATE, Guards, InputError, Population, Reading
from sortition.core.guards.eligibility import capped
from sortition.core.guards.screening import norms, screen, winsorised
from sortition.simulation.adaptive import AdaptiveAdversaries, adversaries_of
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
    assert winsorised(reading, 3.0)[1] == 0
    assert set(reading.largest(adversaries.ids.size)) == set(adversaries.ids)


def test_vectors_and_updates_are_alike_reversed_and_short_enough(adversaries):
    rows = np.random.default_rng(1).normal(1, 1, (N, 7))
    sent = adversaries.reading(UPDATE, Reading(np.arange(N), rows), COUNTS).values
    assert screen(UPDATE, Reading(np.arange(N), sent), np.arange(N), None, GUARDS).rejected == {}
    assert np.ptp(sent[adversaries.ids], axis=0).max() == 0
    assert sent[adversaries.ids[0]] @ rows[~adversaries.mask].mean(axis=0) < 0
    updates = adversaries.updates(np.arange(N), rows)
    assert norms(updates)[adversaries.ids[0]] > 4 * np.median(norms(rows))
    assert GUARDS.refused(norms(updates)) == {}


def test_sizes_are_below_the_cap_and_of_the_rarest_label(adversaries):
    claimed = adversaries.facts({"sizes": COUNTS.sum(axis=1), "label_counts": COUNTS})
    assert not capped(Population(claimed["sizes"], claimed["label_counts"]), GUARDS)[1].any()
    assert claimed["sizes"][adversaries.ids[0]] > 1.8 * np.median(COUNTS.sum(axis=1))
    assert (claimed["label_counts"][adversaries.ids] > 0).sum() == adversaries.ids.size


def test_without_honest_company_there_is_nothing_to_hide_behind(adversaries):
    alone = Reading(adversaries.ids, np.ones(adversaries.ids.size))
    assert adversaries.reading(LOSS, alone, COUNTS) is alone
    everybody, facts = AdaptiveAdversaries(Attacks("adaptive", share=0.99), N, 0), {"sizes": 0, "label_counts": COUNTS}
    assert everybody.facts(facts) == facts
    assert (adversaries.reading(DURATION, Reading(np.arange(N), np.ones(N)), COUNTS).values == 0).sum() == 4
