"""Who was chosen when, as a picture."""

from __future__ import annotations

import re

import numpy as np

from sortition.report.strips import STRONG, Strip, clients_by_label, draw_strips, find_stretches

AVAILABLE = np.array([[True, True], [True, False], [True, True]])
CHOSEN = np.array([[True, False], [True, False], [False, True]])


def path_of(svg, colour):
    found = re.search(rf"<path stroke='{colour}' d='([^']*)'", svg)
    assert found is not None
    return found[1]


def test_a_mark_for_every_choice_and_the_counts_beside_it():
    svg = draw_strips([Strip("a<b", AVAILABLE, CHOSEN)] * 3, None, "Who")
    assert path_of(svg, STRONG).count("M") == CHOSEN.sum()
    for text in ("a&lt;b", "each client 1 to 2 times", "a row is a client, a column a round"):
        assert f">{text}</text>" in svg


def test_clients_stand_by_their_labels():
    labels = np.array([[0, 5], [5, 0]])
    assert clients_by_label(np.array([[0, 0, 5], [5, 0, 0]])) == [1, 0]
    assert "colours: its labels" in draw_strips([Strip("a", AVAILABLE, CHOSEN)], labels, "Who")


def test_stretches_of_being_there():
    assert list(find_stretches(AVAILABLE[:, 0])) == [(0, 3)]
    assert list(find_stretches(AVAILABLE[:, 1])) == [(0, 1), (2, 1)]


def test_the_words_of_the_legend_stand_below_it_where_they_do_not_fit_beside():
    strip = Strip("a", AVAILABLE, CHOSEN)
    labels = np.array([[0, 5], [5, 0]])

    def heights(svg, words):
        return [float(re.search(rf"<text x='[^']*' y='([^']*)'[^>]*>{word}", svg)[1]) for word in words]

    for n_strips in (1, 2):
        chosen, words = heights(draw_strips([strip] * n_strips, labels, "Who"), ("chosen", "a row is"))
        assert words > chosen
    chosen, words = heights(draw_strips([strip] * 3, labels, "Who"), ("chosen", "a row is"))
    assert words == chosen
