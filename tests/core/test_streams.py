from __future__ import annotations

import numpy as np
import pytest

from sortition.core import InputError, stream


def test_a_stream_depends_on_its_four_arguments_alone():
    first = stream(1, "batches", 3, 7).random(4)
    np.random.default_rng(0).random(100)
    assert stream(1, "batches", 3, 7).random(4).tolist() == first.tolist()
    others = [stream(2, "batches", 3, 7), stream(1, "dropout", 3, 7), stream(1, "batches", 4, 7)]
    others += [stream(1, "batches", 3, 8), stream(1, "batches", 3)]
    assert all(other.random(4).tolist() != first.tolist() for other in others)


def test_known_values():
    # stored once: a change would silently change every published run
    assert stream(0, "selection", 0).integers(1000, size=4).tolist() == KNOWN


KNOWN = [155, 629, 465, 83]


@pytest.mark.parametrize("seed", [-1, 1.5, True, "a"])
def test_bad_seeds(seed):
    with pytest.raises(InputError, match="seed must be a whole number ≥ 0"):
        stream(seed, "x")
