from __future__ import annotations

from unittest import mock

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sortition.selectors._parts import kinds as parts
from sortition.selectors._parts.kinds import kinds


@given(arrays(float, st.tuples(st.integers(1, 30), st.integers(1, 4)), elements=st.integers(-2, 2)))
@settings(max_examples=80, deadline=None)
def test_distinct_is_numpys_unique(rows):
    for few in (0, 1000):  # by hashing, and by sorting
        with mock.patch.object(parts, "FEW", few):
            first, of = parts.distinct(rows)
        assert len(first) == len(np.unique(rows, axis=0))
        assert np.array_equal(rows[first][of], rows)


def test_equal_rows_are_one_kind():
    rows = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, -0.0]])
    found = kinds(rows, 2, 2, np.random.default_rng(0))
    assert found.equal
    assert found.of[0] == found.of[2] != found.of[1]


def test_many_rows_join_the_head_they_are_nearest_to():
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(5, 3)) * 10
    rows = np.repeat(centres, 40, axis=0) + rng.normal(size=(200, 3)) * 0.1
    found = kinds(rows, 20, 5, rng)
    assert not found.equal
    assert (found.of[found.heads] == np.arange(len(found.heads))).all()
    assert [len(set(found.of[40 * k : 40 * (k + 1)])) for k in range(5)] == [1] * 5
