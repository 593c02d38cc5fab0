"""What a device makes of the work that it is given, without a framework."""

from __future__ import annotations

import numpy as np
import pytest

from sortition.clients import Answers, AppReply
from sortition.core.errors import InputError
from sortition.federation import Ask, Device, Work

MODEL = {"weight": np.zeros((2, 3), np.float32), "bias": np.zeros(2, np.float32)}


class Client:
    """Two numbers that a selector may ask for."""

    def __init__(self, received):
        self.received = received

    def loss(self):
        return float(self.received.model["bias"].sum()) + 7.0

    def train(self):
        raise AssertionError("the app trains")


def train(received):
    received.model["bias"] += 1  # in place, as many training functions do
    return AppReply(received.model, {"train_loss": 0.5, "steps": 3, "lr": 0.1})


def facts(name):
    return {"sizes": 12, "battery": 0.4, "name": name}


def device(train=train, **options):
    return Device(Answers(Client, facts), train, name="phone", tags=["fast"], **options)


def work(kind, **options):
    return Work("h", Ask(kind, "phone/1", client=5, round=2, model=MODEL, **options), 60.0)


def test_it_says_who_it_is_and_no_more_than_was_asked():
    reply = device().handle(work("profile", facts=("sizes",), optional=("battery", "place")))
    assert (reply.handle, reply.outcome) == ("h", "ok")
    assert (reply.profile.name, reply.profile.tags) == ("phone", ("fast",))
    assert reply.profile.facts == {"sizes": 12, "battery": 0.4}
    assert "loss" in reply.profile.signals
    assert "gradient" not in reply.profile.signals


def test_it_answers_a_question_about_the_model():
    reply = device().handle(work("query", signals=("loss",)))
    assert float(reply.rows["loss"]) == 7.0
    assert reply.model is None


def test_a_question_about_a_training_sends_no_model():
    reply = device().handle(work("query", signals=("training-loss", "update-norm"), trains=True))
    assert float(reply.rows["training-loss"]) == 0.5
    assert float(reply.rows["update-norm"]) == pytest.approx(np.sqrt(2))
    assert reply.model is None


def test_it_trains_a_copy_and_reports():
    reply = device().handle(work("train", signals=("loss", "training-loss")))
    assert reply.model["bias"].tolist() == [1, 1]
    assert MODEL["bias"].tolist() == [0, 0]
    assert float(reply.rows["loss"]) == 7.0  # of the received model, not of the trained one
    assert float(reply.rows["training-loss"]) == 0.5


def test_a_rehearsal_is_a_model_without_reports():
    purposes = []

    def noting(received):
        purposes.append((received.purpose, received.t, received.client, received.context, dict(received.config)))
        return train(received)

    reply = device(noting, config={"lr": 0.3}).handle(work("rehearse", purpose="rehearsal"))
    assert reply.model["bias"].tolist() == [1, 1]
    assert reply.rows == {}
    assert purposes == [("rehearsal", 2, 5, "phone", {"lr": 0.3})]


def test_a_model_is_worth_sending_without_its_report():
    reply = device(lambda received: AppReply(received.model)).handle(work("train", signals=("loss", "training-loss")))
    assert reply.outcome == "ok"
    assert reply.rows == {}
    assert "must return a metric 'train_loss'" in reply.unreported
    assert reply.model.keys() == MODEL.keys()


def test_the_server_hears_what_the_program_raises():
    def broken(received):
        raise MemoryError("too little")

    reply = device(broken).handle(work("train"))
    assert (reply.outcome, reply.reason, reply.model) == ("failed", "MemoryError: too little", None)
    reply = device(lambda received: {"bias": 1}).handle(work("train"))
    assert reply.reason.startswith("InputError: Device.train must be a function that returns AppReply(model, metrics)")


def test_a_client_may_train_itself():
    class Trained:
        update = np.arange(8, dtype=np.float32)
        loss = 0.25

    class Trainer(Client):
        def train(self):
            return Trained()

    trainer = Device(Answers(Trainer, facts, app_trains=False), name="phone")
    reply = trainer.handle(work("train", signals=("training-loss",)))
    assert reply.model["weight"].ravel().tolist() == [0, 1, 2, 3, 4, 5]
    assert reply.model["bias"].tolist() == [6, 7]
    assert float(reply.rows["training-loss"]) == 0.25


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Device(Client), "Device.answers must be Answers; got"),
        (
            lambda: Device(Answers(Client), "train"),
            "Device.train must be a function from Received to AppReply, or None",
        ),
        (lambda: Device(Answers(Client)), "Device.train must be a function where Answers"),
        (lambda: Device(Answers(Client, app_trains=False), train), "and None where it is False"),
    ],
)
def test_what_cannot_be_a_device_is_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()
