"""A training function of an app's own answers for signals of training; what is missing is said."""

import numpy as np
import pytest

from sortition.clients import Answers, AppClient, AppReply, Received
from sortition.clients.pytorch import NodeFacts
from sortition.clients.torch_data import TorchData
from sortition.core import (
    BIAS_UPDATE,
    DURATION,
    GRADIENT,
    HEAD_UPDATE,
    LOSS,
    RMS_LOSSES,
    STEP_GRADIENT,
    TRAINING_LOSS,
    UPDATE,
)
from sortition.core.errors import InputError

MODEL = {"weight": np.zeros((3, 2), np.float32), "bias": np.zeros(3, np.float32), "seen": np.array(4)}
AFTER = {"weight": np.ones((3, 2), np.float32), "bias": np.arange(3, dtype=np.float32), "seen": np.array(5)}


class OnlyLoss:
    """All that a method which asks losses needs."""

    def __init__(self, received):
        self.received = received

    def loss(self):
        return 0.5


def trained(metrics=None, after=AFTER, make=None, config=None, model=MODEL):
    received = Received(model, config or {})
    runs = []

    def run():
        runs.append(1)
        return AppReply(after, metrics or {}, 2.0)

    found = AppClient(received, run, make)
    found.runs = runs
    return found


def test_signals_are_computed_from_the_reply():
    client = trained({"train_loss": 0.25, "steps": 5}, config={"lr": 0.1})
    assert UPDATE.row(client).tolist() == [1] * 6 + [0, 1, 2]
    assert BIAS_UPDATE.row(client).tolist() == [0, 1, 2]
    assert HEAD_UPDATE.row(client).tolist() == [1] * 6 + [0, 1, 2]
    assert TRAINING_LOSS.row(client) == 0.25
    assert DURATION.row(client) == 2.0
    np.testing.assert_allclose(STEP_GRADIENT.row(client)[:6], -2)
    assert len(client.runs) == 1


def test_the_root_mean_square_of_losses_is_a_metric_or_the_training_loss():
    client = trained({"train_loss": 0.25, "rms_loss_last": 0.5})
    assert RMS_LOSSES["last"].row(client) == 0.5
    assert RMS_LOSSES["all"].row(client) == RMS_LOSSES["first"].row(client) == 0.25


def test_a_missing_metric_is_named():
    assert (
        TRAINING_LOSS.row(trained({"train_logloss": 0.5}, config={"loss": 9.0})) == 0.5
    )  # of scikit-learn's quick-start
    with pytest.raises(InputError, match="must return a metric 'train_loss': the selector asks for the training loss"):
        trained({}, config={"loss": 9.0}).train().loss  # noqa: B018 - an option of the app's, not its loss
    with pytest.raises(InputError, match="must return a metric 'train_loss': the selector asks for the training loss"):
        TRAINING_LOSS.row(trained())


def test_arrays_that_stay_at_home_have_an_update_of_zero():
    client = trained(after={"weight": AFTER["weight"]})
    assert UPDATE.row(client).tolist() == [1] * 6 + [0] * 3
    assert BIAS_UPDATE.row(client).tolist() == [1, 1, 1]  # the row means of the weight's change


def test_a_model_without_an_output_layer_is_refused_where_its_change_is_asked():
    flat = {"w": np.zeros(3)}
    with pytest.raises(InputError, match="must have an output layer"):
        HEAD_UPDATE.row(trained(after=flat, model=flat))


def test_a_class_with_only_a_loss_answers_for_losses():
    client = trained(make=OnlyLoss)
    assert LOSS.row(client) == 0.5
    assert client.runs == []
    with pytest.raises(InputError, match="OnlyLoss must have gradient: the selector asks for it"):
        GRADIENT.row(client)
    with pytest.raises(InputError, match="The app must have a client with loss"):
        LOSS.row(trained())


def test_an_error_inside_the_clients_code_stays_what_it_is():
    class Broken(OnlyLoss):
        @property
        def label_counts(self):
            return self.nothing

    with pytest.raises(AttributeError, match="nothing"):
        _ = trained(make=Broken).label_counts


def test_what_can_be_answered_is_known_before_a_client_is_made():
    training = "update step-gradient bias-update head-update training-loss dispersion update-norm duration probe"
    training += " rms-loss rms-loss-first rms-loss-last"
    assert Answers(OnlyLoss).names == sorted(["loss", *training.split()])
    assert "loss" not in Answers().names
    assert "update" in Answers().names
    assert Answers(OnlyLoss, app_trains=False).names == ["loss"]
    assert "gradient" in Answers(lambda received: OnlyLoss(received)).names  # what a function makes is not known yet
    assert "own" in Answers(signals=[type(LOSS)("own", "model", lambda c, _: 1.0)]).names
    with pytest.raises(InputError, match=r"answer\(client\) must be a class or function"):
        Answers(3)


def test_rows_and_facts_by_name():
    answers = Answers(OnlyLoss, lambda context: {"sizes": 9, "battery": 0.5, "groups": context})
    assert answers.row("loss", OnlyLoss(None)) == 0.5
    assert answers.row("update-sketch4", trained()).shape == (4,)
    assert answers.facts_of(3, ["battery", "groups"]) == {"battery": 0.5, "groups": 3}
    assert answers.facts_of(3, []) == {}
    with pytest.raises(InputError, match="a function that gives features"):
        answers.facts_of(3, ["features"])
    with pytest.raises(InputError, match="signal must be one of"):
        answers.signal("unheard-of")


def test_an_optional_fact_that_cannot_be_computed_is_not_given():
    def facts(context):
        return NodeFacts(TorchData.of(np.zeros((3, 2), np.float32), np.zeros((3, 1), np.float32)), lambda: 2)

    answers = Answers(OnlyLoss, facts)
    assert answers.facts_of(0, ["sizes"], ["label_counts", "features"]) == {"sizes": 3}  # a regression has no labels
    with pytest.raises(InputError, match="labels that are whole numbers"):
        answers.facts_of(0, ["sizes", "label_counts"])
