"""Every fault a federation shows, each with what is expected of it, over several methods."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers.playing import simulate
from tests.simulation.small import SIZES, Scripted, world

from sortition.core import signals
from sortition.core.errors import InputError
from sortition.core.questions import Reading
from sortition.federation.pace import Pace
from sortition.selectors import load
from sortition.simulation import Devices, FaultDraws, Faults, Setup, run, run_checkpoint, start
from sortition.simulation.faults import DAMAGES, FATES, POINTS, damaged, damaged_updates

METHODS = ("uniform", "power-of-choice", "active", "divfl", "fedgs", "fedcor", "longfed", "hics", "cs-ucb-q", "fedss")
ROUNDS = 5
ALL = Faults(
    before=0.1, during=0.1, after=0.1, lost=0.1, late=0.1, damaged=0.2, duplicated=0.4, stale=0.4,
    newcomers=0.3, joining=0.3, leaving=0.2, returning=0.3, reused=0.3, crash=0.5,
)  # fmt: skip


def setup(faults, name="power-of-choice", seed=1, rounds=ROUNDS, **options):
    small_world = world(seed=seed, devices=options.pop("devices", None))
    selector = load(name) if isinstance(name, str) else name
    draws = FaultDraws(faults, small_world.n_clients, seed)
    return Setup(small_world, selector, 4, rounds, seed=seed, evaluate_every=rounds, faults=draws, **options)


def states(simulation):
    return simulation.registrar.export()[0]


def alike(one, other):
    """Model, state and counters are the same to the bit."""
    np.testing.assert_array_equal(one.params, other.params)
    for name, array in states(one).items():
        np.testing.assert_array_equal(array, states(other)[name], err_msg=name)
    assert one.registrar.export()[1] == other.registrar.export()[1]


# -- nothing goes wrong unless it is told to ------------------------------------------------------------------------


@pytest.mark.parametrize("name", METHODS)
def test_without_faults_nothing_changes(name):
    plain, before = [], Setup(world(seed=1), load(name), 4, ROUNDS, seed=1, evaluate_every=ROUNDS)
    simulation = run(before, on_record=lambda _, record: plain.append(record))
    other, records = simulate(setup(Faults(), name))
    assert records == plain
    alike(simulation, other)
    assert not any({"started", "faults"} & record.keys() for record in records)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"before": 1.5}, r"Faults.before must be a probability in \[0, 1\]; got 1.5"),
        ({"after": "0.1"}, "Faults.after must be a probability"),
        ({"lost": float("nan")}, "Faults.lost must be a probability"),
        ({"during": 0.6, "after": 0.6}, r"before \+ during \+ after must be at most 1"),
        ({"newcomers": 1.0}, "Faults.newcomers must be below 1"),
        ({"newcomers": 0.5, "joining": 0.0}, "Faults.joining must be > 0 where there are newcomers"),
    ],
)
def test_bad_faults_are_refused(wrong, told):
    with pytest.raises(InputError, match=told):
        Faults(**wrong)


# -- a client drops out ---------------------------------------------------------------------------------------------


def test_a_client_that_never_starts_costs_nothing():
    simulation, records = simulate(setup(Faults(before=1.0), "uniform"))
    for record in records:
        assert record["faults"]["before"] == record["cohort"]
        assert record["started"] == record["answered"] == []
        assert record["passes"]["training"] == record["bytes"]["model_down"] == 0
        assert record["notes"]["nothing_came_back"]
    np.testing.assert_array_equal(simulation.params, world().initial)


def test_work_that_stops_on_the_way_is_charged_in_part_and_wasted():
    played_setup = setup(Faults(during=1.0), "uniform")
    _, records = simulate(setup(Faults(during=1.0), "uniform"))
    for record in records:
        ids = np.array(record["cohort"])
        when, part = played_setup.faults.fates(record["round"], ids)
        assert (when == FATES.index("during")).all()
        done = int(np.floor(played_setup.world.costs.examples(ids) * part).sum())
        assert record["passes"] == {"training": done, "forward": 0, "wasted": done}
        assert 0 < done < played_setup.world.costs.examples(ids).sum()
        assert "started" not in record  # all of them did
        assert record["answered"] == []
        assert record["bytes"]["model_up"] == record["bytes"]["wasted_up"] == 0


def test_a_lost_upload_is_wasted_whole():
    small_world = setup(Faults(), "uniform").world
    _, records = simulate(setup(Faults(after=1.0), "uniform"))
    for record in records:
        whole = int(small_world.costs.examples(np.array(record["cohort"])).sum())
        assert record["passes"]["training"] == record["passes"]["wasted"] == whole
        assert record["bytes"]["wasted_up"] == 4 * small_world.initial.size * len(record["cohort"])


@pytest.mark.parametrize("fate", FATES)
@pytest.mark.parametrize("name", ["active", "cs-ucb-q", "hics", "longfed", "divfl", "fedss"])
def test_nothing_is_learnt_from_silence(fate, name):
    """When nobody's training arrives, the state is that of a selector to which ``observe`` told of nobody."""
    simulation, _ = simulate(setup(Faults(**{fate: 1.0}), name))
    told = start(setup(Faults(), name))
    small_world = setup(Faults(), name).world
    for t in range(ROUNDS):
        turn = told.registrar.begin(np.arange(10), 4)
        while turn.question is not None:
            turn.answer(small_world.measure(small_world.initial, turn.question, t))
        told.registrar.finish(turn, [], {})
    for key, array in states(simulation).items():
        np.testing.assert_array_equal(array, states(told)[key], err_msg=key)


