"""A cut of the soak: every example of every method, with fixed numbers; ``make soak`` plays a thousand runs."""

import numpy as np
import pytest
from campaign.invariants import BrokenError, Observer, check_memory, unknown_at_first

from campaign import soak
from sortition.core import Reading, Registrar
from sortition.selectors import load
from sortition.testing.play import play_turn
from sortition.testing.worlds import ScriptedWorld

ROUNDS = 14


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # damaged and forged numbers overflow on purpose
@pytest.mark.parametrize("number", range(len(soak.methods())), ids=lambda n: f"{soak.methods()[n][0]}-{n}")
def test_every_method_stands_random_faults_guards_and_attacks(number):
    told = soak.play(number, ROUNDS)
    assert told["rounds"] == ROUNDS


def test_scenarios_are_the_same_again_and_cover_all_faults():
    assert soak.scenario(7) == soak.scenario(7)
    drawn = [soak.scenario(number) for number in range(60)]
    assert {rate for one in drawn for rate in one["faults"]} >= set(soak.RATES)
    assert {key for one in drawn for key in one["guards"]} == set(soak.GUARDS)


class TestInvariantsCanFail:
    """What the campaign looks at would be seen."""

    def watched(self, name="power-of-choice", **parameters):
        world = ScriptedWorld(8)
        registrar = Registrar(load(name, **parameters), world.population)
        registrar.witness = Observer(registrar)
        return registrar, world

    def test_a_shifted_row(self, monkeypatch):
        registrar, world = self.watched(d=4, variant="rpow-d")
        play_turn(registrar, world, np.arange(4), 2)
        observe = type(registrar.selector).observe

        def shifted(self, state, feedback):
            observe(self, state, feedback)
            state.loss[:] = np.roll(state.loss, 1)

        monkeypatch.setattr("campaign.invariants.TOLD", ("loss",))
        monkeypatch.setattr(type(registrar.selector), "observe", shifted)
        with pytest.raises(BrokenError, match=r"memory\.loss of a client changed that said nothing"):
            play_turn(registrar, world, np.arange(4), 2)

    def test_an_absent_client_that_is_asked(self):
        registrar, _ = self.watched()
        registrar.begin([1, 2], 1)
        question = type("Question", (), {"ids": np.array([1, 5])})
        with pytest.raises(BrokenError, match="asked that is not available"):
            registrar.witness.answered(None, question, Reading.empty())

    def test_memory_that_is_not_finite_or_not_of_all_clients(self):
        registrar, _ = self.watched("cs-ucb-q")
        first = unknown_at_first(registrar)
        check_memory(registrar, first)
        registrar.state.latency[3] = np.nan
        with pytest.raises(BrokenError, match=r"memory\.latency is not finite"):
            check_memory(registrar, first)
        registrar.state.latency = np.zeros(5)
        with pytest.raises(BrokenError, match=r"memory\.latency has shape"):
            check_memory(registrar, first)
