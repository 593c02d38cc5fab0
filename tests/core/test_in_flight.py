"""Work in flight: dispatched, received at a step, given up; weights of steps that mix selections; nothing half done."""

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import sortition
from sortition.core import (
    TRAINING_LOSS,
    Cohort,
    Guards,
    InputError,
    Needs,
    Population,
    Registrar,
    Selector,
    State,
    method,
    per_client,
)
from sortition.core.in_flight import DispatchedSelection, Flights

N = 12


@dataclass
class Seen(State):
    chosen: np.ndarray = per_client(0, dtype=int)
    ended: np.ndarray = per_client(0, dtype=int)
    used: np.ndarray = per_client(0, dtype=int)
    weight: np.ndarray = per_client(0.0)
    staleness: np.ndarray = per_client(-1, dtype=int)
    seconds: np.ndarray = per_client(-1.0)


@method
class First(Selector[Seen]):
    """Chooses the first clients that are there, and notes everything that it is told."""

    memory = Seen

    @property
    def needs(self):
        return Needs(reports=(TRAINING_LOSS,))

    def select(self, state, round):
        ids = round.available[: round.budget]
        state.chosen[ids] += 1
        notes = {"version": round.version, "in_flight": round.in_flight.tolist(), "clock": round.clock}
        return Cohort.uniform(ids, notes=notes)

    def observe(self, state, feedback):
        state.ended[feedback.cohort.ids] += 1
        state.used[feedback.ids] += 1
        state.weight[feedback.cohort.ids] = feedback.cohort.weights
        state.staleness[feedback.ids] = feedback.staleness
        state.seconds[feedback.ids] = feedback.durations


@pytest.fixture
def registrar():
    return Registrar(First(), Population(n_clients=N), seed=1)


def dispatch(registrar, ids, budget, **rest):
    turn = registrar.begin(ids, budget, **rest)
    registrar.dispatch(turn)
    return turn.cohort


def test_a_selection_is_told_version_clock_and_who_is_at_work(registrar):
    assert dispatch(registrar, [0, 1, 2], 2, clock=0.0).notes == {"version": 0, "in_flight": [], "clock": 0.0}
    registrar.receive([0])
    assert dispatch(registrar, [2, 3], 1, clock=4.5).notes == {"version": 1, "in_flight": [1], "clock": 4.5}
    assert registrar.in_flight.tolist() == [1, 2]


def test_the_method_observes_once_a_step_and_only_whose_work_ended(registrar):
    dispatch(registrar, range(6), 4)
    registrar.receive([1, 0], {"training-loss": {0: 1.0, 1: 2.0}})
    assert registrar.state.ended.tolist()[:4] == [1, 1, 0, 0]
    registrar.give_up([2], "its connection broke")
    assert registrar.state.ended.tolist()[:4] == [1, 1, 0, 0]  # not before the step
    registrar.receive([3])
    assert registrar.state.ended.tolist()[:4] == [1, 1, 1, 1]
    assert registrar.state.used.tolist()[:4] == [1, 1, 0, 1]
    assert registrar.state.staleness.tolist()[:4] == [0, 0, -1, 1]
    assert registrar.state.weight.tolist()[:4] == [0.5, 0.5, 0.0, 1.0]


def test_a_refill_of_one_weighs_as_much_as_one_of_many(registrar):
    dispatch(registrar, range(6), 4)  # 1/4 each
    registrar.receive([0])
    dispatch(registrar, [5], 1)  # 1 alone
    step = registrar.receive([5, 1])
    assert step.ids.tolist() == [1, 5]
    assert step.weights.tolist() == [0.5, 0.5]
    assert step.staleness.tolist() == [1, 0]


def test_discounts_renormalise_by_mass_and_not_by_count(registrar):
    dispatch(registrar, range(4), 4)
    registrar.receive([0, 1])
    dispatch(registrar, [4, 5], 2)
    mass = registrar.receive([2, 4], discounts=[0.5, 1.0])
    assert mass.weights == pytest.approx([1 / 3, 2 / 3])
    count = registrar.receive([3, 5], discounts=[0.25, 0.5], normalise="count")
    assert count.weights == pytest.approx([0.125, 0.25])


@pytest.mark.parametrize("factor", [np.nan, np.inf])
def test_discounts_that_are_no_number_are_refused_and_nothing_changes(registrar, factor):
    dispatch(registrar, range(4), 4)
    registrar.receive([0])
    dispatch(registrar, [5], 1)
    with pytest.raises(InputError, match="discounts must be finite and ≥ 0"):
        registrar.receive([1, 5], discounts=[factor, 1.0])
    assert registrar.version == 1
    assert registrar.in_flight.tolist() == [1, 2, 3, 5]


