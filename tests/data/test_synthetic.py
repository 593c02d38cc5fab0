from __future__ import annotations

import numpy as np

from sortition.data import load


def test_seed_97_is_the_data_set_of_fedgs() -> None:
    """The released generator's sizes: 37, 93 and 1607 training examples, 888 pooled test examples."""
    data = load("synthetic")
    assert data.clients is not None
    assert data.validation is not None
    sizes = [len(rows) for rows in data.clients]
    assert (min(sizes), int(np.median(sizes)), max(sizes), len(data.y_test)) == (37, 93, 1607, 888)
    held_rows = np.concatenate([*data.clients, *data.validation])
    assert sorted(held_rows) == list(range(len(data.y_train)))


def test_features_are_the_true_models() -> None:
    data = load("synthetic", clients=4)
    assert data.clients is not None
    assert data.features is not None
    assert data.features.shape == (4, 610)
    for k, mine in enumerate(data.clients):
        W, b = data.features[k, :600].reshape(60, 10), data.features[k, 600:]
        # float32 inputs: a label may flip only where two scores nearly tie
        assert np.mean(np.argmax(data.x_train[mine] @ W + b, axis=1) == data.y_train[mine]) > 0.99


def test_both_readings_and_no_extra() -> None:
    deviation, variance = (load("synthetic", alpha=0.25, beta=0.25, reading=r) for r in ("deviation", "variance"))
    assert load("synthetic", alpha=0.5, beta=0.5).digest == variance.digest  # √0.25 = 0.5
    assert deviation.digest != variance.digest
    bare = load("synthetic", extra=0)
    assert bare.clients is not None
    assert min(len(rows) for rows in bare.clients) >= 1
    two, fifty = (load("synthetic", extra=extra) for extra in (2, 50))
    assert len(fifty.y_train) + len(fifty.y_test) - len(two.y_train) - len(two.y_test) == 30 * 48


def test_own_streams_repeat_and_differ() -> None:
    dataset = load("synthetic", legacy=False, seed=1)
    assert dataset.digest == load("synthetic", legacy=False, seed=1).digest
    assert dataset.digest != load("synthetic", legacy=False, seed=2).digest
