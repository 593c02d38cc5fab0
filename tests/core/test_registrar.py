from __future__ import annotations

import threading
from dataclasses import dataclass, replace

import numpy as np
import pytest

from sortition.core import (
    GRADIENT,
    LOSS,
    TRAINING_LOSS,
    UPDATE,
    Cohort,
    Guards,
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


@method
class Listener(Selector[State]):
    """Reads a report, and says so beforehand or not."""

    declared: bool = True

    @property
    def needs(self):
        return Needs(reports=(TRAINING_LOSS,) if self.declared else ())

    def select(self, state, round):
        return Cohort.uniform(round.available[: round.budget])

    def observe(self, state, feedback):
        assert len(feedback.report(TRAINING_LOSS)) == 0


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
    (asked,) = turn.metered_questions
    assert (asked.signal, asked.n_asked, asked.n_answered, asked.floats_up) == ("loss", 4, 3, 3)


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
        assert registrar.strikes.tolist() == [1, 1, 1, 1, 0, 0, 0, 0, 0, 0]

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
        assert registrar.row_shapes["update"] == (2,)

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

    def test_places_that_nobody_can_fill_are_noted(self, registrar):
        turn = registrar.begin([1, 2], budget=5)
        turn.answer(losses(turn.question.ids))
        assert turn.cohort.ids.tolist() == [2, 1]  # all are taken
        assert turn.cohort.notes == {"shortfall": 3}
        assert play_until_cohort(registrar).cohort.notes == {}
        silent = registrar.begin(range(10), 3)
        silent.answer(losses(np.array([1])))
        assert silent.cohort.ids.tolist() == [1]  # fewer are chosen, but they were there
        assert silent.cohort.notes == {}
        assert registrar.begin([], 3).cohort.notes == {"skipped": "nobody available"}

    def test_who_sits_out_leaves_places_empty_too(self):
        registrar = Registrar(Worst(), Population(SIZES[:4]), guards=Guards(strikes=1, quarantine=2))
        turn = registrar.begin(range(4), 3)
        turn.answer({0: np.nan, 1: np.nan, 2: 0.2, 3: 0.3})
        registrar.finish(turn)
        turn = registrar.begin(range(4), 3)
        turn.answer({2: 0.2, 3: 0.3})
        assert turn.cohort.notes == {"guards": {"quarantined": 2}, "shortfall": 1}

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
            (lambda r: r.resize(7), "model must be a ModelSize or None; got 7"),
            (lambda r: r.begin([[1], [1, 2]], 1), "available must be an array, all its rows of one shape"),
            (lambda r: r.finish(play_until_cohort(r), [[7], [8, 9]]), r"finish\(ids\) must be an array"),
            (lambda r: r.finish(play_until_cohort(r), reports=[1.0, 2.0, 3.0]), r"finish\(reports\) must be a mapping"),
            (
                lambda r: r.finish(play_until_cohort(r), reports={"update": [[1.0], [1.0, 2.0], [3.0]]}),
                "update reports must be an array, all its rows of one shape",
            ),
            (lambda r: r.finish(None), r"finish\(turn\) must be what begin\(\) gave; got None"),
            (lambda r: Reading([0, 1], [[1.0], [1.0, 2.0]]), r"Reading\.values must be an array, all its rows"),
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
        with pytest.raises(InputError, match=r"Registrar\.population must be a Population; got \[1, 2\]"):
            Registrar(Worst(), [1, 2])
        with pytest.raises(InputError, match="model must be a ModelSize or None; got 5"):
            Registrar(Worst(), Population(SIZES), model=5)

    def test_facts_of_available_clients_must_be_known(self):
        registrar = Registrar(Worst(), Population(SIZES, known_ids=[0, 1]))
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
            ("returns", InputError, r"a function that returns a Cohort; got \[1\]\. Return Cohort\.uniform\(ids\)"),
            ("outside", InputError, "available clients; got client 9"),
            ("many", InputError, r"at most 2 clients; got 3\. Take ids\[: round\.budget\]"),
        ],
    )
    def test_refused(self, how, error, sentence):
        registrar = Registrar(Rogue(how=how), Population(SIZES))
        with pytest.raises(error, match=sentence):
            registrar.begin([0, 1, 2], 2)

    def test_a_report_that_is_not_declared_is_refused_not_empty(self):
        registrar = Registrar(Listener(declared=False), Population(SIZES))
        with pytest.raises(UndeclaredError, match=r"Listener read reports of 'training-loss'.*needs\.reports"):
            registrar.finish(registrar.begin([0, 1], 1))

    @pytest.mark.parametrize("guards", [Guards(), Guards(minimum=2)])
    def test_a_declared_report_that_nobody_sent_is_empty(self, guards):
        registrar = Registrar(Listener(), Population(SIZES), guards=guards)
        registrar.finish(registrar.begin([0, 1], 2), ids=[0])
        assert registrar.index == 1


