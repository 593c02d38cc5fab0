from __future__ import annotations

from unittest import mock

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sortition.selectors.fedgs import distinct_rows
from sortition.selectors.fedgs.distinct_rows import group_equal_rows


@given(arrays(float, st.tuples(st.integers(1, 30), st.integers(1, 4)), elements=st.integers(-2, 2)))
@settings(max_examples=80, deadline=None)
def test_distinct_is_numpys_unique(rows):
    for sorted_up_to in (0, 1000):  # by hashing, and by sorting
        with mock.patch.object(distinct_rows, "SORTED_UP_TO", sorted_up_to):
            kinds = group_equal_rows(rows)
        assert len(kinds.first_row) == len(np.unique(rows, axis=0))
        assert np.array_equal(rows[kinds.first_row][kinds.of_row], rows)


def test_equal_rows_are_one_kind():
    kinds = group_equal_rows(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, -0.0]]))
    assert kinds.of_row[0] == kinds.of_row[2] != kinds.of_row[1]
    assert sorted(kinds.first_row) == [0, 1]
    assert sorted(kinds.members) == [1, 2]
