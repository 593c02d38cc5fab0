"""Mods, lifespans and functions of an app's own: once on training, never on questions, and untouched otherwise."""

import numpy as np
import pytest

pytest.importorskip("flwr", reason="flwr is not installed: make test-flower")

from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.mod import LocalDpMod, adaptiveclipping_mod, fixedclipping_mod
from flwr.serverapp.strategy import (
    DifferentialPrivacyClientSideAdaptiveClipping,
    DifferentialPrivacyClientSideFixedClipping,
    FedAvg,
)
from tests.flower.in_process import RUN, grid_of

from sortition.core.errors import InputError
from sortition.flower import SelectorStrategy, answer, codec
from sortition.selectors import load

MODEL = {"w": np.zeros((2, 500), np.float32)}
FACTS = {"facts": lambda context: {"sizes": 10}}


class OnlyLoss:
    """A client that has nothing but a loss."""

    made = 0

    def __init__(self, received):
        type(self).made += 1
        self.received = received

    def loss(self):
        return 1.0 + self.received.client


def training_app(mods=None, moves=0.5):
    app = ClientApp(mods=mods)

    @app.train()
    def train(message, context):
        (key,) = message.content.array_records  # as in a stock message: one model, one config
        (config,) = message.content.config_records.values()
        arrays = {n: v + moves for n, v in codec.to_arrays(message.content[key]).items()}
        metrics = MetricRecord({"num-examples": 10, "round": float(config["server-round"])})
        return Message(RecordDict({key: codec.to_record(arrays), "metrics": metrics}), reply_to=message)

    return app


def play(app, method="uniform", rounds=1, cohort=3, strategy=None, **options):
    strategy = strategy or FedAvg(fraction_evaluate=0.0)
    made = SelectorStrategy(load(method, **options), cohort=cohort, strategy=strategy)
    grid = grid_of(app)
    return made, grid, made.start(grid, codec.to_record(MODEL), rounds)


@pytest.mark.parametrize("method", ["uniform", "power-of-choice", "clustered"])
def test_a_mod_runs_once_on_training_and_never_on_questions(method):
    seen = []

    def noise(message, context, call_next):
        seen.append((message.metadata.message_type, sorted(message.content)))
        return call_next(message, context)

    app = training_app(mods=[noise])
    answer(app, OnlyLoss, **FACTS)
    _, grid, _ = play(app, method)
    assert seen == [("train", ["arrays", "config"])] * 3
    assert grid.count("train") == 3


def test_noise_of_a_mod_is_added_once_and_reports_carry_it():
    rng = np.random.default_rng(0)

    def noise(message, context, call_next):
        reply = call_next(message, context)
        (key,) = reply.content.array_records
        noisy = {n: v + rng.normal(size=v.shape) for n, v in codec.to_arrays(reply.content[key]).items()}
        reply.content[key] = codec.to_record({n: v.astype(np.float32) for n, v in noisy.items()})
        return reply

    app = training_app(mods=[noise], moves=0.0)
    answer(app, OnlyLoss, **FACTS)
    _, grid, result = play(app, "hics", clusters=2, cohort=1)
    assert codec.to_arrays(result.arrays)["w"].std() == pytest.approx(1.0, rel=0.1)  # √2 if it were added twice
    sent = next(m for m in grid.sent if m.metadata.message_type == "train")
    (reply,) = [grid.nodes[sent.metadata.dst_node_id](sent)]
    rows, model = codec.to_arrays(reply[codec.ROWS]), codec.to_arrays(reply["arrays"])
    np.testing.assert_allclose(rows["bias-update"], model["w"].mean(axis=1), rtol=1e-5)  # of what leaves the mod


