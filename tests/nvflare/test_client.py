"""The client module: questions are answered inside receive, a training that was asked for sends rows alone."""

from __future__ import annotations

import numpy as np
import pytest
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType
from tests.nvflare.loopback import MODEL, Quadratic, Site, facts

from sortition.clients import Answers
from sortition.clients.named_arrays import as_vector
from sortition.federation.messages import Ask
from sortition.nvflare import client as flare
from sortition.nvflare import meta_codec


def asked(site, kind, **about):
    return site.handle(sent(kind, **about))


def sent(kind, **about):
    """The server's message to the site, whose id is 3, in round 2 of 5."""
    return meta_codec.message_of({"site-4": Ask(kind, "site-4", client=3, round=2, model=dict(MODEL), **about)}, 5)


def test_a_profile_holds_the_declared_facts_and_no_others():
    site = Site("site-4")
    content = meta_codec.content_of(asked(site, "profile", facts=("sizes",)))
    assert content["facts"] == {"sizes": facts("site-4")["sizes"]}
    assert "loss" in content["signals"]
    assert site.trainings == 0


def test_a_question_about_the_model_does_not_train():
    site = Site("site-4")
    content = meta_codec.content_of(asked(site, "query", signals=("loss",)))
    assert content["rows"]["loss"] > 0
    assert site.trainings == 0


def test_a_question_about_training_trains_once_and_sends_no_model():
    site = Site("site-4")
    reply = asked(site, "query", signals=("bias-update", "training-loss"))
    assert not reply.params
    assert site.trainings == 1
    rows = meta_codec.content_of(reply)["rows"]
    assert rows["training-loss"] == pytest.approx(1.4)
    assert rows["bias-update"].shape == (3,)


def test_training_sends_the_model_and_the_declared_reports():
    site = Site("site-4")
    reply = asked(site, "train", signals=("training-loss",))
    assert set(reply.params) == set(MODEL)
    assert set(meta_codec.content_of(reply)["rows"]) == {"training-loss"}


def test_the_script_sees_nothing_of_the_assignment():
    site, seen = Site("site-4"), []
    site.train = lambda message: seen.append(dict(message.meta)) or FLModel(params=dict(MODEL))
    asked(site, "train")
    assert seen == [{}]


def test_a_message_of_another_controller_passes_through():
    site = Site("site-4")
    reply = site.handle(FLModel(params=dict(MODEL), meta={"other": 1}))
    assert set(reply.params) == set(MODEL)
    assert meta_codec.content_of(reply) == {}


def test_an_unknown_signal_is_an_error_that_names_it():
    content = meta_codec.content_of(asked(Site("site-4"), "query", signals=("colour",)))
    assert "colour" in content["error"]


def test_a_difference_is_added_to_what_was_sent():
    before = {"w": np.ones(2, np.float32)}
    message = FLModel(ParamsType.DIFF, {"w": np.array([0.5, -1.0], np.float32)})
    assert as_vector(meta_codec.full_model(message, before)).tolist() == [1.5, 0.0]


def test_the_id_of_a_site_is_its_own():
    asks = {f"site-{client + 1}": Ask("train", "", client=client, model=dict(MODEL)) for client in (1, 2)}
    assert meta_codec.ask_of(meta_codec.message_of(asks, 1), "site-3").client == 2


class Stub:
    """NVFlare's client interface: a message stays until something is sent, or longer if the script says so."""

    def __init__(self, *messages):
        self.coming, self.held, self.sent, self.waited = list(messages), None, [], []

    def get_site_name(self):
        return "site-4"

    def is_running(self):
        return self.receive() is not None

    def is_train(self):
        return False  # the task is not called "train"

    def receive(self, timeout=None):
        self.waited.append(timeout)
        if self.held is None and self.coming:
            self.held = self.coming.pop(0)
        return self.held

    def send(self, model, clear_cache=True):
        self.sent.append(model)
        self.held = None if clear_cache else self.held


def script(monkeypatch, *tasks):
    """NVFlare behind the module, with one message a task."""
    stub = Stub(*(sent(kind, signals=signals) for kind, signals in tasks))
    monkeypatch.setattr(flare, "flare", stub)
    monkeypatch.setattr(flare, "_session", flare.SiteSession(Answers(Quadratic, facts), stub))
    return stub


def trained():
    return FLModel(params={name: value + 1 for name, value in MODEL.items()}, metrics={"train_loss": 1.5})


def test_a_script_may_ask_for_the_model_as_often_as_it_likes(monkeypatch):
    stub = script(monkeypatch, ("train", ("training-loss",)), ("query", ("loss",)), ("train", ()))
    assert flare.is_running()
    assert flare.is_running()
    assert flare.receive() is flare.receive()
    flare.send(trained())
    assert meta_codec.content_of(stub.sent[0])["rows"] == {"training-loss": 1.5}
    assert flare.is_running()  # the question is answered on the way
    assert list(meta_codec.content_of(stub.sent[1])["rows"]) == ["loss"]
    flare.send(trained())
    assert (flare.is_running(), flare.receive()) == (False, None)


def test_a_question_about_training_is_a_training_to_the_script(monkeypatch):
    stub = script(monkeypatch, ("query", ("training-loss",)))
    assert flare.is_running()
    assert flare.is_train()
    flare.send(trained())
    assert meta_codec.content_of(stub.sent[0])["rows"] == {"training-loss": 1.5}
    assert not flare.is_train()


def test_send_keeps_the_message_where_nvflare_does(monkeypatch):
    stub = script(monkeypatch, ("train", ("training-loss",)))
    flare.receive()
    flare.send(trained(), clear_cache=False)
    flare.receive()
    flare.send(trained())
    assert [meta_codec.content_of(sent)["rows"] for sent in stub.sent] == [{"training-loss": 1.5}] * 2


def test_receive_waits_no_longer_than_it_is_told(monkeypatch):
    stub = script(monkeypatch, ("query", ("loss",)))
    assert flare.receive(timeout=0.5) is None
    assert len(stub.waited) == 2  # once more after the question, for what is left of the time
    assert all(0 <= seconds <= 0.5 for seconds in stub.waited)


@pytest.mark.parametrize("kind", ["train", "query"])
def test_a_script_that_trains_in_place_reports_its_update(monkeypatch, kind):
    stub = script(monkeypatch, (kind, ("bias-update",)))
    message = flare.receive()
    message.params = {name: value.copy() for name, value in message.params.items()}
    stub.held.params["layer.bias"] += 2
    flare.send(message)
    assert meta_codec.content_of(stub.sent[0])["rows"]["bias-update"].tolist() == [2.0, 2.0, 2.0]