def test_the_order_of_arrival_does_not_matter(registrar):
    dispatch(registrar, range(6), 4)
    registrar.receive([3])
    dispatch(registrar, [7, 8], 2)
    step = registrar.receive(
        [8, 0, 7, 1], {"training-loss": [8.0, 0.0, 7.0, 1.0]}, discounts=[0.8, 0.1, 0.7, 0.2], durations=[8, 0, 7, 1]
    )
    assert step.ids.tolist() == [0, 1, 7, 8]
    assert step.weights == pytest.approx(np.array([0.1, 0.2, 0.7, 0.8]) / 1.8)
    assert step.durations.tolist() == [0.0, 1.0, 7.0, 8.0]


def test_one_whole_selection_is_a_round(registrar):
    rounds = Registrar(First(), Population(n_clients=N), seed=1)
    for t in range(3):
        turn = rounds.begin(range(t, N), 4)
        rounds.finish(turn, turn.cohort.ids[:3], durations=[1.0, 2.0, 3.0])
        cohort = dispatch(registrar, range(t, N), 4)
        registrar.give_up(cohort.ids[3:], "late")
        step = registrar.receive(cohort.ids[2::-1], durations=[3.0, 2.0, 1.0])
        assert step.weights.tolist() == cohort.weights_of(cohort.ids[:3])[0].tolist()
    arrays, _ = registrar.export()
    for name, array in rounds.export()[0].items():
        assert np.array_equal(array, arrays[name], equal_nan=True), name
    assert (registrar.index, registrar.version) == (rounds.index, rounds.version) == (3, 3)


def test_expected_mass_is_divided_by_the_count_and_never_rescaled():
    @method
    class Expected(Selector[State]):
        def select(self, state, round):
            ids = round.available[: round.budget]
            return Cohort(ids, np.full(ids.size, 2.0 / N), mass="expected")

    registrar = Registrar(Expected(), Population(n_clients=N))
    dispatch(registrar, range(6), 3)
    registrar.receive([0])
    dispatch(registrar, [6], 1)
    step = registrar.receive([1, 6])
    assert step.weights == pytest.approx([3 * 2 / N / 2, 2 / N / 2])
    assert step.cohort.mass == "expected"


def test_groups_act_within_one_selection():
    @method
    class Grouped(Selector[State]):
        def select(self, state, round):
            ids = round.available[: round.budget]
            return Cohort(ids, np.array([0.4, 0.1, 0.3, 0.2])[: ids.size], groups=np.array([0, 0, 1, 1])[: ids.size])

    registrar = Registrar(Grouped(), Population(n_clients=N))
    dispatch(registrar, range(4), 4)
    registrar.receive([3])
    dispatch(registrar, range(4, 8), 4)
    registrar.give_up([0], "late")
    step = registrar.receive([1, 4])  # 1 takes over the mass of its group, 0.5
    assert step.weights == pytest.approx(np.array([0.5, 0.4]) / 0.9)


def test_fewer_than_the_minimum_use_nothing():
    registrar = Registrar(First(), Population(n_clients=N), guards=Guards(minimum=2))
    dispatch(registrar, range(4), 4)
    registrar.give_up([1], "late")
    step = registrar.receive([0])
    assert step.ids.size == 0
    assert registrar.state.used.sum() == 0
    assert registrar.in_flight.tolist() == [2, 3]


def test_who_is_not_in_flight_cannot_arrive(registrar):
    dispatch(registrar, range(4), 2)
    with pytest.raises(InputError, match=r"receive\(ids\) must be clients in flight; got client 2"):
        registrar.receive([2])
    with pytest.raises(InputError, match=r"give_up\(ids\) must be clients in flight; got client 3"):
        registrar.give_up([3], "late")
    registrar.receive([0])
    with pytest.raises(InputError, match="client 0, who is not"):
        registrar.receive([0])


def test_no_step_while_a_selection_is_open(registrar):
    dispatch(registrar, range(4), 2)
    registrar.begin([2, 3], 1)
    with pytest.raises(InputError, match="while no selection is open; got selection 1"):
        registrar.receive([0])


def test_finish_is_refused_where_selections_overlap(registrar):
    dispatch(registrar, range(4), 2)
    turn = registrar.begin([2, 3], 1)
    with pytest.raises(InputError, match=r"Use receive\(ids\)"):
        registrar.finish(turn)


def test_a_snapshot_holds_work_in_flight(registrar, tmp_path):
    dispatch(registrar, range(6), 4, clock=1.0)
    registrar.receive([1], durations=[0.5])
    dispatch(registrar, [1, 7], 2, clock=2.0)
    registrar.give_up([0], "late")
    registrar.save(tmp_path / "file")
    again = Registrar.load(tmp_path / "file", First(), Population(n_clients=N))
    assert again.in_flight.tolist() == [1, 2, 3, 7]
    assert (again.index, again.version, again.n_log_entries) == (2, 1, 4)
    for one in (registrar, again):
        one.receive([2, 7], discounts=[0.5, 1.0])
        dispatch(one, [4], 1)
        one.receive([1, 3])
    assert np.array_equal(registrar.state.weight, again.state.weight)
    assert np.array_equal(registrar.state.ended, again.state.ended)
    assert again.in_flight.tolist() == registrar.in_flight.tolist() == [4]