def test_flowers_own_mods_work_with_questions_and_training():
    app = training_app(mods=[LocalDpMod(clipping_norm=1.0, sensitivity=1e-6, epsilon=1.0, delta=1e-3)])
    answer(app, OnlyLoss, **FACTS)
    _, _, result = play(app, "power-of-choice")
    assert np.linalg.norm(codec.to_arrays(result.arrays)["w"]) == pytest.approx(1.0, rel=0.01)


def test_clipping_on_clients_works_with_the_wrapper_inside():
    app = training_app(mods=[fixedclipping_mod])
    answer(app, OnlyLoss, **FACTS)
    private = DifferentialPrivacyClientSideFixedClipping(FedAvg(fraction_evaluate=0.0), 0.0, 2.0, 3)
    _, _, result = play(app, "power-of-choice", strategy=private)
    assert np.linalg.norm(codec.to_arrays(result.arrays)["w"]) == pytest.approx(2.0, rel=1e-4)
    app = training_app(mods=[adaptiveclipping_mod])
    answer(app, OnlyLoss, **FACTS)
    private = DifferentialPrivacyClientSideAdaptiveClipping(FedAvg(fraction_evaluate=0.0), 0.1, 3)
    made, _, _ = play(app, "uniform", strategy=private, rounds=2)
    assert made.history[-1]["answered"]


def test_a_lifespan_surrounds_questions_and_training_alike():
    app, open_now, seen = training_app(), [], []

    @app.lifespan()
    def lifespan(context: Context):
        open_now.append(1)
        yield
        open_now.pop()

    class Careful(OnlyLoss):
        def loss(self):
            seen.append(len(open_now))
            return 1.0

    answer(app, Careful, **FACTS)
    play(app, "power-of-choice", d=4)
    assert seen == [1, 1, 1, 1]


def test_an_app_without_a_client_is_enough_where_nothing_is_asked():
    app = training_app()
    answer(app)
    _, _, result = play(app, weights="uniform")
    assert codec.to_arrays(result.arrays)["w"][0, 0] == 0.5
    app = training_app()
    answer(app, **FACTS)
    with pytest.raises(InputError, match="does not answer loss, which PowerOfChoice needs"):
        play(app, "power-of-choice")


def test_a_client_is_made_only_where_a_question_needs_one():
    app, before = training_app(), OnlyLoss.made
    answer(app, OnlyLoss, **FACTS)
    play(app, rounds=2)
    assert OnlyLoss.made == before
    play(app, "power-of-choice", d=4)
    assert OnlyLoss.made == before + 4


def test_messages_of_other_strategies_reach_the_app_as_they_are():
    app = training_app()

    @app.query("loss")
    def own(message, context):
        return Message(RecordDict({"own": ConfigRecord({"a": 1})}), reply_to=message)

    answer(app, OnlyLoss, **FACTS)
    context = Context(run_id=1, node_id=1, node_config={}, state=RecordDict(), run_config=RUN)
    assert app(Message(RecordDict(), 1, "query.loss"), context).content["own"]["a"] == 1
    stock = RecordDict({"arrays": codec.to_record(MODEL), "config": ConfigRecord({"server-round": 1})})
    assert app(Message(stock, 1, "train"), context).content["metrics"]["num-examples"] == 10


def test_an_app_that_cannot_be_answered_for_is_refused():
    with pytest.raises(InputError, match="must be a ClientApp"):
        answer("app")
    with pytest.raises(InputError, match="must be given a client that trains"):
        answer(ClientApp())
    app = training_app()
    answer(app)
    with pytest.raises(InputError, match="this app answers already"):
        answer(app)
    with pytest.raises(InputError, match="got one made from client_fn"):
        answer(ClientApp(client_fn=lambda context: None))


def test_an_app_of_a_class_of_ones_own_stays_one():
    class Mine(ClientApp):
        label = "mine"

    app = Mine()
    app.train()(lambda message, context: Message(RecordDict({"arrays": ArrayRecord()}), reply_to=message))
    answer(app)
    assert isinstance(app, Mine)
    assert app.label == "mine"
