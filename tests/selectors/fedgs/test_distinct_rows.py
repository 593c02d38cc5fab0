from __future__ import annotations

from unittest import mock

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sortition.selectors.fedgs import distinct_rows
from sortition.selectors.fedgs.distinct_rows import row_kinds


@given(arrays(float, st.tuples(st.integers(1, 30), st.integers(1, 4)), elements=st.integers(-2, 2)))
@settings(max_examples=80, deadline=None)
def test_distinct_is_numpys_unique(rows):
    for few in (0, 1000):  # by hashing, and by sorting
        with mock.patch.object(distinct_rows, "FEW", few):
            first, of = distinct_rows.distinct_rows(rows)
        assert len(first) == len(np.unique(rows, axis=0))
        assert np.array_equal(rows[first][of], rows)


def test_equal_rows_are_one_kind_and_too_many_are_none():
    rows = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, -0.0]])
    of, first = row_kinds(rows, 2)
    assert of[0] == of[2] != of[1]
    assert sorted(first) == [0, 1]
    assert row_kinds(rows, 1) is None
