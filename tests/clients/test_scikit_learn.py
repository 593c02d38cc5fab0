"""Scikit-learn estimators as clients."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import log_loss

from sortition.clients import Received, scikit_learn
from sortition.core.errors import InputError

X, Y = load_digits(return_X_y=True)
X = X[:200] / 16
Y = Y[:200]


def numeric(loss, vector, step=1e-5):
    out = np.empty(vector.size)
    for at in range(vector.size):
        ahead, behind = vector.copy(), vector.copy()
        ahead[at] += step
        behind[at] -= step
        out[at] = (loss(ahead) - loss(behind)) / (2 * step)
    return out


@pytest.mark.parametrize("labels", [2, 3])
def test_a_classifier_has_the_log_loss_and_its_gradient(labels):
    x, y = X[labels > Y][:, :6], Y[labels > Y]
    rows = 1 if labels == 2 else labels
    made = scikit_learn(lambda context: (LogisticRegression(), x, y), labels=range(labels))
    rng = np.random.default_rng(0)
    coef, intercept = rng.normal(size=(rows, 6)), rng.normal(size=rows)

    def client(vector):
        model = {"0": vector[: coef.size].reshape(coef.shape), "1": vector[coef.size :]}
        return made(Received(model))

    at = np.concatenate([coef.reshape(-1), intercept])
    found = client(at)
    found.estimator.predict_proba(x[:1])
    assert found.loss() == pytest.approx(log_loss(y, found.estimator.predict_proba(x), labels=range(labels)))
    np.testing.assert_allclose(found.gradient(), numeric(lambda v: client(v).loss(), at), atol=1e-6)
    assert found.label_counts.tolist() == np.bincount(y, minlength=labels).tolist()
    assert found.batch_loss() == client(at).batch_loss()
    assert made.facts(None)["sizes"] == len(y)


def test_a_regression_has_the_squared_error():
    x, y = X[:, :4], X[:, 5]
    made = scikit_learn(lambda context: (LinearRegression(), x, y))
    model = {"coef": np.array([0.1, 0.2, 0.3, 0.4]), "intercept": np.array(0.5)}
    found = made(Received(model))
    error = x @ model["coef"] + 0.5 - y
    assert found.loss() == pytest.approx((error**2).mean())
    np.testing.assert_allclose(found.gradient(), [*(2 * error @ x / len(y)), 2 * error.mean()])
    assert list(made.facts(None)) == ["sizes"]
    with pytest.raises(InputError, match="accuracy must be asked of a classifier; got 'LinearRegression'"):
        found.accuracy()


def test_a_classifier_has_an_accuracy():
    made = scikit_learn(lambda context: (LogisticRegression(), X, Y), labels=range(10))
    found = made(Received({"0": np.random.default_rng(0).normal(size=(10, X.shape[1])), "1": np.zeros(10)}))
    assert found.accuracy() == pytest.approx(np.mean(found.estimator.predict(X) == Y))


def test_labels_must_be_known():
    made = scikit_learn(lambda context: (LogisticRegression(), X, Y))
    with pytest.raises(InputError, match="must be given all labels of the federation"):
        made(Received({"0": np.zeros((10, 64)), "1": np.zeros(10)}))
    with pytest.raises(InputError, match=r"scikit_learn\(load\) must be a function"):
        scikit_learn(None)
