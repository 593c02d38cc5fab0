from __future__ import annotations

import numpy as np
import pytest

from sortition.core import Population, Round
from sortition.selectors._parts import picture_notes


def at(index: int) -> Round:
    return Round(index, None, np.arange(3), 1, Population(np.ones(3)), np.random.default_rng(0))


def test_pictures_grow_rarer():
    assert [t for t in range(40) if picture_notes.is_due(at(t))] == [0, 1, 3, 7, 15, 31]
    assert picture_notes.grouping_note(at(2), np.arange(3), np.zeros(3, int)) == {}


def test_at_most_a_hundred_clients():
    note = picture_notes.grouping_note(at(0), np.arange(5000), np.arange(5000) % 7, np.ones(5000))["grouping"]
    assert len(note["ids"]) == len(note["group"]) == len(note["value"]) == 100
    assert [k % 7 for k in note["ids"]] == note["group"]


def test_the_plane_keeps_distances_that_fit_into_it():
    points = np.array([[0, 0], [3, 0], [0, 4], [1, 1.0]])
    apart = np.linalg.norm(points[:, None] - points[None], axis=2)
    xy = picture_notes.project_to_plane(apart)
    again = np.linalg.norm(xy[:, None] - xy[None], axis=2)
    assert again / again[0, 1] == pytest.approx(apart / apart[0, 1])


def test_neighbours_are_joined_once():
    distance = np.array([[0, 1, 9, 9], [1, 0, 9, 9], [9, 9, 0, 1], [9, 9, 1, 0.0]])
    note = picture_notes.graph_note(at(0), np.array([4, 5, 6, 7]), distance)["graph"]
    assert note["ids"] == [4, 5, 6, 7]
    assert [0, 1] in note["edges"]
    assert all(i < j for i, j in note["edges"])


def test_coverage_names_who_stands_for_whom():
    distance = np.array([[0, 1, 5], [1, 0, 5], [5, 5, 0.0]])
    note = picture_notes.coverage_note(at(0), np.array([2, 4, 6]), distance, np.array([6, 2]), np.array([2, 2, 6]))[
        "coverage"
    ]
    assert note["by"] == [2, 2, 6]
    assert note["chosen"] == [6, 2]
