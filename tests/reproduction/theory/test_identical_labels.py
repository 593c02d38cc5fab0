from __future__ import annotations

import numpy as np
import pytest

from sortition.reproduction.theory.identical_labels import between_groups, classify, gain_threshold, pairs_together
from sortition.reproduction.theory.stratification import dissimilarity


def test_clients_of_one_label_are_classified_by_it():
    found = classify(4, 20, most=10)
    assert found.strata == 4
    assert found.right
    assert found.score == pytest.approx(1)
    assert 0 < found.next_best < 1


def test_the_threshold_is_where_stratifying_begins_to_pay():
    """Two strata {−a, a} moved apart by ±m: the gain is 0 where Σ N_k m² = Σ (1 − N_k/N) H_k² = 2a²."""
    groups = np.array([0, 0, 1, 1])
    scatter = np.array([[-1.0], [1.0], [-1.0], [1.0]])
    for shift, sign in ((0.70, -1), (0.71, 1)):  # 4 m² = 2 at m = 0.7071
        gradients = scatter + shift * np.where(groups == 0, -1.0, 1.0)[:, None]
        found = dissimilarity(gradients, groups)
        assert gain_threshold(found) == pytest.approx(2.0)
        assert between_groups(gradients, groups) == pytest.approx(4 * shift**2)
        assert np.sign(found.gain) == sign


def test_pairs_do_not_depend_on_the_names_of_groups():
    assert (pairs_together([0, 0, 1]) == pairs_together([7, 7, 3])).all()
    assert not (pairs_together([0, 0, 1]) == pairs_together([0, 1, 1])).all()
