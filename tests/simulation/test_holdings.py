import numpy as np

from sortition.simulation.holdings import Holdings, means

PARTS = [np.array([4, 2]), np.array([], np.int64), np.array([0, 1, 5])]


def test_gather_and_label_counts():
    holdings = Holdings(PARTS, 6, "x")
    index, sizes = holdings.gather(np.array([2, 1, 0, 2]))
    assert index.tolist() == [0, 1, 5, 4, 2, 0, 1, 5]
    assert sizes.tolist() == [3, 0, 2, 3]
    assert holdings.of(0).tolist() == [4, 2]
    assert holdings.label_counts(np.array([0, 0, 1, 1, 1, 0]), 2).tolist() == [[0, 2], [0, 0], [3, 0]]


def test_means_of_stretches():
    np.testing.assert_allclose(means(np.array([1.0, 3.0, 5.0], np.float32), np.array([2, 1])), [2.0, 5.0])
