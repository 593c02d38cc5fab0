"""The simulator where work outlives a step: the properties of docs/time.md."""

import itertools
from operator import attrgetter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers.playing import simulate
from tests.simulation.small import SIZES, parts, world

from sortition.aggregation import CombineRule
from sortition.core import STEP_GRADIENT
from sortition.core.cohort import Cohort
from sortition.core.errors import InputError, StorageError
from sortition.core.guards.settings import Guards
from sortition.data import Dataset
from sortition.federation.pace import Pace, Quantile
from sortition.federation.staleness import Staleness
from sortition.learning import LocalRule, build
from sortition.selectors import discover, find, load
from sortition.selectors.pisces import expected_lag
from sortition.simulation import Attacks, Devices, FaultDraws, Faults, Setup, World, run_checkpoint, start
from sortition.simulation.round_cache import RoundCache

N = len(SIZES)
ROUNDS = 8
SLOW = Devices(speed=100.0, speed_spread=1.0, jitter=0.2)
LATE = Pace(quorum=0.6, late="use")
BUFFERED = Pace(kind="buffered", concurrency=5, buffer=2)
ARRIVAL = Pace(kind="buffered", concurrency=5, buffer=3, refill="arrival", normalise="count")
ADAPTIVE = Pace(kind="buffered", concurrency=4, buffer="adaptive")
DEADLINE = Pace(deadline=0.3, late="use", staleness="saa", max_staleness=3)
CHANGING = Faults(before=0.1, during=0.1, after=0.1, lost=0.1, late=0.1, damaged=0.1)
MOVING = Faults(newcomers=0.3, joining=0.3, leaving=0.15, returning=0.3, reused=0.4)


def setup(pace=BUFFERED, name="uniform", *, devices=SLOW, faults=None, rounds=ROUNDS, parameters=None, **rest):
    world_options = rest.pop("world", {})
    method = load(name, **(parameters or {}))
    if method.needs.of_server:
        clients = parts()
        validation = clients[4][:8]
        clients[4] = clients[4][8:]
        world_options = {**world_options, "clients": clients, "validation": validation}
    small_world = world(devices=devices, **world_options)
    seed = rest.pop("seed", 0)
    population = small_world.population(features=np.arange(3.0 * N).reshape(N, 3), groups=np.arange(N) % 3)
    draws = None if faults is None else FaultDraws(faults, N, seed)
    return Setup(small_world, method, 3, rounds, population, faults=draws, pace=pace, seed=seed, **rest)


def played(*args, **rest):
    return simulate(setup(*args, **rest))


def answered(record):
    return record["cohort"] if record["answered"] is None else record["answered"]


def check_accounts(records):
    """Nobody is in flight twice, and every dispatch ends exactly once."""
    flying = set()
    for t, record in enumerate(records):
        assert record["round"] == t
        sent = record["cohort"]
        used = answered(record)
        ended = [*used]
        for fate in ("failed", "given_up", "too_stale"):
            ended += [int(client) for client in record.get(fate, {})]
        ended += record["notes"].get("unsound_updates", [])
        assert len(set(ended)) == len(ended)
        assert len(set(sent)) == len(sent)
        assert not flying & set(sent)
        flying = (flying | set(sent)) - set(ended)
        assert record.get("in_flight", 0) == len(flying), t
    return flying


# 1. The same bytes as rounds ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", discover())
def test_equal_durations_and_concurrency_equal_to_buffer_give_the_bytes_of_rounds(name):
    method = find(name)
    parameters = method.examples()[0]
    same = {"devices": None, "parameters": parameters, "faults": CHANGING, "rounds": 5}
    rounds, one = played(Pace(), name, **same)
    buffered, other = played(Pace(kind="buffered", buffer=3), name, **same)
    if any(record["full"] or len(record["cohort"] or ()) > 3 for record in one):
        return  # more than the concurrency are at work: cohorts of everybody, or of a random size
    for mine, theirs in zip(one, other, strict=True):
        for key in ("round", "available", "cohort", "weights", "questions", "train_loss", "notes", "rejected"):
            assert mine.get(key) == theirs.get(key), (name, key)
        assert answered(mine) == answered(theirs)
    assert rounds.params.tobytes() == buffered.params.tobytes()
    arrays, again = rounds.registrar.export()[0], buffered.registrar.export()[0]
    for key, array in arrays.items():
        np.testing.assert_array_equal(array, again[key], err_msg=key)


