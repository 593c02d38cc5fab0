"""The script of every site: softmax regression on its share of the digits, in NumPy alone."""

import numpy as np
from sklearn.datasets import load_digits

from sortition.nvflare import client as flare

SITES, LABELS, STEPS, RATE = 6, 10, 20, 0.5


def data_of(site):
    """Each site holds a few labels only: digits sorted by label and dealt in shards."""
    number = int(site.split("-")[1]) - 1
    x, y = load_digits(return_X_y=True)
    order = np.argsort(y, kind="stable")
    shards = np.array_split(order, 2 * SITES)
    mine = np.concatenate([shards[number], shards[(number + SITES) % (2 * SITES)]])
    return x[mine] / 16.0, y[mine]


def probabilities(params, x):
    """Softmax of the logits (n, 10)."""
    logits = x @ params["weight"].T + params["bias"]
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


class Client:
    """What selectors may ask of a site."""

    def __init__(self, received):
        self.params = received.model
        self.x, self.y = data_of(received.context)

    def loss(self):
        chances = probabilities(self.params, self.x)
        return float(-np.log(chances[np.arange(len(self.y)), self.y] + 1e-12).mean())

    def accuracy(self):
        return float((probabilities(self.params, self.x).argmax(axis=1) == self.y).mean())

    def resources(self):
        return 0.001 * STEPS, 0.01  # seconds that a training and sending the model are expected to take

    def gradient(self):
        parts = gradients(self.params, self.x, self.y)
        return np.concatenate([parts[name].ravel() for name in self.params])


def facts(site):
    """What selectors may know of a site; only what the chosen method declares is sent."""
    _, y = data_of(site)
    return {"sizes": len(y), "label_counts": np.bincount(y, minlength=LABELS)}


def gradients(params, x, y):
    """Of the mean loss, by name."""
    errors = probabilities(params, x)
    errors[np.arange(len(y)), y] -= 1.0
    return {"weight": errors.T @ x / len(y), "bias": errors.mean(axis=0)}


def train(params, x, y):
    """Full-batch gradient steps; the new parameters, and the metrics that methods want reported."""
    params = {name: np.array(value, np.float64) for name, value in params.items()}
    losses = []
    steps = []
    for _ in range(STEPS):
        losses.append(float(-np.log(probabilities(params, x)[np.arange(len(y)), y] + 1e-12).mean()))
        step = gradients(params, x, y)
        steps.append(np.concatenate([part.ravel() for part in step.values()]))
        params = {name: params[name] - RATE * part for name, part in step.items()}
    spread = np.array(steps) - np.mean(steps, axis=0)
    dispersion = float(np.sqrt((spread**2).sum() / (STEPS - 1)))  # of the gradients; DELTA wants it
    metrics = {"train_loss": float(np.mean(losses)), "steps": STEPS, "lr": RATE, "dispersion": dispersion}
    return {name: value.astype(np.float32) for name, value in params.items()}, metrics


flare.answer(Client, facts=facts)
flare.init()
while flare.is_running():
    model = flare.receive()
    trained, metrics = train(model.params, *data_of(flare.get_site_name()))
    flare.send(flare.FLModel(params=trained, metrics=metrics))
