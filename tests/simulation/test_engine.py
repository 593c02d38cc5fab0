import json

import numpy as np
import pytest
import torch
from tests.helpers.playing import simulate
from tests.simulation.small import RULE, SIZES, Scripted, data, world
from torch import nn

from sortition.aggregation import StepRule
from sortition.core import signals
from sortition.core.cohort import Cohort
from sortition.core.errors import InputError
from sortition.core.guards.settings import Guards
from sortition.core.population import Population
from sortition.core.questions import Reading
from sortition.federation.pace import Pace
from sortition.learning import Learner, LocalRule, build
from sortition.learning.batches import draw_batch_plans
from sortition.selectors import load
from sortition.simulation import Devices, FaultDraws, Faults, Setup, World, run, start


def test_fedavg_with_one_client_is_centralised_sgd():
    examples, rule = data(), LocalRule(lr=0.2, epochs=1, batch=16, decay=0.9)
    everything = np.arange(sum(SIZES))
    model = build("mlp", (6,), 4, hidden=(5,))
    small_world = World(examples, [everything], model, rule, seed=4)
    simulation, records = simulate(Setup(small_world, load("uniform"), 1, 3))
    for t in range(3):
        (plan,) = draw_batch_plans([everything], np.array([0]), rule, 4, t)
        optimiser = torch.optim.SGD(model.parameters(), lr=0.2 * 0.9**t)
        for row, count in zip(plan.index, plan.counts, strict=True):
            x, y = torch.tensor(examples.x_train[row[:count]]), torch.tensor(examples.y_train[row[:count]])
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimiser.step()
    expected = torch.cat([p.detach().reshape(-1) for p in model.parameters()]).numpy()
    np.testing.assert_allclose(simulation.params, expected, atol=1e-5)
    logits = model(torch.tensor(examples.x_test))
    loss = nn.functional.cross_entropy(logits, torch.tensor(examples.y_test)).item()
    assert records[-1]["test"]["loss"] == pytest.approx(loss, rel=1e-4)
    assert records[-1]["test"]["accuracy"] == pytest.approx(
        (logits.argmax(1).numpy() == examples.y_test).mean(), abs=0.02
    )


@pytest.mark.parametrize("name", ["uniform", "power-of-choice"])
def test_full_participation_does_not_depend_on_the_selector(name):
    parameters = {"weights": "uniform"} if name == "uniform" else {"d": 10}
    one, _ = simulate(Setup(world(), load(name, **parameters), 10, 3))
    other, _ = simulate(Setup(world(), Scripted(cohort=tuple(range(10))), 10, 3))
    np.testing.assert_allclose(one.params, other.params, atol=1e-6)


def test_the_next_model_is_the_weighted_sum_of_updates():
    small_world = world()
    setup = Setup(small_world, Scripted(cohort=(4, 1), weights=(0.5, 0.3)), 2, 3)
    simulation = start(setup)
    record = simulation.play_round()
    deltas = small_world.train(small_world.initial, np.array([4, 1]), [], 0).deltas
    np.testing.assert_allclose(simulation.params, small_world.initial + np.float32([0.5, 0.3]) @ deltas, atol=1e-6)
    assert record["cohort"] == [4, 1]
    assert record["weights"] == [0.5, 0.3]
    assert record["answered"] is None
    losses = small_world.train(small_world.initial, np.array([4, 1]), [], 0).losses
    assert record["train_loss"] == pytest.approx(losses.mean(), rel=1e-6)


def test_the_same_seed_gives_the_same_bytes_and_another_does_not():
    def lines(seed):
        _, records = simulate(Setup(world(seed=seed), load("power-of-choice", d=6), 3, 4, seed=seed))
        return [json.dumps(record) for record in records]

    assert lines(5) == lines(5)
    assert lines(5) != lines(6)


def test_a_client_trains_the_same_whoever_trains_beside_it():
    one, other = (world().train(world().initial, np.array(ids), [], 2) for ids in ([3, 7], [0, 5, 7, 9]))
    np.testing.assert_allclose(one.deltas[1], other.deltas[2], atol=1e-6)


