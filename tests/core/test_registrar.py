from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from sortition.core import (
    GRADIENT,
    LOSS,
    UPDATE,
    Cohort,
    InputError,
    Measure,
    Needs,
    Population,
    Reading,
    Registrar,
    Selector,
    State,
    StorageError,
    UndeclaredError,
    method,
    per_client,
)

SIZES = np.arange(10, 20)


@dataclass
class Memory(State):
    loss: np.ndarray = per_client(-1.0)
    turns: np.ndarray = per_client(0, dtype=int)


@method
class Worst(Selector[Memory]):
    """The worst served of everybody; learns from reports. The subject of these tests."""

    bias: float = 0.0
    memory = Memory

    @property
    def needs(self):
        return Needs(reads=("sizes",), asks=(LOSS,), reports=(LOSS, UPDATE))

    def select(self, state, round):
        state.turns += 1  # select may write: an abandoned turn must undo it
        loss = yield Measure(LOSS, round.available)
        return Cohort.by_size(loss.largest(round.budget), round.population.sizes + self.bias)

    def observe(self, state, feedback):
        feedback.report(LOSS).scatter(state.loss)


@method
class Rogue(Selector[State]):
    """Breaks one rule, named by its parameter."""

    how: str = ""

    @property
    def needs(self):
        return Needs(asks=(LOSS,))

    def select(self, state, round):
        if self.how == "reads":
            _ = round.population.sizes
        if self.how == "asks":
            yield Measure(GRADIENT, round.available)
        if self.how == "absent":
            yield Measure(LOSS, np.array([9]))
        if self.how == "yields":
            yield "loss"
        if self.how == "returns":
            return [1]
        if self.how == "outside":
            return Cohort.uniform([9])
        return Cohort.uniform(round.available)  # too many


@pytest.fixture
def registrar():
    return Registrar(Worst(), Population(SIZES), horizon=5, seed=1)


def losses(ids):
    return Reading(ids, np.asarray(ids) / 10)


def play(registrar, available=range(10), budget=3):
    turn = registrar.begin(list(available), budget)
    turn.answer(losses(turn.question.ids))
    registrar.finish(turn, reports={"loss": losses(turn.cohort.ids)})
    return turn


def test_one_round(registrar):
    turn = registrar.begin([1, 4, 7, 8], budget=2)
    assert turn.question.signal is LOSS
    assert turn.question.ids.tolist() == [1, 4, 7, 8]
    assert turn.cohort is None
    turn.answer(losses(np.array([7, 1, 4])))  # 8 is silent; any order
    assert turn.question is None
    assert turn.cohort.ids.tolist() == [7, 4]
    assert turn.cohort.weights == pytest.approx(np.array([17, 14]) / 31)
    registrar.finish(turn, [7], {"loss": [0.5]})
    assert registrar.state.loss[7] == 0.5
    assert registrar.state.loss[4] == -1  # silence teaches nothing
    assert registrar.index == 1
    (asked,) = turn.asked
    assert (asked.signal, asked.asked, asked.answered, asked.floats_up) == ("loss", 4, 3, 3)