PACKAGE = str(Path(sortition.__file__).parent)


def test_a_registrar_that_goes_on_knows_every_selection_since_the_last_step(registrar, tmp_path):
    """A server that filled places one by one and was killed before the step records all of them."""
    dispatch(registrar, np.arange(N), 3)
    registrar.receive([0])
    dispatch(registrar, np.arange(3, N), 2)
    dispatch(registrar, np.arange(5, N), 1)
    registrar.give_up([5], "gone")
    registrar.save(tmp_path / "registrar.npz")
    restored = Registrar.load(tmp_path / "registrar.npz", First(), Population(n_clients=N))
    for known in (registrar, restored):
        assert [selection.cohort.ids.tolist() for selection in known.open_selections] == [[3, 4], [5]]
    restored.receive([3])
    assert restored.open_selections == ()


class Interrupted(BaseException):
    pass


def interrupt_after(lines, function, *args, **rest):
    """Call a function and interrupt it after so many lines of Python; whether it was."""
    left = lines

    def trace(frame, event, _):
        nonlocal left
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if event == "line":
            left -= 1
            if left < 0:
                raise Interrupted
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function(*args, **rest)
    except Interrupted:
        return True
    finally:
        sys.settrace(before)
    return False


GUARDS = Guards(ceiling=2.0, reweight="fedau")


def comparable(registrar):
    arrays, header = registrar.export()
    return repr(({name: array.tolist() for name, array in arrays.items()}, header))


@pytest.mark.parametrize("how", ["finish", "receive"])
def test_an_interrupt_books_nothing_or_everything(how):
    """Whatever line of it is interrupted, and though the caller tries again: the ledgers of the guards count once."""
    reports = {"training-loss": {0: np.nan, 1: 1.0, 2: 1.0}}

    def begun():
        registrar = Registrar(First(), Population(n_clients=N), guards=GUARDS)
        turn = registrar.begin(range(6), 3)
        if how == "receive":
            registrar.dispatch(turn)
        return registrar, turn

    def end(registrar, turn):
        if how == "finish":
            registrar.finish(turn, [0, 1, 2], reports)
        else:
            registrar.receive([0, 1, 2], reports)

    def ended(registrar, turn):
        if how == "finish":
            return registrar.version == 1
        return not registrar.in_flight.size

    registrar, turn = begun()
    untouched = comparable(registrar)
    end(registrar, turn)
    whole = comparable(registrar)
    lines = 0
    while True:
        registrar, turn = begun()
        interrupted = interrupt_after(lines, end, registrar, turn)
        if ended(registrar, turn):
            assert comparable(registrar) == whole, lines
        else:
            assert comparable(registrar) == untouched, lines
            end(registrar, turn)
            assert comparable(registrar) == whole, lines
        if not interrupted:
            break
        lines += 1
    assert lines > 50


def bookkeeping(flights):
    """What work in flight says of itself, selection by selection."""
    arrays = {name: array.tolist() for name, array in flights.arrays().items()}
    staleness = flights.staleness(flights.ids, version=100)
    return arrays, flights.tables(), flights.ids.tolist(), flights.ended_ids.tolist(), staleness.tolist()


def read_anew(flights):
    """The same work, from its snapshot."""
    return Flights.restored(flights.arrays(), flights.tables(), n_clients=60)


@pytest.mark.parametrize("seed", range(20))
def test_work_that_is_changed_step_by_step_is_the_work_that_is_read_anew(seed):
    """Refills, work given up and steps change only what they touch; a snapshot reads every selection."""
    rng = np.random.default_rng(seed)
    flights = Flights()
    for index in range(40):
        idle = np.setdiff1d(np.arange(60), np.concatenate([flights.ids, flights.ended_ids]))
        chosen = rng.permutation(idle)[: rng.integers(0, 5)]
        flights = flights.with_selection(
            DispatchedSelection(
                index=index, version=index // 2, cohort=Cohort.uniform(chosen), since=None, skipped=not chosen.size
            )
        )
        if rng.random() < 0.4:
            flights = flights.after_giving_up(rng.permutation(flights.ids.copy())[: rng.integers(0, 3)])
        assert bookkeeping(flights) == bookkeeping(read_anew(flights))
        if rng.random() < 0.5:
            used = flights.sort_by_selection(rng.permutation(flights.ids.copy())[: rng.integers(0, 6)])
            weighed = flights.weigh(used, None, "mass")
            anew = read_anew(flights).weigh(used, None, "mass")
            assert weighed.cohort.ids.tolist() == anew.cohort.ids.tolist()
            assert weighed.weights.tolist() == anew.weights.tolist()
            flights = flights.after_step(used)
            assert bookkeeping(flights) == bookkeeping(read_anew(flights))
            assert not flights.ended_ids.size
            arrays = flights.arrays()
            assert all(arrays[f"flights.{row}.in_flight"].any() for row in range(len(flights.selections)))
