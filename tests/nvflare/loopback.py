"""A controller without processes, for fast tests: sites are objects whose scripts train one step at once."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from nvflare.app_common.abstract.fl_model import FLModel

from sortition.clients import Answers
from sortition.nvflare.client import Exchange

CLASSES, WIDTH = 3, 2
MODEL = {"layer.weight": np.zeros((CLASSES, WIDTH), np.float32), "layer.bias": np.zeros(CLASSES, np.float32)}


def centre(site):
    """The model that a site wants."""
    rng = np.random.default_rng(int(site.split("-")[1]))
    return {name: rng.normal(size=value.shape).astype(np.float32) for name, value in MODEL.items()}


def facts(site):
    number = int(site.split("-")[1])
    counts = np.full(CLASSES, 2) + 10 * np.eye(CLASSES, dtype=int)[number % CLASSES]
    return {
        "sizes": int(counts.sum()),
        "label_counts": counts,
        "features": counts / counts.sum(),
        "groups": number % 2,
    }


class Quadratic:
    """½‖w − c‖² of a site."""

    def __init__(self, received):
        self.apart = [received.model[name] - value for name, value in centre(received.context).items()]

    def loss(self):
        return 0.5 * float(sum(np.sum(part**2) for part in self.apart))

    batch_loss = loss

    def resources(self):
        return 1.0, 0.5

    def accuracy(self):
        return 1.0 / (1.0 + self.loss())

    def gradient(self):
        return np.concatenate([part.ravel() for part in self.apart])

    def outputs_of(self, model, inputs):
        flat = np.asarray(inputs, np.float64).reshape(len(inputs), -1)[:, :WIDTH]
        return flat @ model["layer.weight"].T + model["layer.bias"]


class Site:
    """A site whose script moves half of the way to its centre."""

    def __init__(self, name, *, facts=facts, client=Quadratic, broken=None, signals=()):
        self.name, self.token, self.broken, self.sent, self.trainings = name, f"token of {name}", broken, None, 0
        self.exchange = Exchange(Answers(client, facts, signals), self)

    def get_site_name(self):
        return self.name

    def send(self, message, clear_cache=True):
        self.sent = message

    def handle(self, message):
        """The reply to a message; None for silence."""
        copy = FLModel(params=dict(message.params), current_round=message.current_round, meta=dict(message.meta))
        self.sent = None
        kept = self.exchange.take(copy)
        if kept is not None:
            self.exchange.give(self.train(kept))
        return self.sent

    def train(self, message):
        self.trainings += 1
        wanted = centre(self.name)
        params = {name: value + 0.5 * (wanted[name] - value) for name, value in message.params.items()}
        if self.broken is not None:
            params = self.broken(params)
        metrics = {"train_loss": 1.0 + int(self.name.split("-")[1]) / 10, "steps": 1, "lr": 0.5, "dispersion": 0.1}
        return FLModel(params=params, metrics=metrics)


class Loopback:
    """What a Selection needs of a controller."""

    def __init__(self, sites):
        self.sites = {site.name: site for site in sites}
        self.engine = SimpleNamespace(get_clients=lambda: list(self.sites.values()))
        self.abort_signal = SimpleNamespace(triggered=False)
        self.offline, self.silent, self.warnings, self.sent = set(), set(), [], []

    def get_client_disconnect_time(self, name):
        return 1.0 if name in self.offline else None

    def warning(self, text):
        self.warnings.append(text)

    def send_model_and_wait(self, task_name, data, targets, min_responses=None, timeout=0):
        assert targets, "an empty list means everybody to NVFlare"
        self.sent.append((task_name, list(targets)))
        replies = []
        for name in reversed(targets):  # replies arrive in any order
            reply = None if name in self.silent else self.sites[name].handle(data)
            if reply is not None:
                reply.meta = {**(reply.meta or {}), "client_name": name}
                replies.append(reply)
        return replies[: min_responses or None]


def federation(n=6, **options):
    return Loopback([Site(f"site-{number}", **options) for number in range(1, n + 1)])


def play(selection, controller, model, rounds):
    """Rounds as SelectorController plays them; the cohorts, and the model."""
    from sortition.clients.models import as_vector, from_vector
    from sortition.nvflare.returned import combined

    cohorts = []
    for _ in range(rounds):
        selection.choose(model)
        cohort, asked = selection.cohort, selection.training()
        sent = {}
        if asked:
            results = controller.send_model_and_wait("train", selection.message(asked, model), list(asked))
            sent = {result.meta["client_name"]: result for result in results}
        done, arrived = selection.finish(sent, model)
        if done.size:
            model = from_vector(as_vector(model) + combined(cohort, done, arrived.models, model), model)
        cohorts.append(cohort)
    return cohorts, model
