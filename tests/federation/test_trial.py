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
