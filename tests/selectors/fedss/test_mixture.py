"""Mixtures: scikit-learn's where nothing ties, and the same on every processor where much does."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture

from sortition.selectors._parts.shares import label_shares
from sortition.selectors.fedss.mixture import fit_mixture, k_means
from sortition.selectors.fedss.strata import stratify

FLOOR = 1e-6


def rows_of(kind: str, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if kind == "labels":
        return rng.dirichlet(np.full(6, 0.3), 250)
    if kind == "clouds":
        return np.eye(7)[rng.integers(7, size=300)] + 0.05 * rng.normal(size=(300, 7))
    return rng.normal(size=(200, 4)) * 10.0 ** rng.integers(-2, 3)


def component_order(means: np.ndarray) -> np.ndarray:
    """Order components by their means: two restarts may find the same ones in another order, equally likely.

    Which of the two scikit-learn returns then depends on the processor.
    """
    return np.lexsort(np.round(means, 6).T)


@pytest.mark.parametrize("kind", ["labels", "clouds", "one cloud"])
@pytest.mark.parametrize("components", [2, 5, 13])
def test_components_are_those_of_scikit_learn(kind: str, components: int) -> None:
    for seed in range(3):
        rows = rows_of(kind, seed)
        clusters = KMeans(components, n_init=1, random_state=seed).fit(rows)
        np.testing.assert_array_equal(k_means(rows, components, np.random.RandomState(seed)), clusters.labels_)
        expected = GaussianMixture(
            components, covariance_type="spherical", reg_covar=FLOOR, n_init=4, max_iter=200, random_state=seed
        ).fit(rows)
        found = fit_mixture(rows, components, 4, FLOOR, seed)
        own = component_order(found.means)
        theirs = component_order(expected.means_)
        np.testing.assert_allclose(found.means[own], expected.means_[theirs], rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(found.variances[own], expected.covariances_[theirs], rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(found.weights[own], expected.weights_[theirs], rtol=1e-6, atol=1e-9)
        np.testing.assert_array_equal(np.argsort(own)[found.labels(rows)], np.argsort(theirs)[expected.predict(rows)])


def test_a_cluster_that_lost_its_rows_takes_the_farthest_one(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.array([[0.0], [0.1], [0.2], [5.0], [5.1]])
    starts = [0, 0, 3]  # the second centre is the first one again and is nearest to nobody
    monkeypatch.setattr("sortition.selectors.fedss.mixture._draw_starts", lambda *_: starts)
    labels = k_means(rows, 3, np.random.RandomState(0))
    assert len(set(labels.tolist())) == 3
    assert labels[3] == labels[4]


@pytest.mark.parametrize("seed", range(8))
def test_rounding_errors_move_nobody_where_many_rows_tie(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = label_shares(rng.multinomial(6, np.full(7, 1 / 7), 300))  # six examples: few different rows
    shaken = rows * (1 + 1e-15 * rng.integers(-1, 2, rows.shape))
    first, second = (stratify(some, 8, np.random.default_rng(0)) for some in (rows, shaken))
    np.testing.assert_array_equal(first.labels, second.labels)