def equal_devices():
    """Equal durations, though clients hold different numbers of examples."""
    return {"rule": LocalRule(lr=0.1, steps=3, batch=3)}


def test_whole_records_are_those_of_rounds():
    for faults in (None, MOVING):
        _, one = played(Pace(), devices=None, world=equal_devices(), faults=faults)
        _, other = played(Pace(kind="buffered", buffer=3), devices=None, world=equal_devices(), faults=faults)
        assert one == other


def test_a_quorum_of_all_is_a_round():
    assert played(Pace(quorum=1.0))[1] == played(Pace())[1]


# 2. Every dispatch ends once ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pace",
    [LATE, BUFFERED, ARRIVAL, ADAPTIVE, DEADLINE],
    ids=["late", "buffered", "arrival", "adaptive", "deadline"],
)
@pytest.mark.parametrize("faults", [None, CHANGING, MOVING], ids=["sound", "faults", "moving"])
def test_every_dispatch_ends_exactly_once(pace, faults):
    simulation, records = played(pace, faults=faults, rounds=20)
    assert check_accounts(records) == set(simulation.flying) == set(simulation.registrar.in_flight.tolist())
    assert any(record.get("staleness") for record in records)
    clocks = [record["clock"] for record in records]
    assert clocks == sorted(clocks)


PACES = st.one_of(
    st.builds(
        Pace,
        kind=st.just("buffered"),
        concurrency=st.integers(3, 8),
        buffer=st.integers(1, 3),
        refill=st.sampled_from(["step", "arrival", 2]),
        normalise=st.sampled_from(["mass", "count"]),
        deadline=st.sampled_from([None, 0.4, Quantile(0.7)]),
        max_staleness=st.sampled_from([None, 0, 2]),
        staleness=st.sampled_from(["constant", "polynomial", "hinge", "saa", Staleness("polynomial", exponent=2.0)]),
        slot=st.sampled_from([None, 0.2]),
    ),
    st.builds(
        Pace,
        late=st.just("use"),
        quorum=st.sampled_from([0.3, 2]),
        overselect=st.sampled_from([1.0, 1.5]),
        deadline=st.sampled_from([None, 0.3, Quantile(0.5)]),
        max_staleness=st.sampled_from([None, 1]),
        staleness=st.sampled_from(["constant", "polynomial", "hinge", "saa"]),
    ),
)


# 3. Mass --------------------------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(
    pace=PACES,
    rates=st.lists(st.floats(0, 0.2), min_size=8, max_size=8),
    seed=st.integers(0, 50),
    attacked=st.booleans(),
    name=st.sampled_from(["uniform", "power-of-choice", "fedgs", "microcosm", "clustered"]),
)
def test_weights_sum_to_what_the_rule_states(pace, rates, seed, attacked, name):
    keys = ("before", "during", "after", "lost", "late", "damaged", "leaving", "reused")
    faults = Faults(**dict(zip(keys, rates, strict=True)), newcomers=0.3)
    options = {"attacks": Attacks("adaptive", 0.2, 10.0)} if attacked else {}
    simulation, records = played(pace, name, faults=faults, seed=seed, rounds=10, world=options)
    check_accounts(records)
    assert np.isfinite(simulation.params).all()
    for record in records:
        if "used" in record:
            total = sum(record["used"])
            assert 0 < total <= 1 + 1e-9
            if pace.normalise == "mass":
                assert total == pytest.approx(1.0)


# 4. Killed at any moment ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pace", [LATE, BUFFERED, ARRIVAL, ADAPTIVE, DEADLINE, Pace(deadline=Quantile(0.6))], ids=str)
def test_a_run_that_goes_on_from_any_step_ends_the_same(pace, tmp_path):
    rule = LocalRule(lr=0.1, epochs=1, batch=8, optimizer="adam", keep_state=True, decay=0.9)
    about = setup(pace, faults=MOVING, world={"rule": rule}, rounds=10)
    whole = start(about)
    records = [whole.play_round() for _ in range(10)]
    for cut in range(1, 10, 2):
        first = start(about)
        for _ in range(cut):
            first.play_round()
        run_checkpoint.save(tmp_path / "file", first)
        again = run_checkpoint.load(tmp_path / "file", about)
        assert [again.play_round() for _ in range(cut, 10)] == records[cut:]
        assert again.params.tobytes() == whole.params.tobytes()
        assert again.totals == whole.totals


