import numpy as np

from sortition.core import Population
from sortition.selectors._parts.shares import as_shares, data_shares


def test_shares_add_up_to_one_and_are_equal_where_all_is_zero():
    assert as_shares(np.array([1.0, 3.0])).tolist() == [0.25, 0.75]
    assert as_shares(np.zeros(4)).tolist() == [0.25] * 4
    assert as_shares(np.empty(0)).size == 0


def test_shares_of_the_data_leave_unknown_clients_out_and_are_equal_where_nobody_has_data():
    assert data_shares(Population(np.array([1, 3, 99]), known_ids=[0, 1])).tolist() == [0.25, 0.75, 0.0]
    assert data_shares(Population(np.zeros(4), known_ids=[1, 3])).tolist() == [0.0, 0.5, 0.0, 0.5]
