from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score, pairwise_distances
from tests.reference import fedss_literal as literal

from sortition.selectors._parts.centres import nearest_centre
from sortition.selectors._parts.shares import label_shares
from sortition.selectors.fedss.strata import silhouette, strata_of_groups, stratify


def test_shares_of_labels_and_of_who_has_none():
    shares = label_shares(np.array([[1, 3], [0, 0], [2, 2]]))
    assert shares.tolist() == [[0.25, 0.75], [0.375, 0.625], [0.5, 0.5]]  # the mean of the others
    assert label_shares(np.zeros((2, 4))).tolist() == [[0.25] * 4] * 2


def test_silhouette_is_equation_23_also_with_singletons():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(25, 3))
    labels = rng.integers(0, 4, 25)
    labels[0] = 9  # a stratum of one: s_in := s_out, so its term is 0
    score = silhouette(pairwise_distances(points), labels)
    assert score == pytest.approx(literal.silhouette(points.tolist(), labels.tolist()))
    assert silhouette(np.zeros((4, 4)), np.zeros(4)) == -1


def test_finds_separate_clouds_and_their_number():
    rng = np.random.default_rng(1)
    truth = np.arange(120) % 5
    vectors = np.eye(5)[truth] + rng.normal(0, 0.05, (120, 5))
    made = stratify(vectors, 12, np.random.default_rng(0))
    assert len(made.means) == 5
    assert adjusted_rand_score(truth, made.labels) == 1
    assert made.score > 0.8
    assert nearest_centre(vectors, made.means).tolist() == made.labels.tolist()


def test_singular_data_is_no_problem():
    one = stratify(np.ones((30, 4)), 10, np.random.default_rng(0))
    assert len(one.means) == 1
    assert one.score == 0
    two = stratify(np.repeat(np.eye(2), 15, axis=0), 10, np.random.default_rng(0))
    assert len(two.means) == 2
    assert two.score == pytest.approx(1)
    assert len(stratify(np.array([[1.0, 0.0], [0.0, 1.0]]), 5, np.random.default_rng(0)).means) == 1  # no company
    assert len(stratify(np.random.default_rng(0).random((50, 3)), 1, np.random.default_rng(0)).means) == 1


def test_a_sample_finds_the_strata_of_all():
    rng = np.random.default_rng(2)
    truth = rng.integers(0, 6, 20_000)
    made = stratify(np.eye(6)[truth] + rng.normal(0, 0.03, (20_000, 6)), 10, rng, sample=300)
    assert adjusted_rand_score(truth, made.labels) == 1


def test_given_groups_keep_their_numbers():
    first = strata_of_groups(np.array([40, 7, 40]), None)
    assert first.labels.tolist() == [1, 0, 1]
    later = strata_of_groups(np.array([3, 40, 50]), first.means)
    assert later.means[:, 0].tolist() == [7, 40, 3, 50]
    assert later.labels.tolist() == [2, 1, 3]