class TestLifetime:
    def test_an_abandoned_turn_leaves_no_trace(self, registrar):
        play(registrar)
        registrar.begin([1, 2], 1)
        assert registrar.state.turns[0] == 1
        play(registrar)
        assert registrar.state.turns[0] == 2

    def test_what_an_abandoned_turn_heard_is_forgotten(self, registrar):
        """A lone liar's vector of length 1 in a turn given up must not make the honest ones' unsound."""
        turn = play_until_cohort(registrar)
        turn.intake.screen_reports(turn.cohort.ids, {"update": {9: [1.0]}})
        turn.answer({})  # late, in a turn that then is abandoned
        turn = registrar.begin(range(10), 3)
        turn.answer({**{k: 0.1 * k for k in range(9)}, 9: np.nan})
        registrar.abandon(turn)
        turn = play_until_cohort(registrar)
        registrar.finish(turn, reports={"update": np.ones((3, 7))})
        assert turn.rejected == {}
        assert registrar.row_shapes["update"] == (7,)
        assert registrar.counters == {"late": 0, "duplicate": 0, "stale": 0, "rejected": 0}
        assert not registrar.strikes.any()

    def test_a_save_amid_a_turn_and_a_replay_count_once(self, registrar, tmp_path):
        """Answers are sifted, then the server stops: the replay's export equals that of a run never stopped."""

        def heard(one):
            turn = one.begin(range(10), 3)
            turn.answer({**{k: 0.1 * k for k in range(8)}, 8: np.nan, 9: -1.0})
            turn.answer({1: 0.5})  # comes late
            return turn

        heard(registrar)
        registrar.save(tmp_path / "r.npz")
        again = Registrar.load(tmp_path / "r.npz", Worst(), Population(SIZES))
        for one in (again, straight := Registrar(Worst(), Population(SIZES), horizon=5, seed=1)):
            one.finish(heard(one), reports={"update": np.ones((3, 2))})
        assert again.counters == straight.counters == {"late": 1, "duplicate": 0, "stale": 0, "rejected": 2}
        assert again.export()[1] == straight.export()[1]

    def test_a_callers_mistake_in_the_reports_leaves_the_turn_as_it_was(self, registrar):
        turn = play_until_cohort(registrar)
        with pytest.raises(InputError, match="Unknown report"):
            registrar.finish(turn, reports={"loss": [np.nan, 1.0, 2.0], "los": [1.0]})
        assert turn.rejected == {}
        registrar.finish(turn, reports={"loss": [np.nan, 1.0, 2.0]})
        assert registrar.counters["rejected"] == 1

    def test_a_bad_call_of_begin_does_not_end_the_open_turn(self, registrar):
        turn = registrar.begin(range(10), 3)
        with pytest.raises(InputError, match="budget"):
            registrar.begin([1], 0)
        turn.answer(losses(turn.question.ids))
        assert registrar.finish(turn).size == 3

    def test_a_restored_registrar_has_no_open_turn(self, registrar):
        arrays, header = registrar.export()
        turn = registrar.begin(range(10), 3)
        registrar.restore(arrays, header)
        turn.answer(losses(np.arange(10)))
        assert turn.cohort.ids.size == 0
        assert registrar.counters["late"] == 1

    @pytest.mark.parametrize("until", [np.zeros((2, 5), int), np.array(3), np.full(10, np.nan), np.zeros(11, int)])
    def test_quarantines_of_another_form_are_refused(self, registrar, until):
        arrays, header = registrar.export()
        with pytest.raises(StorageError, match="Snapshot is incomplete"):
            registrar.restore({**arrays, "quarantined_until": until}, header)

    @pytest.mark.parametrize(
        "change",
        [
            {"index": 10**30},
            {"index": 1.5},
            {"index": -1},
            {"index": True},
            {"counters": {"late": -1, "duplicate": 0, "stale": 0, "rejected": 0}},
            {"counters": {"late": 0.5, "duplicate": 0, "stale": 0, "rejected": 0}},
            {"shapes": {"update": [-1]}},
            {"shapes": {"update": [2.0]}},
        ],
    )
    def test_impossible_numbers_of_a_snapshot_are_refused(self, registrar, change):
        arrays, header = registrar.export()
        with pytest.raises(StorageError, match="Snapshot is incomplete"):
            registrar.restore(arrays, {**header, **change})

    @pytest.mark.parametrize("name", ["strikes", "quarantined_until"])
    def test_negative_counts_of_a_snapshot_are_refused(self, registrar, name):
        arrays, header = registrar.export()
        with pytest.raises(StorageError, match="Snapshot is incomplete"):
            registrar.restore({**arrays, name: np.full(10, -1)}, header)

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
        assert late.strikes.size == 15

    def test_the_loop_over_the_questions_of_an_abandoned_turn_ends(self, registrar):
        turn = registrar.begin(range(10), 3)
        registrar.begin(range(10), 3)
        for _ in range(5):
            if turn.question is None:
                break
            turn.answer(losses(turn.question.ids))
        assert turn.question is None
        assert turn.cohort.ids.size == 0
        assert registrar.finish(turn).size == 0
        assert registrar.counters["stale"] == 1

    @pytest.mark.parametrize(
        ("population", "sentence"),
        [
            (None, r"join\(population\) must be a Population; got None"),
            (Population(np.arange(1, 10)), "of at least 10 clients"),
            (Population(n_clients=14), r"population\.sizes must be given"),
            (Population(np.arange(1, 15), np.ones((14, 3))), r"label_counts must be rows of 2 numbers, as before"),
        ],
    )
    def test_a_refused_population_leaves_the_registrar_as_it_was(self, population, sentence, tmp_path):
        people = Population(SIZES, np.ones((10, 2)))
        registrar, straight = Registrar(Worst(), people, seed=1), Registrar(Worst(), people, seed=1)
        turn = registrar.begin(range(10), 3)
        with pytest.raises(InputError, match=sentence):
            registrar.join(population)
        turn.answer(losses(turn.question.ids))  # the turn is still open
        registrar.finish(turn, reports={"loss": losses(turn.cohort.ids)})
        play(straight)
        assert play(registrar).cohort.ids.tolist() == play(straight).cohort.ids.tolist()
        registrar.save(tmp_path / "r.npz")
        assert Registrar.load(tmp_path / "r.npz", Worst(), people).index == 2

    def test_a_quota_that_the_new_population_cannot_have_changes_nothing(self):
        owned = Population(SIZES, groups=np.arange(10))
        registrar = Registrar(Worst(), owned, guards=Guards(quota=1))
        with pytest.raises(InputError, match="quota must be 0"):
            registrar.join(Population(np.arange(1, 15)))
        assert registrar.population is owned
        assert registrar.state.n_clients == registrar.strikes.size == 10
        play(registrar)

    def test_what_the_caller_gave_and_changes_later_stays_as_it_was(self):
        sizes, available = np.arange(10, 20), np.arange(10)
        registrar = Registrar(Worst(), Population(sizes))
        turn = registrar.begin(available, 3)
        sizes[:], available[:] = 0, 0
        assert registrar.population.sizes.tolist() == SIZES.tolist()
        assert turn.question.ids.tolist() == list(range(10))

    def test_only_what_nobody_can_change_is_not_copied(self):
        registrar = Registrar(Worst(), Population(SIZES))
        read_only = np.arange(10)
        read_only.flags.writeable = False
        assert np.shares_memory(registrar.begin(read_only, 3).round.available, read_only)
        owned_by_another = np.arange(10)
        view = owned_by_another.view()
        view.flags.writeable = False
        turn = registrar.begin(view, 3)
        owned_by_another[:] = 0
        assert turn.round.available.tolist() == list(range(10))

    def test_rounds_have_their_own_randomness(self):
        first, second = (Registrar(Worst(), Population(SIZES), seed=3) for _ in range(2))
        play(first)
        a = first.begin([1], 1).round.rng.random()
        play(second)
        second.begin([1], 1)
        assert second.begin([1], 1).round.rng.random() == a  # a replay repeats the round


