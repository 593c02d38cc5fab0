"""What is said where labels hardly differ between clients, and that the page has the same figures."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from sortition.advice.alike import HARDLY_DIFFERENT, NATURAL, alike_note, labels_between_clients
from sortition.advice.profile import KnownFederation
from sortition.advice.simulated_ranking import Advice

PAGE = Path(__file__).parents[2] / "docs" / "methods" / "microcosm.md"
ALIKE = np.array([[50, 50], [104, 96], [49, 51]])
APART = np.array([[90, 10], [10, 90], [60, 40]])


def test_the_share_of_the_variance_between_clients():
    assert labels_between_clients(np.array([[3, 0], [0, 3]])) == pytest.approx(1)  # one label each
    assert labels_between_clients(np.array([[3, 3], [7, 7]])) == pytest.approx(0)
    sizes = APART.sum(axis=1)
    shares = APART[:, 0] / sizes
    mean = np.average(shares, weights=sizes)
    by_hand = np.average((shares - mean) ** 2, weights=sizes) / (mean * (1 - mean))  # of a label that is there or not
    assert labels_between_clients(APART) == pytest.approx(by_hand)
    assert labels_between_clients(APART) > HARDLY_DIFFERENT


def test_it_is_said_where_labels_hardly_differ_and_only_there():
    assert alike_note(APART, by_time=False) == ""
    note = alike_note(ALIKE, by_time=False)
    assert note.startswith("Labels hardly differ between your clients: 0 % of their variance lies between clients.")
    assert "By the clock" not in note
    assert alike_note(ALIKE, by_time=True).endswith("By the clock there is more to gain, where devices differ.")
    scores = {"uniform": {0: 0.5, 1: 0.6, 2: 0.5}, "x": {0: 0.4, 1: 0.71, 2: 0.5}}
    for counts, is_said in ((ALIKE, True), (APART, False)):
        advice = Advice(KnownFederation(cohort=2, rounds=5, counts=counts), 5, scores, scores)
        advice.bytes_sent = {label: dict.fromkeys(scores[label], 1.0) for label in scores}
        assert (note in advice.table().notes) == is_said
        assert advice.sentence().startswith("Undecided after 3 simulated federations")
        assert advice.sentence().endswith("so there is little to gain by choosing.") == is_said
        assert advice.sentence().endswith("Give it more time (--seconds).") != is_said


def test_the_page_has_the_same_figures():
    page = PAGE.read_text()
    section = page[page.index("## Natural federations") :]
    for gains in NATURAL:
        for label, figure in (("`auto`", gains.auto), ("oracle", gains.oracle)):
            row = re.search(rf"^\| {gains.federation} \| {label}[^|]*\| ([−+\d.]+)", section, re.MULTILINE)
            assert row is not None, (gains.federation, label)
            assert float(row[1].replace("−", "-")) == figure
        kappa = re.search(rf"^\| {gains.federation} \| ([\d.]+) \|", section, re.MULTILINE)
        assert kappa is not None
        assert float(kappa[1]) == gains.kappa
