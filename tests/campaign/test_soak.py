"""A cut of the soak: every example of every method, with fixed numbers; ``make soak`` plays a thousand runs."""

from dataclasses import fields

import numpy as np
import pytest
from campaign.invariants import DROPPED, PAIRS, ROWS, BrokenError, Observer, check_memory, unknown_at_first

from campaign import soak
from sortition.core import Reading, Registrar
from sortition.selectors import discover, find, load
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
        registrar.observer = Observer(registrar)
        return registrar, world

    def test_a_shifted_row(self, monkeypatch):
        registrar, world = self.watched(d=4, variant="rpow-d")
        play_turn(registrar, world, np.arange(4), 2)
        observe = type(registrar.selector).observe

        def shifted(self, state, feedback):
            observe(self, state, feedback)
            state.loss[:] = np.roll(state.loss, 1)

        monkeypatch.setattr(type(registrar.selector), "observe", shifted)
        with pytest.raises(BrokenError, match=r"memory\.loss of a client changed that said nothing"):
            play_turn(registrar, world, np.arange(4), 2)

    @pytest.mark.parametrize(("name", "field"), [("divfl", "distance"), ("longfed", "distance"), ("hics", "entropy")])
    def test_what_two_silent_clients_have_in_common(self, monkeypatch, name, field):
        registrar, world = self.watched(name)
        for _ in range(4):
            play_turn(registrar, world, np.arange(4), 4)
        observe = type(registrar.selector).observe

        def touched(self, state, feedback):
            observe(self, state, feedback)
            getattr(state, field)[-2:] = 7.0

        monkeypatch.setattr(type(registrar.selector), "observe", touched)
        with pytest.raises(BrokenError, match=f"memory.{field} of a client changed that said nothing"):
            play_turn(registrar, world, np.arange(4), 2)

    def test_losses_that_fedcor_forgets_are_no_finding_and_others_are(self, monkeypatch):
        registrar, world = self.watched("fedcor", warmup=3)
        play_turn(registrar, world, np.arange(6), 2)
        play_turn(registrar, world, np.arange(3), 2)  # of three others the losses are dropped
        assert np.isnan(registrar.state.loss[3:]).all()
        observe = type(registrar.selector).observe

        def touched(self, state, feedback):
            observe(self, state, feedback)
            state.loss[7] = 1.0

        monkeypatch.setattr(type(registrar.selector), "observe", touched)
        with pytest.raises(BrokenError, match=r"memory\.loss"):
            play_turn(registrar, world, np.arange(3), 2)

    def test_the_fields_that_are_watched_exist(self):
        owners = {find(name).__name__: find(name) for name in discover()}
        named = [(owner, name) for owner, names in ROWS.items() for name in names]
        for owner, name in (*named, *DROPPED.items(), *PAIRS.items()):
            made = [owners[owner].load(**example) for example in owners[owner].examples()]
            states = [selector.init(3, np.random.default_rng(0)) for selector in made]
            assert name in {item.name for state in states for item in fields(state)}

    def test_an_absent_client_that_is_asked(self):
        registrar, _ = self.watched()
        registrar.begin([1, 2], 1)
        question = type("Question", (), {"ids": np.array([1, 5])})
        with pytest.raises(BrokenError, match="asked that is not available"):
            registrar.observer.answered(None, question, Reading.empty())

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