class TestFaults:
    def test_unsound_rows_are_withheld_and_counted(self, registrar):
        turn = registrar.begin([0, 1, 2, 3, 4], budget=5)
        turn.answer({0: np.nan, 1: np.inf, 2: -3.0, 3: [1.0, 2.0], 4: 0.4})
        assert turn.cohort.ids.tolist() == [4]
        assert turn.rejected == {
            0: "loss: not finite",
            1: "loss: not finite",
            2: "loss: negative",
            3: "loss: shape (2,) in place of ()",
        }
        registrar.finish(turn)
        assert registrar.counters["rejected"] == 4
        assert registrar.quarantined.tolist() == [1, 1, 1, 1, 0, 0, 0, 0, 0, 0]

    def test_words_in_place_of_numbers(self, registrar):
        turn = registrar.begin([0, 1], budget=2)
        turn.answer({0: "high", 1: 0.1})
        assert turn.rejected == {0: "loss: not a number"}

    def test_the_first_sound_shape_of_a_vector_counts(self, registrar):
        turn = play_until_cohort(registrar)
        registrar.finish(turn, reports={"update": {9: [1.0, 2.0], 8: [1.0, 2.0], 7: [1.0]}})
        assert turn.rejected == {7: "update: shape (1,) in place of (2,)"}
        turn = play_until_cohort(registrar)
        registrar.finish(turn, reports={"update": {9: [1.0, 2.0, 3.0]}})  # later rounds remember it
        assert turn.rejected == {9: "update: shape (3,) in place of (2,)"}

    def test_rows_that_are_no_vectors_do_not_fix_the_shape(self, registrar):
        turn = play_until_cohort(registrar)
        registrar.finish(turn, reports={"update": Reading(turn.cohort.ids, np.ones((turn.cohort.ids.size, 2, 1)))})
        assert set(turn.rejected) == set(turn.cohort.ids.tolist())
        turn = play_until_cohort(registrar)
        registrar.finish(turn, reports={"update": {9: [], 8: 1.0, 7: [[1.0]]}})
        assert set(turn.rejected) == {9, 8, 7}
        turn = play_until_cohort(registrar)
        registrar.finish(turn, reports={"update": {9: [1.0, 2.0]}})
        assert not turn.rejected
        assert registrar.shapes["update"] == (2,)

    def test_late_duplicate_and_stale_messages_are_counted_and_ignored(self, registrar):
        turn = play(registrar)
        state = registrar.state.copy()
        turn.answer(losses(np.array([1])))
        registrar.finish(turn, reports={"loss": losses(np.array([9]))})
        assert registrar.index == 1
        old = registrar.begin([1, 2], 1)
        new = registrar.begin([1, 2], 1)
        old.answer(losses(np.array([1])))
        registrar.finish(old)
        assert registrar.counters == {"late": 2, "duplicate": 1, "stale": 1, "rejected": 0}
        assert new.question is not None
        assert np.array_equal(registrar.state.loss, state.loss)

    def test_nobody_available_skips_the_round(self, registrar):
        turn = registrar.begin([], budget=3)
        assert turn.skipped
        assert turn.cohort.ids.size == 0
        registrar.finish(turn)
        assert registrar.index == 1
        assert registrar.state.turns[0] == 0  # select was not called

    def test_nobody_answers(self, registrar):
        turn = registrar.begin([1, 2], 1)
        turn.answer({})
        assert turn.cohort.ids.size == 0
        registrar.finish(turn)

    def test_nothing_comes_back(self, registrar):
        turn = play_until_cohort(registrar)
        registrar.finish(turn, [])
        assert (registrar.state.loss == -1).all()


def play_until_cohort(registrar):
    turn = registrar.begin(range(10), 3)
    turn.answer(losses(turn.question.ids))
    return turn


class TestMistakesOfTheCaller:
    @pytest.mark.parametrize(
        ("act", "sentence"),
        [
            (lambda r: r.begin([10], 1), "available must be ids below 10; got 10"),
            (lambda r: r.begin([1, 1], 1), "available must be distinct"),
            (lambda r: r.begin([1], 0), "budget must be a whole number ≥ 1"),
            (lambda r: r.begin([1, 2], 1).answer(losses(np.array([3]))), "from clients that were asked; got client 3"),
            (lambda r: r.begin([1, 2], 1).answer([1.0, 2.0]), "answer must be a Reading or a mapping"),
            (lambda r: r.finish(r.begin([1, 2], 1)), "a turn whose questions are answered"),
            (lambda r: r.finish(play_until_cohort(r), [0]), "members of the cohort; got client 0"),
            (
                lambda r: r.finish(play_until_cohort(r), reports={"los": [1]}),
                "Unknown report 'los'.*Did you mean 'loss'",
            ),
            (lambda r: r.finish(play_until_cohort(r), reports={"loss": [1.0]}), "one row per id, 3 in all"),
            (lambda r: r.finish(Registrar(Worst(), Population(SIZES)).begin([], 1)), "a turn of this registrar"),
            (lambda r: r.join(Population([1, 2])), "of at least 10 clients; got 2"),
        ],
    )
    def test_a_sentence_and_an_untouched_state(self, registrar, act, sentence):
        play(registrar)
        before, index = registrar.state.copy(), registrar.index
        with pytest.raises(InputError, match=sentence):
            act(registrar)
        assert registrar.index == index
        assert all(
            np.array_equal(a, b)
            for a, b in zip(before.arrays().values(), registrar.state.arrays().values(), strict=True)
        )

    def test_bad_construction(self):
        with pytest.raises(InputError, match=r"selector must be a Selector.*sortition\.selectors\.load"):
            Registrar("fedcor", Population(SIZES))
        with pytest.raises(InputError, match="horizon must be a whole number"):
            Registrar(Worst(), Population(SIZES), horizon=0)
        with pytest.raises(InputError, match=r"population\.sizes must be given"):
            Registrar(Worst(), Population(n_clients=3))

    def test_facts_of_available_clients_must_be_known(self):
        registrar = Registrar(Worst(), Population(SIZES, known=[0, 1]))
        with pytest.raises(InputError, match="known clients"):
            registrar.begin([0, 5], 1)


