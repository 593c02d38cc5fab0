"""Nobody fixes the dimension of a vector signal alone, and nobody is struck for the one that most clients send."""

import numpy as np
import pytest

from sortition.core import (
    BIAS_UPDATE,
    GRADIENT,
    HEAD_UPDATE,
    LOSS,
    UPDATE,
    Guards,
    ModelSize,
    Population,
    Reading,
    Registrar,
    StorageError,
    make_probe,
)
from sortition.core.guards.row_dimensions import Dimensions
from sortition.selectors import load
from sortition.testing.play import everybody, turns
from sortition.testing.worlds import ScriptedWorld

N, LENGTH, ROUNDS = 30, 6, 30
LONE = 7
GUARDS = Guards(strikes=1, quarantine=10)
METHODS = [("fedgs", {"graph": "updates", "sketch": None}), ("longfed", {}), ("divfl", {})]


def rows(ids, t, lone):
    """Honest vectors of six numbers; the lone client sends one."""
    return {int(k): [1.0] if k == lone else np.cos(np.arange(LENGTH) * (k + 1) + 0.1 * t) for k in ids}


def attacked(name, parameters, lone=LONE, guards=GUARDS, **more):
    """The attacker is alone in the first finished turn, then the federation goes on: places held, and left empty."""
    registrar = Registrar(load(name, **parameters), Population(np.full(N, 10)), seed=2, guards=guards, **more)
    held = empty = 0
    for t in range(ROUNDS):
        turn = registrar.begin([LONE] if t == 0 else np.arange(N), 5)
        while turn.question is not None:
            turn.answer(rows(turn.question.ids, t, lone))
        reports = {signal.name: rows(turn.cohort.ids, t, lone) for signal in turn.needs.reports}
        registrar.finish(turn, reports=reports)
        held += int((turn.cohort.ids == LONE).sum()) if t else 0
        empty += turn.shortfall if t else 0
    return registrar, held, empty


@pytest.mark.parametrize(("name", "parameters"), METHODS)
def test_a_lone_client_wins_nothing_and_the_honest_stay(name, parameters):
    registrar, held, empty = attacked(name, parameters)
    strikes = registrar.strikes
    assert strikes[np.arange(N) != LONE].sum() == 0
    assert empty <= 5  # the round in which the wrong dimension was in force
    assert held <= 0.2 * 5 * (ROUNDS - 1)
    assert set(registrar.row_shapes.values()) == {(LENGTH,)}


@pytest.mark.parametrize(("name", "parameters"), METHODS)
def test_a_length_that_the_model_gives_is_in_force_from_the_first_answer(name, parameters):
    registrar, held, empty = attacked(name, parameters, model=ModelSize(LENGTH))
    assert registrar.strikes[LONE] >= 1
    assert registrar.strikes[np.arange(N) != LONE].sum() == 0
    assert held <= 5
    assert empty == 0


def test_without_a_liar_nothing_is_overturned():
    registrar, _, empty = attacked("divfl", {}, lone=None)
    assert empty == 0
    assert not registrar.strikes.any()


def test_an_overturned_length_is_noted_and_what_was_learnt_is_forgotten():
    registrar = Registrar(load("divfl"), Population(np.full(6, 10)), guards=GUARDS)
    (signal,) = registrar.needs.reports or registrar.needs.asks
    for available, lone in (([0], 0), (range(6), 0)):
        turn = registrar.begin(list(available), 3)
        while turn.question is not None:
            turn.answer(rows(turn.question.ids, 0, lone))
        registrar.finish(turn, reports={s.name: rows(turn.cohort.ids, 0, lone) for s in turn.needs.reports})
    assert turn.guarded["overturned"] == {signal.name: LENGTH}
    assert all(np.array_equal(a, b) for a, b in zip(
        registrar.state.arrays().values(), load("divfl").init(6, None).arrays().values(), strict=True))  # fmt: skip
    assert not registrar.strikes.any()


