"""The most similar rows: as by comparing all, also where many tie."""

from __future__ import annotations

import numpy as np
import pytest

from sortition.selectors.fedgs import similar_rows
from sortition.selectors.fedgs.exact_products import products, round_rows
from sortition.selectors.fedgs.similar_rows import find_most_similar, find_nearest


def worlds() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    mixed = rng.dirichlet(np.full(10, 0.1), 6000)
    counts = rng.integers(0, 3, (6000, 6))
    return {
        "groups": np.repeat(np.eye(8), 750, axis=0) + 0.05 * rng.random((6000, 8)),
        "labels": mixed / np.linalg.norm(mixed, axis=1, keepdims=True),
        "many ties, unlike lengths, rows of zeros": counts.astype(float),
        "both signs": rng.normal(size=(6000, 12)) * rng.lognormal(size=(6000, 1)),
        "all opposite": np.vstack([np.ones((3000, 4)), -np.ones((3000, 4))]),
        "zeros": np.zeros((6000, 3)),
    }


@pytest.mark.parametrize("name", list(worlds()))
def test_the_nearest_is_the_first_of_the_most_similar(name):
    rows = round_rows(worlds()[name])
    others = rows[np.random.default_rng(1).permutation(6000)[:700]]
    table = products(rows, others)
    near, similar = find_nearest(rows, others)
    np.testing.assert_array_equal(near, table.argmax(axis=1))
    np.testing.assert_array_equal(similar, table.max(axis=1))
    assert find_nearest(rows[:0], others)[0].size == 0


def test_rows_near_their_pivot_are_compared_with_few_others(monkeypatch):
    compared, whole = [], similar_rows._find_largest_product
    monkeypatch.setattr(
        similar_rows,
        "_find_largest_product",
        lambda rows, wide: compared.append(len(rows) * len(wide)) or whole(rows, wide),
    )
    rows = round_rows(worlds()["groups"])
    find_nearest(rows, rows[::6])
    pivots = 6000 * similar_rows.PIVOTS
    assert sum(compared) - pivots < 6000 * 1000 / 6  # of eight groups, one and a little


def test_the_most_similar_are_the_lowest_positions_in_order_where_many_tie():
    rows = np.eye(4, dtype=np.float32)[[0, 1, 0, 0, 2, 0, 3, 0]]
    near, similar = find_most_similar(rows[:2], rows, 3)
    assert near.tolist() == [[0, 2, 3], [0, 1, 2]]
    assert similar.tolist() == [[1, 1, 1], [0, 1, 0]]
