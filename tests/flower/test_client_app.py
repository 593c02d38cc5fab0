"""What a ClientApp answers: real messages, handed to the app as Flower would."""

import numpy as np
import pytest

pytest.importorskip("flwr", reason="flwr is not installed: make test-flower")

from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from tests.flower import federation
from tests.simulation.small import data, parts

from sortition.clients.named_arrays import as_vector
from sortition.core import BIAS_UPDATE, DISPERSION, GRADIENT, LOSS, RMS_LOSSES, STEP_GRADIENT, UPDATE, make_probe
from sortition.core.errors import InputError
from sortition.flower import answer, codec, pytorch
from sortition.simulation.round_cache import RoundCache, SimClient

ME, T = 4, 2


def context(me=ME):
    return Context(run_id=1, node_id=77, node_config={"partition-id": me}, state=RecordDict(), run_config={})


def load_data(context):
    own = parts()[int(context.node_config["partition-id"])]
    return federation.model(), data().x_train[own], data().y_train[own]


def handed(app, kind, **task):
    content = {
        "arrays": ArrayRecord(federation.model().state_dict()),
        "config": ConfigRecord({"lr": 0.1}),
        codec.ASSIGNMENT: codec.Assignment(t=T, client=ME, **task).record(),
    }
    if payload := task.get("signals") == ("probe",):
        payload = codec.to_record({"mean": np.zeros(6), "scale": np.ones(6)})
        content[codec.PAYLOAD] = payload
    return app(Message(RecordDict(content), 77, kind), context()).content


@pytest.fixture
def app():
    app = ClientApp()
    answer(app, pytorch(load_data, federation.RULE, seed=federation.SEED))
    return app


@pytest.mark.parametrize("purpose", ["train", "rehearsal"])
@pytest.mark.parametrize(
    "signal",
    [
        LOSS,
        GRADIENT,
        UPDATE,
        STEP_GRADIENT,
        BIAS_UPDATE,
        DISPERSION,
        *RMS_LOSSES.values(),
        UPDATE.sketch(8),
        make_probe(np.zeros(6), np.ones(6)),
    ],
    ids=lambda s: s.name,
)
def test_signals_are_the_simulators(app, signal, purpose):
    world = federation.world()
    rows = handed(app, codec.query(signal.name), signals=(signal.name,), purpose=purpose)[codec.ROWS]
    expected = signal.row(SimClient(RoundCache(world, world.initial, T, purpose), ME))
    np.testing.assert_allclose(rows[signal.name].numpy(), expected, rtol=1e-4, atol=1e-6)


def test_a_profile_tells_what_is_asked_and_no_more(app):
    told = handed(app, codec.PROFILE, facts=("sizes",))
    assert told[codec.SELF]["name"] == str(ME)
    assert {name: value.numpy().tolist() for name, value in told[codec.FACTS].items()} == {"sizes": 31}
    assert not handed(app, codec.PROFILE)[codec.FACTS]
    with pytest.raises(InputError, match="groups"):
        handed(app, codec.PROFILE, facts=("groups",))


def test_a_train_reply_carries_the_declared_reports_and_nothing_else(app):
    plain = handed(app, "train")
    assert set(plain) == {"arrays", "metrics"}
    assert not plain["metrics"]
    told = handed(app, "train", signals=("loss", "training-loss"))
    assert set(told[codec.ROWS]) == {"loss", "training-loss"}
    world = federation.world()
    assert told[codec.ROWS]["loss"].numpy() == pytest.approx(SimClient(RoundCache(world, world.initial, T), ME).loss())
    vector = as_vector(codec.to_arrays(told["arrays"]))
    np.testing.assert_allclose(
        vector, world.initial + RoundCache(world, world.initial, T).updates(np.array([ME]))[0], atol=1e-6
    )


def test_an_apps_own_training_is_kept_and_answers_for_signals():
    app = ClientApp()

    @app.train()
    def train(message, context):
        model = {name: value + 1 for name, value in codec.to_arrays(message.content["arrays"]).items()}
        metrics = MetricRecord({"train_loss": 0.25, "steps": 5, "num-examples": 9})
        return Message(RecordDict({"arrays": codec.to_record(model), "metrics": metrics}), reply_to=message)

    answer(app, pytorch(load_data))
    told = handed(app, "train", signals=("training-loss", "step-gradient", "bias-update", "loss"))
    assert told["metrics"]["num-examples"] == 9
    assert told[codec.ROWS]["training-loss"].numpy() == 0.25
    np.testing.assert_allclose(told[codec.ROWS]["step-gradient"].numpy(), -2, rtol=1e-5)  # +1 over 5 steps of lr 0.1
    np.testing.assert_allclose(told[codec.ROWS]["bias-update"].numpy(), np.ones(4), rtol=1e-6)
    asked = handed(app, "query.update", signals=("update",))[codec.ROWS]["update"].numpy()
    np.testing.assert_allclose(asked, 1, rtol=1e-5)
    with pytest.raises(InputError, match="must return a metric 'dispersion'"):
        handed(app, "query.dispersion", signals=("dispersion",))
    stock = RecordDict({"arrays": ArrayRecord(federation.model().state_dict()), "config": ConfigRecord()})
    assert app(Message(stock, 77, "train"), context()).content["metrics"]["steps"] == 5  # another strategy's message


def test_no_rule_and_no_training_is_said_at_once():
    with pytest.raises(InputError, match="must be given a client that trains"):
        answer(ClientApp(), pytorch(load_data))


def test_running_statistics_travel_in_the_order_of_the_message():
    from torch import nn

    net = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 4))
    app = ClientApp()
    answer(app, pytorch(lambda c: (net, *load_data(c)[1:]), federation.RULE))
    content = {
        "arrays": ArrayRecord(net.state_dict()),
        "config": ConfigRecord(),
        codec.ASSIGNMENT: codec.Assignment(client=ME, signals=("update",)).record(),
    }
    before = codec.to_arrays(content["arrays"])
    reply = app(Message(RecordDict(content), 77, "train"), context()).content
    after = codec.to_arrays(reply["arrays"])
    assert {n: v.shape for n, v in after.items()} == {n: v.shape for n, v in before.items()}
    assert np.abs(after["1.running_mean"] - before["1.running_mean"]).max() > 0
    asked = app(Message(RecordDict(content), 77, "query.update"), context()).content[codec.ROWS]["update"].numpy()
    np.testing.assert_allclose(asked, as_vector(after) - as_vector(before), atol=1e-6)
