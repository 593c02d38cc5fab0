"""One federation in three engines: the simulator, Flower's and NVFlare's adapters choose the same cohorts."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the extra [flower] as well: make test-nvflare")

from nvflare.app_common.abstract.fl_model import FLModel
from tests.flower import apps, federation
from tests.flower.conftest import task  # noqa: F401  a fixture that Flower's messages need
from tests.flower.in_process import grid_of
from tests.nvflare.loopback import Loopback, Site
from tests.nvflare.loopback_controllers import WithinFedAvg, Workflow
from tests.simulation.small import data, parts

from sortition.clients import Received, pytorch
from sortition.clients.named_arrays import as_vector, from_vector
from sortition.core.signals import DURATION, Signal
from sortition.core.storage import snapshot
from sortition.nvflare import meta_codec
from sortition.selectors import discover
from sortition.selectors.hics import ROW_MEANS

EVERY = {name: (name, federation.SMALL.get(name, {})) for name in discover()} | federation.VARIANTS
METHODS = {label: EVERY[label] for label in federation.methods()}  # those that a federation can run


def load(site):
    own = parts()[int(site.split("-")[1]) - 1]
    return federation.model(), data().x_train[own], data().y_train[own]


def resources(site):
    """What the simulator says of the site."""
    return tuple(federation.world().costs.resources(int(site.split("-")[1]) - 1, 0).tolist())


CLIENTS = pytorch(load, federation.RULE, seed=federation.SEED, resources=resources)


def seconds(client, payload):
    """Durations as the simulator has them, not those of this machine."""
    received = client.received
    client.train()
    return float(federation.world().costs.seconds(np.array([received.client]), received.t)[0])


SIGNALS = [ROW_MEANS, Signal(DURATION.name, "training", seconds, nonnegative=True)]


class TrainedByRule(Site):
    """A site whose script trains as the simulator does."""

    def train(self, message):
        ask, model = self.session.ask, meta_codec.as_model(message.params)
        result = CLIENTS(Received(model, {}, ask.round, ask.client, ask.purpose, self.name)).train()
        metrics = {"train_loss": result.loss, "steps": result.steps, "lr": result.learning_rate}
        if "dispersion" in ask.signals:
            metrics["dispersion"] = result.dispersion
        return FLModel(params=from_vector(as_vector(model) + result.update, model), metrics=metrics)


def sites():
    names = [f"site-{number}" for number in range(1, len(parts()) + 1)]
    return Loopback([TrainedByRule(name, client=CLIENTS, facts=CLIENTS.facts, signals=SIGNALS) for name in names])


def in_nvflare(kind, name, parameters, file):
    """The cohorts of one of our controllers, and the model that it saved at last."""
    loopback, initial = sites(), meta_codec.as_model(federation.model().state_dict())
    options = {"parameters": parameters, "seed": federation.SEED, "wait_for": len(parts()), "checkpoint": str(file)}
    arguments = {"num_rounds": federation.ROUNDS, "model": initial, "persistor_id": "", "options": options}
    controller = kind(name, federation.COHORT, **arguments).connect(loopback)
    controller.run()
    assert controller.panics == []
    assert loopback.warnings == []
    saved, _ = snapshot.load(file)
    model = {key: saved[f"model.{row}"] for row, key in enumerate(initial)}
    return [record["cohort"] for record in controller.federation.history], as_vector(model)


@pytest.mark.parametrize("label", METHODS)
def test_the_same_answers_lead_to_the_same_cohorts(label, tmp_path):
    name, parameters = METHODS[label]
    cohorts, params = federation.simulated(federation.methods()[label])
    flower = apps.played(grid_of(apps.client_app(), len(parts())), federation.methods()[label])
    nvflare, model = in_nvflare(Workflow, name, parameters, tmp_path / "run.npz")
    assert flower["cohorts"] == cohorts
    assert nvflare == cohorts
    np.testing.assert_allclose(model, params, atol=1e-6)
    np.testing.assert_allclose(flower["model"], params, atol=1e-6)


@pytest.mark.parametrize("label", ["uniform", "fedgs", "fedcor", "divfl", "cs-ucb-q", "microcosm"])
def test_fedavg_with_our_selection_chooses_the_same(label, tmp_path):
    name, parameters = METHODS[label]
    cohorts, params = federation.simulated(federation.methods()[label])
    chosen, model = in_nvflare(WithinFedAvg, name, parameters, tmp_path / "run.npz")
    assert chosen == cohorts
    np.testing.assert_allclose(model, params, atol=1e-6)
