"""Sites without processes, for fast tests: objects whose scripts train one step at once."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from nvflare.apis.controller_spec import ClientTask
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import make_copy, make_reply
from nvflare.app_common.abstract.fl_model import FLModel
from nvflare.app_common.utils.fl_model_utils import FLModelUtils

from sortition.clients import Answers
from sortition.nvflare.client import SiteSession

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
    """A site whose script moves half of the way to its centre, in as many milliseconds as its number."""

    def __init__(self, name, *, facts=facts, client=Quadratic, broken=None, signals=(), tags=()):
        self.name, self.token, self.broken, self.sent, self.trainings = name, f"token of {name}", broken, None, 0
        self.seconds = 0.0
        self.session = SiteSession(Answers(client, facts, signals), self, tags, clock=lambda: self.seconds)

    def get_site_name(self):
        return self.name

    def send(self, message, clear_cache=True):
        self.sent = message

    def handle(self, message):
        """The reply to a message; None for silence."""
        self.sent = None
        kept = self.session.handle_message(message)
        if kept is not None:
            self.session.send_result(self.train(kept))
        return self.sent

    def train(self, message):
        self.trainings += 1
        self.seconds += int(self.name.split("-")[1]) / 1000
        wanted = centre(self.name)
        params = {name: value + 0.5 * (wanted[name] - value) for name, value in message.params.items()}
        if self.broken is not None:
            params = self.broken(params)
        metrics = {"train_loss": 1.0 + int(self.name.split("-")[1]) / 10, "steps": 1, "lr": 0.5, "dispersion": 0.1}
        return FLModel(params=params, metrics=metrics)


class Loopback:
    """NVFlare's side of a controller: tasks go to the sites, whose results come back by the task's own callback.

    Attributes:
        offline: names of sites that NVFlare deems disconnected.
        silent: names of sites that fetch a task and never answer.
        away: names of sites that are connected and do not fetch anything.
        slow: names of sites that answer when :meth:`deliver` is called.
        raising: site → NVFlare's return code in place of an answer.
        sent: the tasks so far, with their targets.
        warnings: what was logged as a warning.
    """

    def __init__(self, sites):
        self.sites = {site.name: site for site in sites}
        self.engine = SimpleNamespace(get_clients=lambda: list(self.sites.values()))
        self.abort_signal = SimpleNamespace(triggered=False)
        self.offline, self.silent, self.away, self.slow, self.raising = set(), set(), set(), set(), {}
        self.warnings, self.sent, self.cancelled, self.later = [], [], [], []

    def get_client_disconnect_time(self, name):
        return 1.0 if name in self.offline else None

    def broadcast(self, task, targets):
        assert targets, "an empty list means everybody to NVFlare"
        self.sent.append((task.name, list(targets)))
        task.targets = list(targets)
        for name in reversed(targets):  # results arrive in any order
            if name in self.away:
                continue
            client_task = ClientTask(self.sites[name], task)
            task.client_tasks.append(client_task)
            task.last_client_task_map[name] = client_task
            if name in self.slow:
                self.later.append(client_task)
            elif name not in self.silent:
                self.answer(client_task)

    def answer(self, client_task):
        """Let a site work on its task, and hand the result over as NVFlare does."""
        site = self.sites[client_task.client.name]
        if site.name in self.raising:
            client_task.result = make_reply(self.raising[site.name])
        else:
            reply = site.handle(FLModelUtils.from_shareable(make_copy(client_task.task.data)))
            if reply is None:
                return
            client_task.result = FLModelUtils.to_shareable(reply)
        client_task.result_received_time = 1.0
        client_task.task.result_received_cb(client_task=client_task, fl_ctx=FLContext())

    def deliver(self):
        """The slow sites have done their work."""
        waiting, self.later = self.later, []
        for client_task in waiting:
            self.answer(client_task)

    def tasks(self, kind):
        """The targets of all tasks of a kind."""
        return [targets for name, targets in self.sent if name == kind]


def federation(n=6, **options):
    return Loopback([Site(f"site-{number}", **options) for number in range(1, n + 1)])