class TestVotes:
    def test_one_client_has_one_vote(self):
        dimensions = Dimensions([UPDATE], None, 5)
        shapes = {"update": (3,)}
        assert dimensions.vote([("update", np.array([0, 1]), 3)], shapes) == {}
        for _ in range(9):
            assert dimensions.vote([("update", np.array([2]), 1)], shapes) == {}
        assert dimensions.vote([("update", np.array([3]), 1)], shapes) == {}  # a tie changes nothing
        assert dimensions.vote([("update", np.array([4]), 1)], shapes) == {"update": 1}

    def test_growth_keeps_them(self):
        dimensions = Dimensions([UPDATE], None, 2)
        dimensions.vote([("update", np.array([1]), 4)], {})
        assert dimensions.copy_for(4).votes["update"].tolist() == [0, 4, 0, 0]

    def test_a_snapshot_keeps_them_and_one_of_before_speaks_for_everybody(self):
        dimensions = Dimensions([UPDATE], None, 3)
        dimensions.vote([("update", np.array([1]), 4)], {})
        restored = Dimensions([UPDATE], None, 5).restored(dimensions.export(), {})
        assert restored.votes["update"].tolist() == [0, 4, 0, 0, 0]
        assert Dimensions([UPDATE], None, 2).restored({}, {"update": (7,)}).votes["update"].tolist() == [7, 7]
        for stored in (np.zeros(9, int), np.full(2, -1), np.zeros((2, 1), int), np.zeros(2)):
            with pytest.raises(ValueError, match="votes on the dimension"):
                Dimensions([UPDATE], None, 3).restored({"lengths.update": stored}, {})

    def test_the_registrar_saves_them(self, tmp_path):
        registrar, _, _ = attacked("divfl", {})
        registrar.save(tmp_path / "r.npz")
        again = Registrar.load(tmp_path / "r.npz", load("divfl"), registrar.population)
        for name, sent in registrar.dimensions.votes.items():
            assert again.dimensions.votes[name].tolist() == sent.tolist()
        arrays, header = registrar.export()
        (name,) = registrar.dimensions.votes
        with pytest.raises(StorageError, match="Snapshot is incomplete"):
            registrar.restore({**arrays, f"lengths.{name}": np.full(N, -1)}, header)


def test_the_lengths_of_signals():
    model = ModelSize(100, 10, 60, 12)
    assert [s.dimension(model) for s in (UPDATE, GRADIENT, BIAS_UPDATE, HEAD_UPDATE)] == [100, 100, 10, 60]
    assert UPDATE.sketch(8).dimension(model) == UPDATE.sketch(8).dimension(None) == 8
    assert make_probe(np.zeros(2), np.ones(2)).dimension(model) == 12
    assert UPDATE.dimension(None) is None
    assert LOSS.dimension(model) is None


def test_a_model_of_another_size_changes_lengths_and_what_was_learnt_is_forgotten():
    registrar, _, _ = attacked("divfl", {}, lone=None, model=ModelSize(LENGTH))
    registrar.resize(ModelSize(LENGTH))
    assert registrar.state.arrays()["rows"].shape == (N, LENGTH)  # the same size changes nothing
    registrar.resize(ModelSize(LENGTH - 1))
    assert registrar.state.arrays()["rows"].shape == (N, 0)
    turn = registrar.begin(np.arange(N), 5)
    while turn.question is not None:
        turn.answer({int(k): np.full(LENGTH - (k > 0), k + 1.0) for k in turn.question.ids})
    assert turn.rejected.keys() == {0}
    assert registrar.index == ROUNDS


WIDE = ModelSize(2 * LENGTH, 2 * LENGTH, 2 * LENGTH, 2 * LENGTH)


@pytest.mark.parametrize(("name", "parameters"), [("hics", {}), ("clustered", {}), ("microcosm", {"by": "bias"})])
@pytest.mark.parametrize("way", ["resize", "load", "load, then resize"])
def test_lengths_that_votes_found_give_way_to_those_of_a_model(name, parameters, way, tmp_path):
    small, large = ScriptedWorld(N, width=LENGTH), ScriptedWorld(N, width=2 * LENGTH)
    registrar = Registrar(load(name, **parameters), small.population, horizon=20)
    for _ in turns(registrar, small, 4, 4, everybody(small)):
        pass
    assert (LENGTH,) in registrar.row_shapes.values()
    if way != "resize":
        registrar.save(tmp_path / "r.npz")
        model = WIDE if way == "load" else None
        registrar = Registrar.load(tmp_path / "r.npz", load(name, **parameters), small.population, model=model)
    if way != "load":
        registrar.resize(WIDE)
    played = list(turns(registrar, large, 4, 4, everybody(large)))
    assert all(turn.cohort.ids.size for turn in played)
    assert registrar.counters["rejected"] == 0
    assert registrar.index == 8


def test_votes_outlast_a_resize():
    registrar, _, _ = attacked("divfl", {}, lone=None)
    (before,) = registrar.dimensions.votes.values()
    registrar.resize(ModelSize(None, 3))
    (after,) = registrar.dimensions.votes.values()
    assert after.tolist() == before.tolist()


def test_scalars_and_readings_as_tables_need_no_votes():
    registrar = Registrar(load("active"), Population(np.full(4, 5)))
    turn = registrar.begin(range(4), 2)
    while turn.question is not None:
        turn.answer(Reading(turn.question.ids, np.ones(turn.question.ids.size)))
    registrar.finish(turn, reports={s.name: np.ones(2) for s in turn.needs.reports})
    assert registrar.dimensions.votes == {}