# -- optional facts -----------------------------------------------------------------------------------------------


@method
class Curious(Selector):
    """Reads sizes, and label counts where all clients give them."""

    labels: bool | None = None

    @property
    def needs(self):
        if self.labels is None:
            return Needs(reads=("sizes",), optional=("label_counts",))
        return Needs(reads=("sizes", "label_counts") if self.labels else ("sizes",))

    def resolve(self, facts):
        return replace(self, labels="label_counts" in facts) if self.labels is None else self

    def select(self, state, round):
        return Cohort.uniform(round.available[: round.budget], notes={"facts": list(round.population.facts)})


def test_an_optional_fact_is_used_where_it_is_held():
    sizes, counts = [3, 4], [[1, 2], [2, 2]]
    with_labels, without = Registrar(Curious(), Population(sizes, counts)), Registrar(Curious(), Population(sizes))
    assert with_labels.needs.reads == ("sizes", "label_counts")
    assert without.needs.reads == ("sizes",)
    assert with_labels.begin([0], 1).cohort.notes["facts"] == ["sizes", "label_counts"]
    assert with_labels.selector.parameters() == {"labels": True}
    with pytest.raises(UndeclaredError):
        _ = without.begin([0], 1).round.population.label_counts


@pytest.mark.parametrize("first", [True, False])
def test_a_resumed_selection_keeps_what_was_resolved(first, tmp_path):
    sizes, counts = [3, 4], [[1, 2], [2, 2]]
    bare, whole = Population(sizes), Population(sizes, counts)
    registrar = Registrar(Curious(), whole if first else bare)
    registrar.finish(registrar.begin([0, 1], 1))
    registrar.save(tmp_path / "saved.npz")
    later = Registrar.load(tmp_path / "saved.npz", Curious(), whole)
    assert later.selector.labels is first
    assert later.index == 1
    if first:
        with pytest.raises(InputError, match="label_counts"):
            Registrar.load(tmp_path / "saved.npz", Curious(), bare)