def test_the_others_weights_keep_the_total():
    _, records = simulate(setup(Faults(before=0.4), Scripted(cohort=(4, 1, 7, 8), weights=(0.1, 0.2, 0.3, 0.4))))
    small_world, chosen = world(seed=1), next(r for r in records if 0 < len(r["answered"] or ()) < 4)
    assert chosen["round"] == 0, "the seed's first round loses somebody, so the model before it is the initial one"
    simulation = start(setup(Faults(before=0.4), Scripted((4, 1, 7, 8), weights=(0.1, 0.2, 0.3, 0.4))))
    simulation.play_round()
    kept = np.array(chosen["answered"])
    weights = np.array([dict(zip((4, 1, 7, 8), (0.1, 0.2, 0.3, 0.4), strict=True))[i] for i in kept])
    deltas = small_world.train(small_world.initial, kept, [], 0).deltas
    expected = small_world.initial + np.float32(weights / weights.sum()) @ deltas
    np.testing.assert_allclose(simulation.params, expected, atol=1e-6)


# -- answers and reports --------------------------------------------------------------------------------------------


def test_lost_answers_are_silence_and_late_ones_are_counted():
    asking = ((signals.LOSS, tuple(range(10)), None), (signals.BATCH_LOSS, tuple(range(10)), None))
    Scripted.seen.clear()
    simulation, records = simulate(setup(Faults(lost=0.3, late=0.3), Scripted(questions=asking)))
    lost, late = (sum(r["faults"].get(key, 0) for r in records) for key in ("lost", "late"))
    assert lost > 0
    assert late > 0
    assert simulation.registrar.counters["late"] == late
    assert sum(20 - q for q in _answered(records)) == lost + late
    assert not any(isinstance(item, Reading) and len(item) == 10 for item in Scripted.seen)
    assert sum(r["bytes"]["wasted_up"] for r in records) == 4 * late  # a late answer of one number was sent


def _answered(records):
    return [sum(q["answered"] for q in record["questions"]) for record in records]


@pytest.mark.parametrize("name", METHODS)
def test_late_duplicate_and_stale_messages_change_nothing_but_counters(name):
    """A late answer is as good as a lost one; what comes twice, or of a selection given up, is ignored."""
    quiet, expected = simulate(setup(Faults(lost=0.4), name))
    simulation, records = simulate(setup(Faults(late=0.4, duplicated=1.0, stale=1.0), name))
    np.testing.assert_array_equal(simulation.params, quiet.params)
    for key, array in states(quiet).items():
        np.testing.assert_array_equal(array, states(simulation)[key], err_msg=key)
    assert [r["cohort"] for r in records] == [r["cohort"] for r in expected]
    counters = simulation.registrar.counters
    assert (counters["duplicate"], counters["stale"]) == (ROUNDS, ROUNDS)
    assert counters["late"] == sum(r["faults"].get("late", 0) for r in records)


@pytest.mark.parametrize("kind", range(len(DAMAGES)))
def test_damaged_numbers_never_pass(kind):
    reading = Reading(np.array([3, 5, 8]), np.array([1.0, 2.0, 3.0]))
    rows = damaged(reading, np.array([-1, kind, -1]))
    values = rows if isinstance(rows, dict) else dict(zip(rows.ids.tolist(), rows.values, strict=True))
    assert values[3] == 1.0
    assert values[8] == 3.0
    hit = np.asarray(values[5])
    assert hit.shape == (2,) if DAMAGES[kind] == "shape" else not 0 <= hit < 1e15
    updates = damaged_updates(np.ones((2, 4), np.float32), np.array([kind, -1]))
    assert len(updates) == 2
    np.testing.assert_array_equal(updates[1], np.ones(4))