def test_records_are_plain_and_hold_what_was_played():
    after = Cohort.uniform([0, 2])
    asking = ((signals.LOSS, (1, 2, 3), None), (signals.BIAS_UPDATE, (4, 5), None), (signals.LOSS, (6,), after))
    selector = Scripted(questions=asking, reported=(signals.LOSS, signals.UPDATE))
    simulation, records = simulate(Setup(world(), selector, 3, 3, evaluate_every=2, clients_every=3))
    assert json.loads(json.dumps(records, allow_nan=False)) == records
    first = records[0]
    assert [r["round"] for r in records] == [0, 1, 2]
    assert ["test" in r for r in records] == [False, True, True]  # every second, and the last
    assert set(records[2]["clients"]) == {"mean", "std", "worst_tenth", "min"}
    assert simulation.client_scores.shape == (10,)
    assert first["available"] == 10
    assert not first["skipped"]
    told = [(q["signal"], q["of"], q["asked"], q["answered"], q["floats"], q["after"]) for q in first["questions"]]
    assert told == [
        ("loss", "model", 3, 3, 3, 0),
        ("bias-update", "training", 2, 2, 8, 0),
        ("loss", "model", 1, 1, 1, 2),
    ]
    assert not any("second" in key or "time" in key for key in first)
    assert set(simulation.timings) == {"select", "measure", "train", "aggregate", "evaluate"}


def test_nobody_available_is_a_skipped_round():
    class Odd:
        def at(self, t):
            return np.full(10, t % 2 == 1)

    simulation, records = simulate(Setup(world(), load("uniform"), 3, 4, availability=Odd()))
    assert [r["skipped"] for r in records] == [True, False, True, False]
    assert records[2]["test"] == records[1]["test"]  # the model stays
    assert records[0]["bytes"]["model_down"] == 0
    assert simulation.registrar.index == 4


def test_bad_availability_and_set_ups_are_refused():
    class Short:
        def at(self, t):
            return np.ones(3, bool)

    with pytest.raises(InputError, match=r"availability.at\(t\) must be a mask of 10 clients"):
        simulate(Setup(world(), load("uniform"), 3, 1, availability=Short()))
    with pytest.raises(InputError, match=r"Setup.cohort must be a whole number ≥ 1; got 0"):
        Setup(world(), load("uniform"), 0, 1)
    with pytest.raises(InputError, match="of the world's 10 clients"):
        start(Setup(world(), load("uniform"), 1, 1, population=Population(np.ones(3))))


class Faulty(FaultDraws):
    """Client 4 diverges, client 1 reports NaN and answers nothing."""

    def answers(self, t, question, reading):
        return reading.restrict([i for i in reading.ids if i != 1]), Reading.empty()

    def updates(self, t, outcome):
        deltas = outcome.deltas.copy()
        deltas[outcome.ids == 4, 0] = np.nan
        return deltas

    def reports(self, t, outcome):
        loss = outcome.reports["loss"].values.copy()
        loss[outcome.ids == 1] = np.nan
        return {"loss": Reading(outcome.ids, loss)}


def test_unsound_updates_and_reports_stay_outside():
    Scripted.seen.clear()
    selector = Scripted(questions=((signals.LOSS, (1, 2), None),), reported=(signals.LOSS,))
    simulation, records = simulate(Setup(world(), selector, 3, 2, faults=Faulty(Faults(), 10, 0)))
    assert np.isfinite(simulation.params).all()
    assert records[0]["answered"] == [1, 7]
    assert records[0]["notes"]["unsound_updates"] == [4]
    assert records[0]["rejected"] == {"1": "loss: not finite"}
    assert records[0]["questions"][0]["answered"] == 1
    feedback = Scripted.seen[2]
    assert feedback.ids.tolist() == [1, 7]
    assert feedback.reports["loss"].ids.tolist() == [7]


def test_when_nothing_comes_back_the_model_stays():
    small_world = world(devices=Devices(dropout=1.0))
    simulation, records = simulate(Setup(small_world, load("uniform"), 3, 2))
    np.testing.assert_array_equal(simulation.params, small_world.initial)
    assert records[0]["answered"] == []
    assert records[0]["notes"]["nothing_came_back"]


def test_over_selection_closes_at_the_cohort_size():
    small_world = world(devices=Devices(speed_spread=1.0))
    _, records = simulate(Setup(small_world, load("uniform"), 4, 3, pace=Pace(overselect=1.5)))
    for record in records:
        assert len(record["cohort"]) == 6
        assert len(record["answered"]) == 4
        lost = [i for i in record["cohort"] if i not in record["answered"]]
        seconds = small_world.costs.seconds(np.arange(10), record["round"])
        assert seconds[lost].min() >= seconds[record["answered"]].max()
        assert record["passes"]["wasted"] == small_world.costs.examples(np.array(lost)).sum()
        assert record["bytes"]["wasted_up"] == 2 * 4 * small_world.initial.size