def test_a_snapshot_without_guards_is_refused(registrar):
    """A header without them would go on under any guards."""
    arrays, header = registrar.export()
    del header["guards"]
    with pytest.raises(StorageError, match=r"incomplete.*guards"):
        registrar.restore(arrays, header)


def test_a_snapshot_with_foreign_options_is_refused(tmp_path):
    registrar = Registrar(Curious(), Population([3, 4]))
    arrays, header = registrar.export()
    with pytest.raises(StorageError, match="features"):
        registrar.restore(arrays, {**header, "optional": ["features"]})


@pytest.mark.parametrize("optional", [[], ["label_counts"], ["label_counts", "label_counts"]])
def test_a_refused_snapshot_leaves_the_registrar_as_it_was(optional):
    """Also where the snapshot used other optional facts than the registrar does."""
    population = Population([3, 4], [[1, 2], [2, 2]])
    saved = Registrar(Curious(), population if optional else Population([3, 4])).export()
    registrar = Registrar(Curious(), Population([3, 4]) if optional else population)
    registrar.finish(registrar.begin([0, 1], 1))
    selector, state, view = registrar.selector, registrar.state, registrar.begin([0, 1], 1).round.population
    before = registrar.export()[1]
    with pytest.raises((StorageError, InputError)):
        registrar.restore(saved[0], {**saved[1], "optional": optional, "index": -1})
    assert (registrar.selector, registrar.state) == (selector, state)
    assert registrar.begin([0, 1], 1).round.population is view
    assert registrar.export()[1] == before


def test_a_join_with_facts_of_another_number_of_axes_is_refused():
    line, table = Population([3, 4], colour=np.ones(2)), Population([3, 4], colour=np.ones((2, 3)))
    for first, second in ((line, table), (table, line)):
        with pytest.raises(InputError, match=r"join\(population\).colour must be rows of"):
            Registrar(Curious(), first).join(second)


@pytest.mark.parametrize("n_clients", [2.5, "5", True, 10**400, 0, None])
def test_a_population_has_a_whole_number_of_clients(n_clients):
    with pytest.raises(InputError, match="Population must be of at least one client"):
        Population(n_clients=n_clients)