class TestMistakesOfTheSelector:
    @pytest.mark.parametrize(
        ("how", "error", "sentence"),
        [
            ("reads", UndeclaredError, r"Rogue read population\.sizes"),
            ("asks", UndeclaredError, "Rogue asked for 'gradient'"),
            ("absent", InputError, "Rogue's question must be to available clients; got client 9"),
            ("yields", InputError, "a generator that yields Measure"),
            ("returns", InputError, "a function that returns a Cohort"),
            ("outside", InputError, "available clients; got client 9"),
            ("many", InputError, "at most 2 clients"),
        ],
    )
    def test_refused(self, how, error, sentence):
        registrar = Registrar(Rogue(how=how), Population(SIZES))
        with pytest.raises(error, match=sentence):
            registrar.begin([0, 1, 2], 2)


class TestLifetime:
    def test_an_abandoned_turn_leaves_no_trace(self, registrar):
        play(registrar)
        registrar.begin([1, 2], 1)
        assert registrar.state.turns[0] == 1
        play(registrar)
        assert registrar.state.turns[0] == 2

    def test_saving_an_open_turn_stores_what_was_before(self, registrar, tmp_path):
        play(registrar)
        turn = registrar.begin(range(10), 3)
        registrar.save(tmp_path / "r.npz")
        turn.answer(losses(turn.question.ids))
        registrar.finish(turn, reports={"loss": losses(turn.cohort.ids)})
        again = Registrar.load(tmp_path / "r.npz", Worst(), Population(SIZES))
        assert (again.index, again.horizon, again.seed) == (1, 5, 1)
        play(again)
        assert np.array_equal(again.state.loss, registrar.state.loss)
        assert again.state.turns[0] == registrar.state.turns[0]

    def test_another_selection_is_refused_with_the_difference(self, registrar, tmp_path):
        registrar.save(tmp_path / "r.npz")
        with pytest.raises(StorageError, match=r"bias was '0\.0', is '1\.0'"):
            Registrar.load(tmp_path / "r.npz", Worst(bias=1.0), Population(SIZES))
        with pytest.raises(StorageError, match="selector was 'Worst', is 'Rogue'"):
            Registrar.load(tmp_path / "r.npz", Rogue(), Population(SIZES))
        with pytest.raises(StorageError, match="more than the population's 3"):
            Registrar.load(tmp_path / "r.npz", Worst(), Population([1, 2, 3]))

    def test_clients_join(self, registrar, tmp_path):
        play(registrar)
        registrar.save(tmp_path / "r.npz")
        registrar.join(Population(np.arange(10, 25)))
        turn = play(registrar, range(15))
        assert turn.cohort.ids.tolist() == [14, 13, 12]
        assert registrar.state.loss[9] == pytest.approx(0.9)  # those who were there keep theirs
        late = Registrar.load(tmp_path / "r.npz", Worst(), Population(np.arange(10, 25)))
        assert late.state.n_clients == 15
        assert late.quarantined.size == 15

    def test_rounds_have_their_own_randomness(self):
        first, second = (Registrar(Worst(), Population(SIZES), seed=3) for _ in range(2))
        play(first)
        a = first.begin([1], 1).round.rng.random()
        play(second)
        second.begin([1], 1)
        assert second.begin([1], 1).round.rng.random() == a  # a replay repeats the round