class Silenced(FaultDraws):
    """Where numbers would be damaged, nothing arrives."""

    def damage(self, t, reading):
        return reading.restrict(reading.ids[self._damages(t, "answers", reading.ids) < 0])

    def reports(self, t, outcome):
        sound = outcome.ids[self._damages(t, "reports", outcome.ids) < 0]
        return {name: reading.restrict(sound) for name, reading in outcome.reports.items()}


@pytest.mark.parametrize("name", METHODS)
def test_damage_is_as_good_as_silence(name):
    """NaN, infinity, wrong shapes and absurd norms reach neither model nor state: both are as if nothing had come."""
    simulation, records = simulate(setup(Faults(damaged=0.3), name))
    played_setup = setup(Faults(), name)
    silent = run(Setup(**{**vars(played_setup), "faults": Silenced(Faults(damaged=0.3), 10, 1)}))
    np.testing.assert_array_equal(simulation.params, silent.params)
    assert np.isfinite(simulation.params).all()
    for key, array in states(simulation).items():
        if key.startswith("state."):
            np.testing.assert_array_equal(array, states(silent)[key], err_msg=key)
    assert any(r["notes"].get("unsound_updates") for r in records)
    for record in records:
        assert not set(record["notes"].get("unsound_updates", ())) & set(record["answered"] or ())
    if simulation.registrar.needs.reports or simulation.registrar.needs.asks:
        assert simulation.registrar.counters["rejected"] > 0


# -- clients come and go --------------------------------------------------------------------------------------------


def test_newcomers_get_the_next_ids_and_nobody_else_moves():
    faults = Faults(newcomers=0.5, joining=0.4)
    sizes, joined = [], []
    played_setup = setup(faults, "active", rounds=8)
    simulation = start(played_setup)
    assert simulation.registrar.population.n_clients == 5
    for t in range(8):
        before = states(simulation)["state.value"]
        record = simulation.play_round()
        sizes.append(simulation.registrar.population.n_clients)
        joined += record.get("faults", {}).get("joined", [])
        assert record["available"] == sizes[-1] == played_setup.faults.size(t)
        assert max(record["cohort"]) < sizes[-1]
        np.testing.assert_array_equal(simulation.registrar.population.sizes, SIZES[: sizes[-1]])
        assert states(simulation)["state.value"].size == sizes[-1] >= before.size
    assert sizes == sorted(sizes)
    assert joined == list(range(5, sizes[-1]))


def test_who_left_is_not_asked_and_returns_with_what_was_known():
    played_setup = setup(Faults(leaving=0.4, returning=0.3), "active", rounds=12)
    simulation, gone = start(played_setup), 0
    for t in range(12):
        here, before = played_setup.faults.present(t), states(simulation)["state.value"].copy()
        record = simulation.play_round()
        assert here[record["cohort"]].all()
        assert record["available"] == here.sum()
        gone += int((~here).sum())
        after = states(simulation)["state.value"]
        np.testing.assert_array_equal(after[~here], before[~here])  # kept as it was
    assert 0 < gone < 120


def test_a_taken_id_holds_other_data_and_tells_its_facts_anew():
    played_setup = setup(Faults(leaving=0.4, returning=0.1, reused=0.5), "power-of-choice", rounds=10)
    simulation, taken = start(played_setup), []
    for t in range(10):
        record = simulation.play_round()
        taken += record.get("faults", {}).get("taken", [])
        owners = played_setup.faults.owners(t)
        now = played_setup.world_at(t)
        np.testing.assert_array_equal(simulation.registrar.population.sizes, np.array(SIZES)[owners])
        np.testing.assert_array_equal(now.training_parts.sizes, np.array(SIZES)[owners])
        np.testing.assert_array_equal(
            simulation.registrar.population.label_counts, played_setup.world.label_counts[owners]
        )
        for client in range(10):
            np.testing.assert_array_equal(
                now.training_parts.of(client), played_setup.world.training_parts.of(owners[client])
            )
    assert taken
    assert set(np.flatnonzero(owners != np.arange(10))) <= set(taken)
    assert simulation.registrar.population.n_clients == 10


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1000), t=st.integers(0, 30), leaving=st.floats(0.01, 1), reused=st.floats(0, 0.5))
def test_who_is_there_depends_on_seed_and_round_alone(seed, t, leaving, reused):
    faults = Faults(newcomers=0.3, leaving=leaving, returning=0.3, reused=reused)
    asked, fresh = FaultDraws(faults, 20, seed), FaultDraws(faults, 20, seed)
    for other in (30, 3, t + 1, 0):
        asked.present(other)
    np.testing.assert_array_equal(asked.present(t), fresh.present(t))
    for one, other in ((asked.owners(t), fresh.owners(t)), (asked.taken(t), fresh.taken(t))):
        assert one is other is None or np.array_equal(one, other)
    assert not fresh.present(t)[fresh.size(t) :].any()
    if t == 0:
        assert fresh.present(0)[: fresh.size(0)].all()


