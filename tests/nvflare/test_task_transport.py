"""One site that sends nonsense is left out; the job goes on. And which asks become one task."""

import math

import numpy as np
import pytest
from nvflare.apis.shareable import Shareable
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType
from nvflare.app_common.utils.fl_model_utils import FLModelUtils
from tests.nvflare.loopback import MODEL as SITE_MODEL
from tests.nvflare.loopback import federation
from tests.nvflare.loopback_controllers import begun

from sortition.core import Guards
from sortition.federation.messages import Ask
from sortition.federation.model_screening import ModelCheck
from sortition.nvflare import meta_codec
from sortition.nvflare.task_transport import read_profile, read_reply

MODEL = {"w": np.zeros((2, 3), np.float32), "b": np.zeros(2, np.float32)}


def trained(kind, params, model=MODEL):
    """The model of a reply, as it is read."""
    ask = Ask("train", "a/token", client=0, model=model)
    return read_reply("0/a", "a", ask, FLModelUtils.to_shareable(FLModel(kind, params))).model


def judged(sent, model=MODEL):
    return ModelCheck(Guards()).screen(sent, model)


@pytest.mark.parametrize(
    ("kind", "w"),
    [
        (ParamsType.DIFF, np.ones((4, 4))),
        (ParamsType.DIFF, np.array(["a"] * 3)),
        (ParamsType.FULL, [[1], [1, 2]]),
        (ParamsType.FULL, np.array([["a"] * 3] * 2)),
        (ParamsType.FULL, object()),
    ],
    ids=["another shape", "texts added", "ragged", "texts", "an object"],
)
def test_a_model_that_is_none_is_left_out(kind, w):
    honest = trained(ParamsType.FULL, {name: value + 1 for name, value in MODEL.items()})
    models, faults = judged({0: honest, 1: trained(kind, {"w": w, "b": np.ones(2)}), 2: honest})
    assert sorted(models) == [0, 2]
    assert list(faults) == [1]


def test_a_difference_is_added_to_the_model_that_was_sent():
    model = {name: value + 2 for name, value in MODEL.items()}
    sent = trained(ParamsType.DIFF, {name: value + 1 for name, value in MODEL.items()}, model)
    assert sent["w"].tolist() == [[3.0] * 3] * 2


def test_a_number_that_the_models_type_does_not_hold_is_left_out():
    half = {"w": np.zeros(3, np.float16)}
    sent = {k: trained(ParamsType.FULL, {"w": np.full(3, 10, np.float16)}, half) for k in range(3)}
    sent[1] = trained(ParamsType.FULL, {"w": np.full(3, 1e6, np.float32)}, half)  # infinite in half precision
    models, faults = judged(sent, half)
    assert sorted(models) == [0, 2]
    assert faults == {1: "w is not finite"}


def test_what_is_no_message_is_a_failure():
    reply = read_reply("0/a", "a", Ask("train", "a/token"), Shareable())
    assert (reply.outcome, reply.model) == ("failed", None)
    assert "sent no FLModel" in reply.reason


def test_facts_signals_and_tags_of_another_form_are_not_there():
    profile = read_profile({"facts": {"label_counts": [[1], [1, 2]], "sizes": 3}, "signals": 5, "tags": "gpu"})
    assert profile.facts.keys() == {"sizes"}
    assert (profile.signals, profile.tags) == ((), ())
    assert read_profile({"facts": 3}).facts == {}


def test_rows_of_another_form_are_not_there():
    result = FLModelUtils.to_shareable(meta_codec.reply({"rows": [1, 2]}))
    reply = read_reply("0/a", "a", Ask("query", "a/token", signals=("loss",)), result)
    assert (reply.outcome, reply.rows) == ("ok", {})


def posted(asks):
    """The tasks that these asks become, and their messages."""
    loopback = federation(3)
    loopback.silent = set(loopback.sites)
    controller = begun(loopback)
    controller.transport.online()
    sent = []
    send = loopback.broadcast
    loopback.broadcast = lambda task, targets: (sent.append(task), send(task, targets))
    handles = controller.transport.post(asks)
    assert len(set(handles)) == len(asks)
    return [(task.targets, FLModelUtils.from_shareable(task.data)) for task in sent]


def session(number):
    return f"site-{number}/token of site-{number}"


@pytest.mark.parametrize("seconds", [5.0, math.inf])
def test_work_without_a_deadline_is_lost_with_its_site(seconds):
    loopback = federation(3)
    controller = begun(loopback)
    controller.transport.online()
    loopback.silent = {"site-1", "site-2"}
    asks = [Ask("train", session(number), client=number, model=SITE_MODEL, seconds=seconds) for number in (1, 2)]
    first, _ = controller.transport.post(asks)
    assert controller.transport.poll(0) == []
    loopback.offline = {"site-1"}
    lost = [(reply.handle, reply.outcome) for reply in controller.transport.poll(0)]
    assert lost == ([(first, "lost")] if seconds == math.inf else [])
    assert controller.transport.poll(0) == []


def test_asks_of_one_content_become_one_task_that_names_the_id_of_each_site():
    asks = [Ask("train", session(number), client=10 + number, model=SITE_MODEL, seconds=5) for number in (1, 3)]
    ((targets, message),) = posted(asks)
    assert targets == ["site-1", "site-3"]
    assert message.meta[meta_codec.CLIENTS] == {"site-1": 11, "site-3": 13}
    assert meta_codec.ask_of(message, "site-3").client == 13


def test_asks_of_several_contents_become_several_tasks():
    other = {name: value + 1 for name, value in SITE_MODEL.items()}
    question = {"client": 1, "signals": ("loss",)}
    asks = [
        Ask("query", session(1), model=SITE_MODEL, **question),
        Ask("query", session(2), model=other, **question),
        Ask("query", session(3), model=SITE_MODEL, payload={"x": np.ones(2)}, **question),
    ]
    assert [targets for targets, _ in posted(asks)] == [["site-1"], ["site-2"], ["site-3"]]
    assert posted([]) == []


def test_what_a_site_has_not_fetched_is_withdrawn_and_what_it_has_is_not():
    loopback = federation(3)
    controller = begun(loopback)
    controller.transport.online()
    loopback.silent, loopback.away = {"site-1", "site-2"}, {"site-2", "site-3"}
    asks = [Ask("train", session(number), client=number, model=SITE_MODEL) for number in (1, 2, 3)]
    first, second, third = controller.transport.post(asks)
    assert list(controller.transport.cancel([first, second])) == [second]
    assert list(controller.transport.cancel([third])) == [third]
    (task,) = {waiting.task for waiting in controller.transport._open_asks.values()}
    assert task.targets == ["site-1"]
    assert loopback.cancelled == []
    loopback.away = set(loopback.sites)
    (alone,) = controller.transport.post(asks[:1])
    assert list(controller.transport.cancel([alone])) == [alone]
    assert loopback.cancelled == [("train", ["site-1"])]