def test_a_run_killed_with_a_thousand_trainings_in_flight_loses_and_doubles_none(tmp_path):
    n_clients = 1200
    data = Dataset("points", *points(n_clients), *points(10), 2)
    small_world = World(
        data,
        list(np.arange(n_clients).reshape(-1, 1)),
        build("softmax", (2,), 2),
        LocalRule(lr=0.1, steps=1, batch=1),
        devices=Devices(speed=1.0, speed_spread=1.0),
    )
    pace = Pace(kind="buffered", concurrency=1000, buffer=100)
    about = Setup(small_world, load("uniform"), 1000, 6, pace=pace, evaluate_every=0)
    whole = start(about)
    records = [whole.play_round() for _ in range(6)]
    assert records[2]["in_flight"] == 900
    killed = start(about)
    for _ in range(3):
        killed.play_round()
    run_checkpoint.save(tmp_path / "file", killed)
    killed.before_training()  # a thousand are at work when the process dies
    assert len(killed.flying) == 1000
    again = run_checkpoint.load(tmp_path / "file", about)
    assert [again.play_round() for _ in range(3, 6)] == records[3:]
    assert again.params.tobytes() == whole.params.tobytes()
    assert len(check_accounts(records)) == 900


def points(n):
    rng = np.random.default_rng(n)
    return rng.random((n, 2), dtype=np.float32), rng.integers(0, 2, n)


@pytest.mark.parametrize("name", ["fedcor", "divfl", "oort", "delta"])
def test_methods_that_train_for_their_questions_go_on_the_same(name, tmp_path):
    about = setup(BUFFERED, name, parameters=find(name).examples()[0], rounds=6)
    whole = start(about)
    records = [whole.play_round() for _ in range(6)]
    first = start(about)
    for _ in range(3):
        first.play_round()
    run_checkpoint.save(tmp_path / "file", first)
    again = run_checkpoint.load(tmp_path / "file", about)
    assert [again.play_round() for _ in range(3)] == records[3:]


def test_a_checkpoint_of_another_pace_is_refused(tmp_path):
    simulation = start(setup(BUFFERED))
    simulation.play_round()
    run_checkpoint.save(tmp_path / "file", simulation)
    with pytest.raises(StorageError, match="of another pace"):
        run_checkpoint.load(tmp_path / "file", setup(Pace()))


# 5. Everything works under every pace, or is refused ------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["crash", "duplicated", "stale"])
def test_faults_of_rounds_are_refused_by_name(fault):
    with pytest.raises(InputError, match=rf"Faults\.{fault} must be 0 under this pace; got 0\.5\."):
        setup(BUFFERED, faults=Faults(**{fault: 0.5}))


def test_rules_that_remember_rates_are_refused_where_rates_change():
    rule = LocalRule(lr=0.1, epochs=1, batch=8, decay=0.9)
    with pytest.raises(InputError, match=r"CombineRule\.remember must be 'raw'"):
        setup(BUFFERED, world={"rule": rule}, combine=CombineRule("fedvarp"))
    played(BUFFERED, world={"rule": rule}, combine=CombineRule("fedvarp", remember="raw"), rounds=3)


def test_methods_that_count_rounds_are_refused_between_steps():
    with pytest.raises(InputError, match=r"pace\.refill must be 'step' for REFL; got 'arrival'\."):
        setup(ARRIVAL, "refl")


def test_memory_of_work_in_flight_is_refused_before_anything_runs():
    with pytest.raises(InputError, match=r"pace\.memory_limit must be at least .* 5 clients in flight"):
        setup(Pace(kind="buffered", concurrency=5, buffer=2, memory_limit=1e-7))


def test_a_minimum_above_the_buffer_is_refused():
    with pytest.raises(InputError, match=r"Guards\.minimum must be at most 2, with which a step is made; got 3\."):
        setup(BUFFERED, guards=Guards(minimum=3))


@pytest.mark.parametrize("pace", [LATE, BUFFERED, ARRIVAL], ids=["late", "buffered", "arrival"])
@pytest.mark.parametrize("rule", ["median", "norm-bound", "mifa", "fedvarp"])
def test_combining_rules(pace, rule):
    simulation, records = played(pace, combine=CombineRule(rule), rounds=6)
    assert np.isfinite(simulation.params).all()
    check_accounts(records)