def test_a_population_keeps_no_array_of_the_caller():
    known = np.arange(2)
    population = Population([3, 4, 5], known_ids=known)
    known[:] = 9
    assert population.known_ids.tolist() == [0, 1]
    with pytest.raises(ValueError, match="read-only"):
        population.known_ids[0] = 1


class Hostile:
    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("boom")


@pytest.mark.parametrize(
    "row",
    [
        10**400,
        -(10**400),
        Hostile(),
        1 + 2j,
        np.complex128(1),
        np.datetime64("2020-01-01"),
        np.timedelta64(3, "s"),
        "3.5",
        b"3.5",
        None.__class__,
        {"a": 1},
    ],
    ids=["huge", "minus-huge", "raises", "complex", "complex128", "date", "duration", "text", "bytes", "type", "table"],
)
def test_what_is_no_number_is_withheld_and_counted(registrar, row):
    """A client may send anything that JSON or a pickle can hold; the server goes on."""
    turn = registrar.begin(range(10), 3)
    turn.answer({**{k: 0.1 * k for k in range(9)}, 9: row})
    assert turn.rejected == {9: "loss: not a number"}
    assert 9 not in turn.cohort.ids
    registrar.finish(turn, reports={"update": {int(turn.cohort.ids[0]): [row, row]}})
    assert registrar.counters["rejected"] == 2


@pytest.mark.parametrize("kind", ["complex128", "datetime64[s]", "timedelta64[s]", "U3", "S3"])
def test_reports_of_no_numbers_are_withheld(registrar, kind):
    turn = play_until_cohort(registrar)
    registrar.finish(turn, reports={"loss": np.ones(3).astype(int).astype(kind)})
    assert turn.rejected == dict.fromkeys(turn.cohort.ids.tolist(), "loss: not a number")


@pytest.mark.parametrize("row", [Hostile(), 10**400, None, {"a": 1}], ids=["hostile", "endless", "none", "table"])
def test_one_odd_row_in_a_list_of_reports_is_withheld(registrar, row):
    turn = play_until_cohort(registrar)
    registrar.finish(turn, reports={"loss": [row, 1.0, 2.0]})
    first = int(turn.cohort.ids[0])
    assert list(turn.rejected) == [first]


def test_whole_numbers_are_floats_to_the_selector(registrar):
    turn = registrar.begin(range(10), 3)
    turn.answer(Reading(np.arange(10), np.arange(10)))
    assert turn.cohort.ids.tolist() == [9, 8, 7]
    assert not turn.rejected


def test_what_was_exported_does_not_change_in_later_rounds():
    guards = Guards(ceiling=4, quarantine=2, strikes=1, reweight="fedau")
    registrar = Registrar(Worst(), Population(SIZES), guards=guards)
    play(registrar)
    arrays, header = registrar.export()
    before = {name: value.copy() for name, value in arrays.items()}
    first = [play(registrar).cohort.ids.tolist() for _ in range(4)]
    for name, value in before.items():
        np.testing.assert_array_equal(arrays[name], value, err_msg=name)
    registrar.restore(arrays, header)
    assert [play(registrar).cohort.ids.tolist() for _ in range(4)] == first


