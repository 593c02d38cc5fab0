"""That a training does not give what the method wants reported is found before a round is paid for."""

from dataclasses import replace

import pytest
from tests.federation import tiny
from tests.federation.fleet import over_the_wire, serving

from sortition.clients import Answers
from sortition.core.errors import InputError
from sortition.federation import Device, Federation, Mailbox


def without_steps(received):
    """A training that does not say how many steps it made."""
    reply = tiny.train(received)
    return replace(reply, metrics={"train_loss": reply.metrics["train_loss"]})


@pytest.mark.parametrize("over_wire", [False, True], ids=["in-process", "over-the-wire"])
def test_a_device_whose_training_lacks_a_metric_is_found_before_the_first_round(over_wire):
    kinds = []

    def handler(device):
        handle = over_the_wire(device) if over_wire else device.handle

        def counted(work):
            kinds.append(work.ask.kind)
            return handle(work)

        return counted

    names = [f"device-{number}" for number in range(3)]
    devices = {name: handler(Device(Answers(tiny.Client, tiny.facts), without_steps, name=name)) for name in names}
    mailbox = Mailbox()
    federation = Federation(mailbox, tiny.model(), "delta", cohort=2, wait_for=3)
    with serving(mailbox, devices), pytest.raises(InputError, match=r"Delta wants 'step-gradient' reported"):
        federation.run(2)
    assert "train" not in kinds
    assert kinds.count("query") == 3  # one device alone shows nothing of the others
    assert federation.history == []


class PartlyTrained:
    """What a client's own training returns: it knows its loss, and no root mean square."""

    def __init__(self, update):
        self.update = update
        self.loss = 1.0


class Trainer(tiny.Client):
    """A client that trains itself."""

    def train(self):
        return PartlyTrained(0.5 * (self.goal - self.model))


def trainers():
    answers = Answers(Trainer, tiny.facts, app_trains=False)
    names = [f"device-{number}" for number in range(3)]
    return {name: Device(answers, name=name).handle for name in names}


def test_a_client_that_trains_itself_and_lacks_a_report_is_found_before_the_first_round():
    mailbox = Mailbox()
    federation = Federation(mailbox, tiny.model(), "oort", cohort=2, wait_for=3)
    with serving(mailbox, trainers()), pytest.raises(InputError, match=r"Oort wants 'rms-loss' reported"):
        federation.run(2)
    assert federation.history == []


def test_a_shadow_that_clients_cannot_report_to_is_refused_when_it_is_promoted(tmp_path):
    def federation(promote):
        return Federation(
            mailbox,
            tiny.model(),
            "power-of-choice",
            cohort=2,
            wait_for=3,
            shadow=["oort"],
            checkpoint=tmp_path / "run.npz",
            resume=True,
            promote=promote,
        )

    mailbox = Mailbox()
    with serving(mailbox, trainers()):
        federation(promote=None).run(2)
        promoted = federation(promote="oort")
        with pytest.raises(InputError, match=r"Oort wants 'rms-loss' reported"):
            promoted.run(4)
        assert len(promoted.history) == 2
        back = federation(promote=None)  # nothing has changed: the live method goes on
        back.run(4)
    assert [len(record["answered"]) for record in back.history] == [2, 2, 2, 2]