# -- the server falls over, or is stopped ---------------------------------------------------------------------------


class Falling(FaultDraws):
    """Falls over at one point of every round."""

    point = 0

    def crash_index(self, t):
        return self.point


@pytest.mark.parametrize("point", range(len(POINTS)), ids=POINTS)
@pytest.mark.parametrize("name", ["power-of-choice", "fedgs", "longfed", "cs-ucb-q"])
def test_a_crash_anywhere_leaves_no_trace(point, name):
    whole, records = simulate(setup(ALL, name))
    played_setup = setup(ALL, name)
    falling = Falling(ALL, 10, 1)
    falling.point = point
    found = []
    simulation = run(
        Setup(**{**vars(played_setup), "faults": falling}), on_record=lambda _, record: found.append(record)
    )
    assert [json.dumps(r) for r in found] == [json.dumps(r) for r in records]
    alike(simulation, whole)


@pytest.mark.parametrize("name", ["active", "fedgs", "divfl"])
def test_resuming_amid_all_faults_is_bit_identical(name, tmp_path):
    whole, records = simulate(setup(ALL, name))
    for stop in (1, 3):
        part = run(setup(ALL, name), stop)
        run_checkpoint.save(tmp_path / "saved.npz", part)
        found, resumed = [], run_checkpoint.load(tmp_path / "saved.npz", setup(ALL, name))
        simulation = run(
            setup(ALL, name), simulation=resumed, on_record=lambda _, record, found=found: found.append(record)
        )
        assert found == records[stop:]
        alike(simulation, whole)


def test_methods_under_one_seed_meet_the_same_faults():
    uniform_records, hics_records = (simulate(setup(ALL, name, rounds=12))[1] for name in ("uniform", "hics"))
    n_shared_faults = 0
    for uniform_record, hics_record in zip(uniform_records, hics_records, strict=True):
        assert uniform_record["available"] == hics_record["available"]
        chosen_by_both = set(uniform_record["cohort"]) & set(hics_record["cohort"])
        for fate in FATES:
            silent_under_uniform = chosen_by_both & set(uniform_record.get("faults", {}).get(fate, ()))
            silent_under_hics = chosen_by_both & set(hics_record.get("faults", {}).get(fate, ()))
            assert silent_under_uniform == silent_under_hics
            n_shared_faults += len(silent_under_uniform)
    assert n_shared_faults > 0, "otherwise the cohorts had nothing to compare"


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 100),
    name=st.sampled_from(METHODS),
    rates=st.lists(st.floats(0, 0.33), min_size=11, max_size=11),
    slow=st.booleans(),
)
def test_any_mixture_of_faults_keeps_the_invariants(seed, name, rates, slow):
    keys = ("before", "during", "after", "lost", "late", "damaged", "duplicated", "stale", "leaving", "reused", "crash")
    devices = Devices(speed_spread=1.0, dropout=0.2) if slow else None
    pace = Pace(deadline=1.0, overselect=1.5) if slow else Pace()
    faults = Faults(**dict(zip(keys, rates, strict=True)), newcomers=0.3)
    simulation, records = simulate(setup(faults, name, seed=seed, devices=devices, pace=pace))
    assert [r["round"] for r in records] == list(range(ROUNDS))
    assert np.isfinite(simulation.params).all()
    json.dumps(records, allow_nan=False)
    for record in records:
        started = record.get("started", record["cohort"])
        answered = record["cohort"] if record["answered"] is None else record["answered"]
        assert set(answered) <= set(started) <= set(record["cohort"])
        assert 0 <= record["passes"]["wasted"] <= record["passes"]["training"]
        assert record["skipped"] == (record["available"] == 0)
        assert record["skipped"] or record["cohort"] or name == "clustered"


def test_rates_next_to_nothing_are_rates():
    tiny = Faults(**dict.fromkeys(("before", "lost", "damaged", "leaving", "reused", "crash"), 5e-324))
    with_rates, records = simulate(setup(tiny, rounds=2))
    without_rates, expected = simulate(setup(Faults(), rounds=2))
    assert [record["cohort"] for record in records] == [record["cohort"] for record in expected]
    assert [record["answered"] for record in records] == [record["answered"] for record in expected]
    assert not any(ids for record in records for ids in record.get("faults", {}).values())
    np.testing.assert_array_equal(with_rates.params, without_rates.params)
