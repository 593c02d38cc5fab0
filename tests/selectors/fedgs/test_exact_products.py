from __future__ import annotations

from fractions import Fraction

import numpy as np

from sortition.selectors.fedgs.exact_products import products, round_rows


def test_products_of_gridded_rows_are_exact():
    rng = np.random.default_rng(0)
    rows = round_rows(rng.normal(size=(6, 40)) * 10.0 ** rng.integers(-3, 4, (6, 1)))
    parts = [[Fraction(float(value)) for value in row] for row in rows]
    exact = [[sum(a * b for a, b in zip(x, y, strict=True)) for y in parts] for x in parts]
    assert [[Fraction(value) for value in row] for row in products(rows, rows).tolist()] == exact


def test_the_grid_is_fine_and_the_same_for_rows_that_differ_in_their_last_bits():
    rows = np.random.default_rng(1).normal(size=(50, 10))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    assert np.abs(round_rows(rows) - rows).max() < 2.0**-23
    np.testing.assert_array_equal(round_rows(rows * (1 + 1e-15)), round_rows(rows))
    assert not round_rows(np.zeros((2, 3))).any()
