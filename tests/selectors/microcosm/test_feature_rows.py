from __future__ import annotations

import numpy as np
import pytest

from sortition.selectors.microcosm.feature_rows import embed_products, has_row, write_rows


def test_the_first_rows_fix_the_width_and_others_stay_unknown():
    table = write_rows(np.empty((3, 0)), np.array([2]), np.array([[1.0, 4.0]]))
    assert has_row(table).tolist() == [False, False, True]
    assert has_row(np.empty((3, 0))).tolist() == [False] * 3
    again = write_rows(table, np.array([0]), np.array([[2.0, 2.0]]))
    assert has_row(again).tolist() == [True, False, True]


def test_pairs_that_never_met_count_as_the_mean():
    products = np.array([[4.0, 2.0, np.nan], [2.0, 4.0, 2.0], [np.nan, 2.0, 4.0]])
    rows = embed_products(products, np.arange(3), np.ones(3))
    assert rows @ rows.T == pytest.approx(np.where(np.isnan(products), 20 / 7, products), abs=1e-6)