class TestThreads:
    """A registrar and its turns are for one thread at a time; a second one is refused and changes nothing."""

    def during_select(self, act):
        """Call ``act`` from a second thread while the first one is inside ``begin``; the error that it met."""
        met, inside, go_on = [], threading.Event(), threading.Event()

        class Slow:
            def begun(self, turn, available, budget):
                inside.set()
                go_on.wait(10)

            def answered(self, turn, question, answers):
                pass

            def finished(self, turn, done, reports):
                pass

            def joined(self, population):
                pass

        registrar = Registrar(Worst(), Population(SIZES), observer=Slow())
        first = threading.Thread(target=lambda: registrar.begin(range(10), 3))
        first.start()
        assert inside.wait(10)
        try:
            act(registrar)
        except InputError as error:
            met.append(str(error))
        finally:
            go_on.set()
            first.join(10)
        return registrar, met

    @pytest.mark.parametrize(
        "act",
        [
            lambda one: one.begin(range(10), 3),
            lambda one: one.join(Population(np.arange(1, 15))),
            lambda one: one.finish(one._open_turn),
            lambda one: one._open_turn.answer({}),
            lambda one: one._open_turn.blame({}),
            lambda one: one._open_turn.judge_updates(np.arange(3), np.ones(3)),
            lambda one: one.export(),
            lambda one: one.save("never written"),
            lambda one: one.restore(*Registrar(Worst(), Population(SIZES)).export()),
        ],
    )
    def test_a_second_thread_is_refused(self, act):
        registrar, met = self.during_select(act)
        assert met == [
            "A registrar and its turns must be called from one thread at a time; got a call during another one."
        ]
        assert registrar.population.n_clients == 10
        assert registrar.counters["late"] == 0
        registrar.observer = None
        play(registrar)

    def test_threads_may_take_turns(self, registrar):
        for _ in range(3):
            other = threading.Thread(target=play, args=(registrar,))
            other.start()
            other.join()
        assert registrar.index == 3


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]])
@pytest.mark.parametrize("form", ["reading", "mapping"])
def test_equal_answers_in_any_order_of_arrival_give_one_cohort(registrar, order, form):
    @method
    class FirstCome(Selector[State]):
        @property
        def needs(self):
            return Needs(asks=(LOSS,), reports=(LOSS,))

        def select(self, state, round):
            loss = yield Measure(LOSS, round.available[::-1])
            return Cohort.uniform(loss.ids[: round.budget])  # by position, as if ties were broken by arrival

        def observe(self, state, feedback):
            heard.append(feedback.report(LOSS).ids.tolist())

    heard = []
    registrar = Registrar(FirstCome(), Population(n_clients=4))
    turn = registrar.begin(range(4), 2)
    rows = dict.fromkeys(order, 1.0)
    turn.answer(rows if form == "mapping" else Reading(order, np.ones(4)))
    assert turn.cohort.ids.tolist() == [3, 2]  # in the order in which they were asked
    chosen = [k for k in order if k in (2, 3)]
    registrar.finish(turn, reports={"loss": dict.fromkeys(chosen, 1.0)})
    assert heard == [[3, 2]]


class TestInFlight:
    """A cohort at work is not lost because clients join, or because somebody begins once more."""

    def begun(self, registrar):
        turn = registrar.begin(range(10), 3)
        turn.answer(losses(turn.question.ids))
        return turn

    def test_clients_who_join_do_not_void_it(self, registrar):
        turn = self.begun(registrar)
        registrar.dispatch(turn)
        registrar.join(Population(np.arange(10, 25)))
        assert registrar.finish(turn, reports={"loss": losses(turn.cohort.ids)}).tolist() == [9, 8, 7]
        assert registrar.state.n_clients == 15
        assert registrar.state.loss[[7, 8, 9, 14]].tolist() == [0.7, 0.8, 0.9, -1.0]
        assert registrar.state.turns.tolist() == [1] * 10 + [0] * 5
        assert play(registrar, range(15)).cohort.ids.tolist() == [14, 13, 12]

    def test_clients_who_join_while_a_question_is_open_do_not_void_it(self, registrar):
        turn = registrar.begin(range(10), 3)
        registrar.join(Population(np.arange(10, 25)))
        turn.answer(losses(turn.question.ids))
        assert registrar.finish(turn, reports={"loss": losses(turn.cohort.ids)}).tolist() == [9, 8, 7]

    def test_nobody_at_work_can_be_chosen(self, registrar):
        turn = self.begun(registrar)
        registrar.dispatch(turn)
        with pytest.raises(InputError, match=r"available must be idle clients; got client 7, who is in flight\."):
            registrar.begin(range(10), 3)
        assert registrar.finish(turn).tolist() == [9, 8, 7]
        assert registrar.in_flight.size == 0

    def test_what_the_choice_remembered_counts_once_it_is_dispatched(self, registrar):
        turn = self.begun(registrar)
        assert registrar.state.turns.sum() == 0
        registrar.dispatch(turn)
        assert registrar.state.turns.sum() == 10
        assert (registrar.index, registrar.version) == (1, 0)
        registrar.give_up(turn.cohort.ids, "the server restarted")
        assert registrar.finish(turn, []).size == 0
        assert registrar.version == 1

    def test_only_the_open_turn_with_a_cohort_is_dispatched(self, registrar):
        turn = registrar.begin(range(10), 3)
        with pytest.raises(InputError, match="a turn whose questions are answered"):
            registrar.dispatch(turn)
        registrar.abandon(turn)
        with pytest.raises(InputError, match="must be the turn that is open"):
            registrar.dispatch(turn)