def test_the_server_rule_takes_the_step():
    simulation, _ = simulate(Setup(world(), Scripted(), 3, 1, step=StepRule(lr=0.5)))
    plain, _ = simulate(Setup(world(), Scripted(), 3, 1))
    start_at = world().initial
    np.testing.assert_allclose(simulation.params - start_at, 0.5 * (plain.params - start_at), atol=1e-6)


def test_mass_in_expectation_is_kept_by_engine_records_and_explorers():
    devices = Devices(dropout=0.5)
    selector = Scripted(cohort=(4, 1, 7), weights=(2.0, 0.5, 0.25), mass="expected")
    small_world = world(devices=devices)
    setup = Setup(small_world, selector, 3, 6)
    simulation = start(setup)
    lost = 0
    for t in range(6):
        before = simulation.params
        record = simulation.play_round()
        assert record["mass"] == "expected"
        ids = np.array(record["cohort"] if record["answered"] is None else record["answered"], np.int64)
        lost += 3 - ids.size
        weights = np.array([{4: 2.0, 1: 0.5, 7: 0.25}[int(k)] for k in ids], np.float32)
        np.testing.assert_allclose(
            simulation.params, before + weights @ small_world.train(before, ids, [], t).deltas, atol=1e-6
        )
    assert lost > 0
    guarded = Setup(world(), selector, 3, 40, guards=Guards(explore=0.4))
    totals = []
    for record in simulate(guarded)[1]:
        explored = record["notes"].get("guards", {}).get("explored", [])
        for client, weight in zip(record["cohort"], record["weights"], strict=True):
            kept = {4: 2.0, 1: 0.5, 7: 0.25}.get(client)
            assert weight == pytest.approx(2.75 / 3 if client in explored else kept)
        totals.append(sum(record["weights"]))
    assert np.mean(totals) == pytest.approx(2.75, rel=0.1)  # 40 rounds; leaving out takes what explorers add


def test_run_stops_when_told():
    simulation = run(Setup(world(), Scripted(), 3, 9), on_record=lambda _, record: record["round"] == 2)
    assert simulation.registrar.index == 3


def _reachable(roots):
    """Every object that can be reached from what a selector was given, without going into modules and classes."""
    todo, seen = list(roots), {}
    while todo:
        item = todo.pop()
        if id(item) in seen or item is None or isinstance(item, type | str | int | float | bytes):
            continue
        seen[id(item)] = item
        if isinstance(item, dict):
            todo += [*item.values()]
        elif isinstance(item, list | tuple):
            todo += item
        elif isinstance(item, np.ndarray):
            todo.append(item.base)
        else:
            todo += [
                getattr(item, s) for c in type(item).__mro__ for s in getattr(c, "__slots__", ()) if hasattr(item, s)
            ]
            todo += vars(item).values() if hasattr(item, "__dict__") else []
            todo += [cell.cell_contents for cell in getattr(item, "__closure__", None) or ()]
    return list(seen.values())


def test_a_clients_data_never_reach_a_selector():
    Scripted.seen.clear()
    small_world = world()
    asking = tuple((s, (1, 2), None) for s in (signals.LOSS, signals.GRADIENT, signals.UPDATE, signals.PRODUCTS))
    simulate(Setup(small_world, Scripted(questions=asking, reported=(signals.UPDATE, signals.LOSS)), 3, 2))
    found = _reachable(Scripted.seen)
    assert len(found) > 20
    x = small_world.learner.examples.rows.numpy()
    assert not any(isinstance(item, World | Learner | torch.Tensor) for item in found)
    for item in found:
        if isinstance(item, np.ndarray):
            assert not np.shares_memory(item, x)
            assert not np.shares_memory(item, small_world.y)
            assert not np.shares_memory(item, small_world.training_parts.order)


def test_devices_and_rule_are_the_worlds():
    slow, fast = (world(RULE, devices=Devices(speed=s)) for s in (10.0, 1000.0))
    a, b = (simulate(Setup(w, Scripted(), 3, 1))[1][0]["clock"] for w in (slow, fast))
    assert a == pytest.approx(100 * b)


class Few:
    """Two of ten clients in the first round, then everybody."""

    def at(self, t):
        return (np.arange(10) < 2) if t == 0 else np.ones(10, bool)


def test_places_that_nobody_can_fill_are_recorded():
    records = simulate(Setup(world(), load("uniform"), 3, 2, availability=Few()))[1]
    assert [record["notes"] for record in records] == [{"shortfall": 1}, {}]
    assert len(records[0]["cohort"]) == 2
    full = simulate(Setup(world(), load("full"), 3, 1, availability=Few()))[1][0]
    assert full["notes"] == {}  # everybody takes part: there are no places
