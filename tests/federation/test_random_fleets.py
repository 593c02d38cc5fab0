"""Random fleets on the network with a fake clock: whatever devices do, a round keeps what it promises."""

import re

import numpy as np
import pytest
from tests.federation.fake import NEVER, Device, Federation, Network

from sortition.core import LOSS, Cohort, InputError, Measure, Needs, Selector, State, method

ROUNDS = 12


@method
class Asking(Selector[State]):
    """Asks some clients, and chooses by lot among all."""

    @property
    def needs(self):
        return Needs(asks=(LOSS,))

    def select(self, state, round):
        asked = round.rng.permutation(round.available)[: max(1, round.available.size // 2)]
        yield Measure(LOSS, np.sort(asked))
        return Cohort.uniform(round.rng.permutation(round.available)[: round.budget])


class Wild(Network):
    """A network that loses devices, lets them restart, and withdraws messages now and then; it keeps what was open."""

    def __init__(self, devices, rng):
        super().__init__(devices)
        self.rng = rng
        self.n_sessions = len(devices)

    def live(self):
        """Let something happen to a device."""
        device = self.rng.choice(list(self.devices.values()))
        event = self.rng.integers(8)
        if event == 0:
            self.offline ^= {device.name}
        elif event == 1:
            device.seconds["train"] = self.rng.choice([0.5, 3.0, 15.0, 60.0, NEVER])
        elif event == 2:
            device.seconds["query"] = self.rng.choice([0.1, 4.0, 30.0, NEVER])
        elif event == 3:
            device.fails = self.rng.choice([None, None, "RuntimeError: no disk"])
        elif event == 4:
            device.w = [(1.0, 1.0), (np.nan, 0.0), (1e9, 0.0), (1.0, 2.0, 3.0)][self.rng.integers(4)]
        elif event == 5:
            device.facts["battery"] = self.rng.choice([0.1, 0.9])
        elif event == 6:
            self._restart(device)
        else:
            self.devices[f"session-{self.n_sessions}"] = wild_device(f"c{self.n_sessions}", self.rng)
            self.n_sessions += 1

    def _restart(self, device):
        session = next(key for key, value in self.devices.items() if value is device)
        del self.devices[session]
        self.under_way = [message for message in self.under_way if message[1] not in self._handles_of(session)]
        self.devices[f"session-{self.n_sessions}"] = device
        self.n_sessions += 1

    def _handles_of(self, session):
        return {f"message-{number}" for number, ask in enumerate(self.asks) if ask.session == session}

    def post(self, asks):
        asks = list(asks)
        online = self.online()
        handles = iter(super().post([ask for ask in asks if ask.session in online]))
        return [next(handles) if ask.session in online else None for ask in asks]

    def cancel(self, handles):
        handles = set(handles)
        if self.rng.random() < 0.5:
            return ()
        self.under_way = [message for message in self.under_way if message[1] not in handles]
        return handles


def wild_device(name, rng):
    device = Device(name, facts={"battery": 0.9}, train=float(rng.choice([0.5, 1.0, 3.0])), query=0.1)
    device.seconds["profile"] = float(rng.choice([0.0, 0.0, 1.0]))
    return device


def check_record(record, *, cohort):
    """Everybody of a cohort has one fate, and at most as many count as the round wants."""
    chosen = set(record["cohort"])
    answered = set(record["answered"])
    fates = [
        answered,
        set(record["silent"]),
        set(record.get("standby", ())),
        {int(client) for client in record["failed"]},
        {int(client) for client in record["left_out"]},
    ]
    assert len(answered) <= cohort
    assert sorted(client for fate in fates for client in fate) == sorted(chosen)


@pytest.mark.parametrize("seed", range(40))
def test_a_round_keeps_its_promises(seed):
    rng = np.random.default_rng(seed)
    network = Wild([wild_device(f"c{k}", rng) for k in range(rng.integers(3, 9))], rng)
    cohort = int(rng.integers(1, 5))
    deadline = float(rng.choice([8.0, 40.0]))
    federation = Federation(
        network,
        Asking(),
        cohort=cohort,
        overselect=float(rng.choice([1.0, 2.0])),
        deadline=deadline,
        patience=30.0,
        profile_timeout=5.0,
        answer_timeout=20.0,
        facts=["battery"],
        eligible=lambda name, facts: facts["battery"] > 0.5,
    )
    messenger = federation.messenger
    began = {}
    original_ask = messenger.ask
    original_dispatch = messenger.dispatch

    def check_idle(clients):
        """A session that works on one message is asked nothing else; who restarted has another session."""
        assert not messenger.busy_sessions() & {messenger.members.session_of(client) for client in clients}

    def ask(turn, question):
        began.setdefault(turn.index, network.clock.now)
        check_idle(question.ids.tolist())
        return original_ask(turn, question)

    def dispatch(turn, chosen):
        began.setdefault(turn.index, network.clock.now)
        original_dispatch(turn, chosen)

    messenger.ask = ask
    messenger.dispatch = dispatch
    for _ in range(ROUNDS):
        for _ in range(rng.integers(4)):
            network.live()
        try:
            (record,) = federation.play()
        except InputError as error:  # that nobody at all can do what is asked is a mistake of their program
            if not re.search("None of the .* can (answer|train)", str(error)):
                raise
            return
        check_record(record, cohort=cohort)
        if record["round"] in began:
            assert network.clock.now - began[record["round"]] <= deadline + 1e-9
        sessions = [member.session for member in messenger.members.members if member.session is not None]
        assert len(sessions) == len(set(sessions))
