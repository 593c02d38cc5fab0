import numpy as np

from sortition.selectors._parts.shares import shares


def test_shares_add_up_to_one_and_are_equal_where_all_is_zero():
    assert shares(np.array([1.0, 3.0])).tolist() == [0.25, 0.75]
    assert shares(np.zeros(4)).tolist() == [0.25] * 4
    assert shares(np.empty(0)).size == 0