def test_guards_and_adversaries():
    guards = Guards(norm=5.0, strikes=1, quarantine=3, winsorise=3.0, explore=0.3, ceiling=2.0)
    attacks = {"attacks": Attacks("adaptive", 0.2, 10.0)}
    for pace in (LATE, BUFFERED, ARRIVAL):
        _, records = played(pace, "power-of-choice", guards=guards, faults=CHANGING, world=attacks, rounds=12)
        check_accounts(records)


# 6. Every method ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", discover())
def test_every_method_under_every_pace(name):
    method = find(name)
    parameters = method.examples()[0]
    for pace in (LATE, BUFFERED, ARRIVAL):
        if pace is ARRIVAL and method.counts_rounds:
            continue
        simulation, records = played(pace, name, parameters=parameters, rounds=6)
        check_accounts(records)
        assert np.isfinite(simulation.params).all()


# What a pace does -----------------------------------------------------------------------------------------------------


def test_a_step_no_longer_waits_for_the_slow():
    waiting = played(Pace(), rounds=20)[1][-1]["clock"]
    late = played(LATE, rounds=20)[1][-1]["clock"]
    buffered = played(Pace(kind="buffered", concurrency=3, buffer=1), rounds=20)[1][-1]["clock"]
    assert late < waiting
    assert buffered < waiting


def test_adaptive_steps_keep_clients_at_most_so_many_versions_behind_as_are_at_work():
    """Pisces's rule: who takes as long as last time meets at most `concurrency` steps, however fast others are."""
    devices = Devices(speed=100.0, table=[{"client": k, "examples_per_second": 5.0} for k in (1, 4)])

    def staleness_of_those_known(pace):
        _, records = played(pace, rounds=150, devices=devices)
        check_accounts(records)
        has_answered = set()
        found = []
        for record in records:
            staleness = record.get("staleness") or [0] * len(answered(record))
            found += [tau for client, tau in zip(answered(record), staleness, strict=True) if client in has_answered]
            has_answered |= set(answered(record))
        return max(found)

    assert staleness_of_those_known(Pace(kind="buffered", concurrency=4, buffer=1)) > 4
    assert staleness_of_those_known(ADAPTIVE) <= 4


def test_arrivals_of_one_moment_are_taken_by_id():
    _, records = played(Pace(kind="buffered", concurrency=6, buffer=2), devices=None, world=equal_devices())
    first = records[0]
    assert first["answered"] == [client for client in first["cohort"] if client in sorted(first["cohort"])[:2]]
    assert records[0]["clock"] == records[1]["clock"] == records[2]["clock"]


def test_updates_that_are_too_stale_are_dropped_by_name():
    _, records = played(Pace(kind="buffered", concurrency=6, buffer=1, max_staleness=1), rounds=15)
    dropped = [record["too_stale"] for record in records if "too_stale" in record]
    assert dropped
    assert set(dropped[0].values()) == {"more than 1 versions old"}
    assert max(tau for record in records for tau in record.get("staleness", [0])) <= 1


def test_a_deadline_of_a_buffered_pace_gives_work_up():
    _, records = played(Pace(kind="buffered", concurrency=5, buffer=2, deadline=0.2), rounds=15)
    given_up = [reason for record in records for reason in record.get("given_up", {}).values()]
    assert "no answer before the deadline" in given_up
    check_accounts(records)


def test_nobody_there_waits_for_the_next_slot():
    class Night:
        def at(self, t):
            return np.full(N, t >= 3)

    about = setup(Pace(slot=10.0), availability=Night(), rounds=5)
    simulation = start(about)
    records = [simulation.play_round() for _ in range(5)]
    assert [record["skipped"] for record in records] == [True, True, True, False, False]
    assert [record["clock"] for record in records[:3]] == [10.0, 20.0, 30.0]


def test_a_full_cohort_may_exceed_the_concurrency_and_refilling_pauses():
    _, records = played(BUFFERED, "full", rounds=12)
    assert len(records[0]["cohort"]) == N
    assert records[1]["cohort"] == []
    check_accounts(records)


def test_selections_and_versions_agree_where_places_are_filled_at_steps():
    simulation, _ = played(BUFFERED, rounds=12)
    assert simulation.registrar.index == simulation.registrar.version == 12
    simulation, _ = played(ARRIVAL, rounds=12)
    assert simulation.registrar.index > simulation.registrar.version == 12


