"""Calls that a careless or hostile caller makes: refused with one sentence, before anything has changed."""

import copy
import pickle

import numpy as np
import pytest

from sortition.core import GRADIENT, Guards, InputError, ModelSize, Population, Registrar
from sortition.selectors import discover, load


def fresh(name="uniform", **options):
    population = Population(np.arange(10, 20), label_counts=np.ones((10, 3), int))
    return Registrar(load(name), population, horizon=9, **options)


def played(registrar, rounds):
    """The cohorts of so many rounds; questions and reports stay unanswered."""
    cohorts = []
    for _ in range(rounds):
        turn = registrar.begin(np.arange(10), 3)
        while turn.question is not None:
            turn.answer({})
        registrar.finish(turn)
        cohorts.append(turn.cohort.ids.tolist())
    return cohorts


@pytest.mark.parametrize("clients", [{10**6: "x"}, {-1: "x"}, {9: "x"}, {0.5: "x"}, {"a": "x"}, [1], 5])
def test_blame_of_anybody_but_a_member_is_refused_and_changes_nothing(clients):
    registrar = fresh(guards=Guards(strikes=1, quarantine=5))
    turn = registrar.begin(np.arange(9), 3)
    with pytest.raises(InputError, match=r"turn\.blame"):
        turn.blame(clients)
    registrar.finish(turn)
    assert not registrar.strikes.any()


def test_blame_before_there_is_a_cohort_is_refused():
    turn = fresh("power-of-choice").begin(np.arange(10), 3)
    with pytest.raises(InputError, match="members of the cohort"):
        turn.blame({0: "x"})


def test_a_member_is_blamed():
    registrar = fresh()
    turn = registrar.begin(np.arange(10), 3)
    culprit = turn.cohort.ids[1]
    turn.blame({culprit: "not finite"})
    registrar.finish(turn)
    assert np.flatnonzero(registrar.strikes).tolist() == [culprit]


class Grumbling:
    """An observer that fails when the round is over."""

    def begun(self, turn, available, budget): ...

    def answered(self, turn, question, answers): ...

    def joined(self, population): ...

    def finished(self, turn, done, reports):
        raise RuntimeError("disk full")


def test_where_an_observer_raises_nothing_is_booked_and_the_round_can_be_finished():
    registrar = fresh(observer=Grumbling())
    turn = registrar.begin(np.arange(10), 3)
    done = turn.cohort.ids[:2]
    with pytest.raises(RuntimeError, match="disk full"):
        registrar.finish(turn, done, durations=[1.0, 2.0])
    assert (registrar.index, turn.usable, turn.durations) == (0, None, None)
    registrar.observer = None
    assert registrar.finish(turn, done).tolist() == turn.usable.tolist() == done.tolist()
    assert registrar.index == 1


@pytest.mark.parametrize("observer", [5, "log", object()])
def test_what_is_no_observer_is_refused(observer):
    with pytest.raises(InputError, match="begun"):
        fresh(observer=observer)


@pytest.mark.parametrize("path", ["", "a\0b", ".", 5, None])
def test_a_path_that_names_no_file_is_refused(path):
    with pytest.raises(InputError, match="path must be"):
        fresh().save(path)


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(InputError, match="folder"):
        fresh().save(tmp_path)


@pytest.mark.parametrize("length", [-1, 0, 1.5, True, "7"])
@pytest.mark.parametrize("name", ["parameters", "classes", "head", "outputs"])
def test_a_model_has_whole_sizes(name, length):
    with pytest.raises(InputError, match=rf"ModelSize\.{name}"):
        ModelSize(**{name: length})


def test_numpys_whole_numbers_count_as_pythons(tmp_path):
    assert ModelSize(np.int64(7)) == ModelSize(7)
    assert GRADIENT.sketch(np.int32(4)).dimension(None) == 4
    registrar = Registrar(load("uniform"), Population(np.full(4, 9)), horizon=np.int64(5), seed=np.int64(3))
    registrar.save(tmp_path / "state.npz")
    assert Registrar.load(tmp_path / "state.npz", load("uniform"), Population(np.full(4, 9))).horizon == 5


COPIES = [copy.copy, copy.deepcopy, lambda registrar: pickle.loads(pickle.dumps(registrar))]  # noqa: S301


@pytest.mark.parametrize("duplicate", COPIES)
@pytest.mark.parametrize("name", sorted(discover()))
def test_a_copied_registrar_goes_on_alike_and_apart(name, duplicate):
    registrar = fresh(name, guards=Guards(ceiling=2, quarantine=3, strikes=1))
    played(registrar, 2)
    twin = duplicate(registrar)
    assert played(twin, 4) == played(registrar, 4)
    assert twin.index == registrar.index == 6
    turn = registrar.begin(np.arange(10), 3)
    with pytest.raises(InputError):
        twin.finish(turn)


def test_a_copy_of_an_open_turn_is_what_was_before_it():
    registrar = fresh(observer=Grumbling())
    first = registrar.begin(np.arange(10), 3)
    twin = copy.copy(registrar)
    assert twin.observer is None
    assert played(twin, 1) == [first.cohort.ids.tolist()]


def test_a_copy_has_work_in_flight_of_its_own():
    registrar = fresh()
    turn = registrar.begin(np.arange(10), 3)
    registrar.dispatch(turn)
    twin = copy.copy(registrar)
    registrar.give_up(turn.cohort.ids, "late")
    assert twin.in_flight.tolist() == sorted(turn.cohort.ids.tolist())
    assert twin.receive(turn.cohort.ids).ids.size == 3
