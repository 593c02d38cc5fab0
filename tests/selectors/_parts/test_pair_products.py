"""Products of pairs: who must still be asked, and what is known then."""

import numpy as np

from sortition.core import Reading
from sortition.selectors._parts.pair_products import find_without_products, store_products


def test_pairs_become_known_by_whoever_answers_together():
    products = np.full((5, 5), np.nan)
    asked = np.array([0, 2, 4])
    answer = Reading(np.array([0, 4]), np.array([[1.0, 2.0, 3.0], [3.0, 6.0, 9.0]]))  # client 2 fell silent
    assert store_products(products, asked, answer).tolist() == [0, 4]
    assert products[np.ix_([0, 4], [0, 4])].tolist() == [[1.0, 3.0], [3.0, 9.0]]
    assert np.isnan(products[2]).all()
    assert np.isnan(products[:, 2]).all()
    assert find_without_products(products, np.array([0, 4])).size == 0
    assert find_without_products(products, np.array([0, 2, 4])).tolist() == [
        0,
        2,
        4,
    ]  # each lacks the product with client 2


def test_nobody_answered():
    products = np.full((3, 3), np.nan)
    assert store_products(products, np.arange(3), Reading.empty()).size == 0
    assert np.isnan(products).all()