def test_the_learning_rate_is_the_versions():
    rates = []
    for pace in (BUFFERED, ARRIVAL):
        simulation = start(setup(pace, world={"rule": LocalRule(lr=0.1, epochs=1, batch=8, decay=0.5)}, rounds=4))
        for _ in range(4):
            simulation.play_round()
        at_work = simulation.selections.values()
        rates += [(selection.version, selection.training().drawn().lr) for selection in at_work]
    assert rates
    assert all(rate == pytest.approx(0.1 * 0.5**version) for version, rate in rates)


def test_reports_divide_by_the_rate_that_was_trained_with():
    rule = LocalRule(lr=0.1, epochs=1, batch=8, decay=0.5)
    simulation = start(setup(ARRIVAL, world={"rule": rule}, rounds=4))
    for _ in range(4):
        simulation.play_round()
    selection = max(simulation.selections.values(), key=attrgetter("index"))
    assert selection.index > selection.version
    client = int(selection.to_train[0])
    (gradient,) = selection.cache.read(STEP_GRADIENT, np.array([client])).values
    block, row = selection.cache.trained(client)
    rate = 0.1 * 0.5**selection.version
    np.testing.assert_allclose(gradient, block.deltas[row] / (-rate * block.steps[row]), rtol=1e-6)


def test_a_rehearsal_trains_at_the_rate_of_the_version():
    decaying = world(rule=LocalRule(lr=0.1, epochs=1, batch=8, decay=0.5))
    steady = world(rule=LocalRule(lr=0.1, epochs=1, batch=8))
    cohort = Cohort.uniform([0, 1])
    selection = 3
    decaying.cache = RoundCache(decaying, decaying.initial, selection, version=0)
    trial_model = decaying.rehearse(decaying.initial, cohort, selection)
    assert trial_model.tobytes() == steady.rehearse(steady.initial, cohort, selection).tobytes()


def test_refl_is_whole_with_its_pace():
    """IPS chooses among the idle that do not rest; SAA uses what comes late, with less weight than a fresh update."""
    pace = Pace(deadline=0.4, quorum=0.6, overselect=1.3, late="use", staleness=Staleness("saa", beta=0.35))
    _, records = played(pace, "refl", rounds=30, parameters={"cooldown": 1})
    check_accounts(records)
    mixed = [record for record in records if any(record.get("staleness", ())) and not all(record["staleness"])]
    assert mixed
    for record in mixed:
        weights = np.array(record["used"])
        stale = np.array(record["staleness"]) > 0
        assert weights.sum() == pytest.approx(1.0)
        assert weights[stale].max() < 0.5463 * weights[~stale].min() * (1 + 1e-9)
    chosen = [set(record["cohort"]) for record in records]
    assert not any(now & before for before, now in itertools.pairwise(chosen))  # who took part rests


@pytest.mark.parametrize("pace", [LATE, BUFFERED], ids=["late", "buffered"])
def test_oort_under_overlap(pace):
    """Picks are counted once per dispatch, losses are observed of late updates too, and nobody stays new."""
    simulation, records = played(pace, "oort", rounds=40)
    check_accounts(records)
    state = simulation.registrar.state
    dispatched = np.zeros(N, int)
    for record in records:
        dispatched[record["cohort"]] += 1
    dispatched[simulation.registrar.in_flight] -= 1
    assert state.picks.tolist() == dispatched.tolist()
    assert any(any(record.get("staleness", ())) for record in records)
    assert not np.isnan(state.utility[dispatched > 0]).any()


def test_oort_counts_rounds_and_is_refused_between_steps():
    with pytest.raises(InputError, match=r"pace\.refill must be 'step' for Oort"):
        setup(ARRIVAL, "oort")


def test_pisces_prefers_who_is_fresh():
    """Clients whose updates arrive stale are chosen less, by a steep discount."""
    devices = Devices(speed=100.0, table=[{"client": k, "examples_per_second": 4.0} for k in (1, 4, 6)])
    simulation, records = played(BUFFERED, "pisces", rounds=80, devices=devices, parameters={"beta": 20.0})
    check_accounts(records)
    lags = expected_lag(simulation.registrar.state.lags)
    dispatched = np.zeros(N, int)
    for record in records:
        dispatched[record["cohort"]] += 1
    slow = np.isin(np.arange(N), (1, 4, 6))
    assert lags[slow].mean() > lags[~slow].mean() + 1
    assert dispatched[slow].max() < dispatched[~slow].max() / 2
